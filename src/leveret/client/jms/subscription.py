"""How messages get from a queue to a consumer: pushed ahead of the application, or pulled one by one.

Push is a consumer of AMQP with a prefetch. Where messages stay unacked after the application had them, the prefetch
would be used up in the end. Then a new consumer, with a new prefetch, takes the place of the old one on the same
channel: the messages stay, the window moves on. So never more than the prefetch waits in the client.

After a cut (``failover:``) the broker delivers what the application has in hand a second time, before anything new. The
client's audit drops that, so it never arrives here; but it uses up the prefetch of the consumer that gets it. So
those that are expected again are counted, in their order, as held by the windows to come.

Pull takes one message per request. It asks by basic.get; if the queue is empty, or a selector chooses, a consumer that
the broker ends after one message (``x-pull-one``) waits there. A broker that does not know such consumers is told to
send one, and the consumer is cancelled as soon as it has arrived. There is no polling.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from leveret.client.consumers import Consumer
from leveret.client.errors import Cancelled, ClientError, Closed
from leveret.client.jms.ack_modes import AckType
from leveret.client.jms.delivered import Dispatched, Window
from leveret.client.jms.errors import InvalidDestination
from leveret.client.messages import Delivery
from leveret.errors import AmqpError
from leveret.wire.fields import Table

if TYPE_CHECKING:
    from leveret.client.jms.consumer import MessageConsumer

X_PULL_ONE = "x-pull-one"


class Push:
    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer
        self._window = Window()  # of the AMQP consumer that is subscribed
        self._expected: deque[Dispatched] = deque()  # in hand, and not yet delivered again after a cut
        self._subscribed: Consumer | None = None
        self._opening: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The caller may be cancelled in the meantime: close() waits for the outcome."""
        self._opening = asyncio.ensure_future(self._open())
        self._opening.add_done_callback(_looked_at)
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        consumer, session, source = self._consumer, self._consumer.session, self._consumer.source
        window, dispatch, now = Window(), session.dispatch, session.connection.clock.now

        def take(delivery: Delivery) -> None:
            window.held += 1
            dispatch(Dispatched(consumer, delivery, now(), window))

        async with session.subscribing:
            await session.channel.qos(consumer.prefetch)
            subscribed = await session.channel.consume(
                source.queue, take, exclusive=source.exclusive, arguments=source.arguments
            )
        self._window, self._subscribed = window, subscribed
        self._expect()
        subscribed.on_end = self._ended
        if subscribed.problem is not None:
            self._ended(subscribed.problem)
        if session.holds:
            self.consumed()  # all of it may have been taken before we were told that it is open

    def _ended(self, problem: Exception) -> None:
        if not isinstance(problem, Closed):  # not by us
            self._consumer.cancelled(problem)
            self._consumer.session.connection.trouble(problem)

    def settled(self, entry: Dispatched) -> None:
        if entry.window is not None:
            entry.window.held -= 1
            if self._expected:
                self._expect()

    def taken_back(self, entry: Dispatched) -> None:
        """It was not settled after all."""
        if entry.window is not None:
            entry.window.held += 1

    def consumed(self) -> None:
        """The application has another one, unacked."""
        consumer = self._consumer
        if self._window.held < consumer.prefetch or self._moving is not None or consumer.is_closed:
            return
        consumer.session.move()
        if not consumer.unconsumed:
            self._moving = consumer.session.run(self._move_on)

    def interrupted(self) -> None:
        """The AMQP consumer, with its window, comes back empty."""
        session = self._consumer.session
        self._window.held = 0
        self._expected.clear()
        for entry in session.held_by(self._consumer):
            entry.window = None
            if not session.is_void(entry):  # else it is redelivered as unseen
                self._expected.append(entry)
        self._expect()

    def _expect(self) -> None:
        """What comes again comes first, as far as the window lets it."""
        expected, window = self._expected, self._window
        while expected and window.held < self._consumer.prefetch:
            entry = expected.popleft()
            if not entry.is_settled:
                entry.window = window
                window.held += 1

    def restored(self) -> None:
        if self._consumer.session.holds:
            self.consumed()

    async def _move_on(self) -> None:
        consumer, old = self._consumer, self._subscribed
        consumer.session.tell(AckType.DELIVERED, consumer, consumer.delivered.values())
        try:
            if consumer.source.exclusive and old is not None:
                await old.cancel()
            await self.open()
            if not consumer.source.exclusive and old is not None:  # an auto-delete queue is never without one
                await old.cancel()
        finally:
            self._moving = None
        self.consumed()  # all of the new window may have been taken in the meantime

    def ask(self) -> None:
        """It comes by itself."""

    async def settle_request(self, *, asks: bool) -> None:
        """There is none."""

    def receiver_left(self) -> None:
        """The next one will find what comes."""

    async def close(self) -> None:
        if self._moving is not None:
            await asyncio.wait([self._moving])
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._subscribed is not None:
            await self._subscribed.cancel()


class Pull:
    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer
        self._subscribed: Consumer | None = None  # it waits at the broker
        self._work: asyncio.Task[None] | None = None  # what is said to the broker at present
        self._cut: asyncio.Future[None] | None = None  # of the call that waits for a reply
        self._is_doubtful = False  # the request may have been answered by what the application has already

    async def open(self) -> None:
        """Nothing happens before a message is requested."""

    def settled(self, entry: Dispatched) -> None:
        """No window is kept."""

    def taken_back(self, entry: Dispatched) -> None:
        """No window is kept."""

    def consumed(self) -> None:
        """Nothing waits behind it."""

    def ask(self) -> None:
        if self._work is None and self._subscribed is None:
            self._start(partial(self._request, waits=True))

    async def settle_request(self, *, asks: bool) -> None:
        """Until nothing is under way; with ``asks`` the broker has said by then what it has."""
        await self._quiet()
        if not self._consumer.session.is_live:
            return
        if self._subscribed is not None:
            self._start(self._withdraw)
        elif asks:
            self._start(partial(self._request, waits=False))
        await self._quiet()

    def receiver_left(self) -> None:
        """No call waits any more: withdraw the request."""
        if self._subscribed is not None and self._work is None:
            self._start(self._withdraw)

    def interrupted(self) -> None:
        """Does not wait for the reply. A broker that does not know ``x-pull-one`` may answer the request, which
        lives on, by what the application has, unseen by us; one that does says so (``_ended``)."""
        self._is_doubtful = not self._consumer.session.connection.is_leveret
        if self._cut is not None and not self._cut.done():
            self._cut.set_result(None)

    def restored(self) -> None:
        if self._is_doubtful and self._subscribed is not None and self._work is None:
            self._start(self._withdraw)  # the waiting call then asks again

    async def close(self) -> None:
        while self._work is not None:
            await asyncio.wait([self._work])
        if self._subscribed is not None:
            await self._withdraw()

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = self._consumer.session.run(partial(self._do, work))
        self._work.add_done_callback(self._worked)

    async def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (ClientError, AmqpError) as problem:
            if not self._consumer.is_receiving or self._consumer.session.channel.is_closed:
                raise
            self._consumer.set_back(problem)

    def _worked(self, work: asyncio.Task[None]) -> None:
        if work is self._work:
            self._work = None
        self._consumer.wake()

    async def _quiet(self) -> None:
        """Wait until nothing is in flight, or the connection is lost."""
        while self._work is not None and self._consumer.session.is_live:
            self._cut = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._work, self._cut], return_when=asyncio.FIRST_COMPLETED)

    async def _request(self, *, waits: bool) -> None:
        """A message, or a place in the line for one."""
        source, channel = self._consumer.source, self._consumer.session.channel
        self._is_doubtful = False
        if not source.arguments:
            fetched = await channel.get(source.queue)
            if fetched is not None:
                self._take(fetched)
                return
        if waits or source.arguments:
            await self._subscribe()
        if self._subscribed is not None and not (waits and self._consumer.is_receiving and not self._is_doubtful):
            await self._withdraw()

    async def _subscribe(self) -> None:
        session, source = self._consumer.session, self._consumer.source
        is_leveret = session.connection.is_leveret
        came: list[Delivery] = []

        def take(delivery: Delivery) -> None:
            came.append(delivery)
            self._take(delivery)
            subscribed, self._subscribed = self._subscribed, None
            if subscribed is not None and not is_leveret:
                self._start(subscribed.cancel)

        async with session.subscribing:
            if not is_leveret:
                await session.channel.qos(1)
            once: Table = {X_PULL_ONE: True} if is_leveret else {}
            arguments = source.arguments | once
            subscribed = await session.channel.consume(source.queue, take, arguments=arguments)
        if not came:
            self._subscribed = subscribed
            subscribed.on_end = self._ended
            if subscribed.problem is not None:
                self._ended(subscribed.problem)
        elif not is_leveret:
            await subscribed.cancel()

    def _ended(self, problem: Exception) -> None:
        """Before a message came; a broker that has sent one is done with it, and says so."""
        waiting, self._subscribed = self._subscribed, None
        if waiting is None or isinstance(problem, Closed):
            return
        if isinstance(problem, Cancelled):
            self._start(partial(self._look, problem))
        else:
            self._give_up(problem)

    async def _look(self, problem: Exception) -> None:
        """Its queue is gone; or, after a cut, what was sent is in the application's hands, and the audit kept it back:
        then the waiting call asks again."""
        try:
            await self._consumer.session.registrar.refuse_unusable(self._consumer.source.queue, is_for_one=False)
        except InvalidDestination:
            self._give_up(problem)

    def _give_up(self, problem: Exception) -> None:
        self._consumer.cancelled(problem)
        self._consumer.session.connection.trouble(problem)

    async def _withdraw(self) -> None:
        subscribed = self._subscribed
        if subscribed is not None:
            await subscribed.cancel()
            self._subscribed = None

    def _take(self, delivery: Delivery) -> None:
        """The caller may have been cancelled. In a transaction it could be returned at its end only, so it is kept."""
        consumer, session = self._consumer, self._consumer.session
        session.dispatch(Dispatched(consumer, delivery, session.connection.clock.now(), None))
        if not consumer.is_receiving and not session.is_transacted:
            session.give_back_waiting(consumer)


def _looked_at(opening: asyncio.Task[None]) -> None:
    """Its error is raised in the waiting call; without one it is ignored."""
    if not opening.cancelled():
        opening.exception()
