"""How a consumer gets messages from its queue: pushed ahead of the application, or pulled one by one.

Push is an AMQP consumer with a prefetch. If messages stay unacknowledged after the application has received them, they
use up the prefetch. Then a new AMQP consumer, with a new prefetch window, replaces the old one on the same channel: the
messages stay unacknowledged, the window moves on. So at most the prefetch waits in the client.

After a reconnect (``failover:``) the broker redelivers messages that the application holds, before anything new. The
client's audit drops these deliveries, so they do not arrive here; but they use up the prefetch of the AMQP consumer. So
messages that are expected again are counted, in their order, towards the windows that follow.

Pull requests one message at a time, by basic.get. If the queue is empty, or with a selector, it starts an AMQP consumer
that the broker ends after one message (``x-pull-one``). With brokers that do not support this, the prefetch is 1 and
the consumer is cancelled as soon as a message has arrived. There is no polling.
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
from leveret.client.jms.errors import InvalidDestination
from leveret.client.jms.unsettled import Dispatch, Window
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
        self._expected: deque[Dispatch] = deque()  # held by the application, not yet redelivered after a reconnect
        self._subscribed: Consumer | None = None
        self._opening: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """If the caller is cancelled meanwhile, close() waits for the outcome."""
        self._opening = asyncio.ensure_future(self._open())
        self._opening.add_done_callback(_retrieve_exception)
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        consumer, session, source = self._consumer, self._consumer.session, self._consumer.source
        window, dispatch, now = Window(), session.dispatch, session.connection.clock.now

        def take(delivery: Delivery) -> None:
            window.held += 1
            dispatch(Dispatch(consumer, delivery, now(), window))

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
            self.consumed()  # the whole prefetch may have been consumed before the reply

    def _ended(self, problem: Exception) -> None:
        if not isinstance(problem, Closed):  # not by the client
            self._consumer.cancelled(problem)
            self._consumer.session.connection.trouble(problem)

    def settled(self, entry: Dispatch) -> None:
        if entry.window is not None:
            entry.window.held -= 1
            if self._expected:
                self._expect()

    def taken_back(self, entry: Dispatch) -> None:
        """Its settlement was rolled back."""
        if entry.window is not None:
            entry.window.held += 1

    def consumed(self) -> None:
        """The application holds another unacknowledged message."""
        consumer = self._consumer
        if self._window.held < consumer.prefetch or self._moving is not None or consumer.is_closed:
            return
        consumer.session.move()
        if not consumer.unconsumed:
            self._moving = consumer.session.run(self._move_on)

    def interrupted(self) -> None:
        """The AMQP consumer is restored with an empty window."""
        session = self._consumer.session
        self._window.held = 0
        self._expected.clear()
        for entry in session.held_by(self._consumer):
            entry.window = None
            if not session.is_void(entry):  # otherwise its redelivery is passed on
                self._expected.append(entry)
        self._expect()

    def _expect(self) -> None:
        """Redelivered messages arrive first, up to the size of the window."""
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
        consumer.session.notify_ack(AckType.DELIVERED, consumer, consumer.delivered.values())
        try:
            if consumer.source.exclusive and old is not None:
                await old.cancel()
            await self.open()
            if not consumer.source.exclusive and old is not None:  # an auto-delete queue must always have one
                await old.cancel()
        finally:
            self._moving = None
        self.consumed()  # the whole new window may have been consumed meanwhile

    def ask(self) -> None:
        """Messages are pushed."""

    async def settle_request(self, *, asks: bool) -> None:
        """There are no requests."""

    def receiver_left(self) -> None:
        """The next call receives what arrives."""

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
        self._subscribed: Consumer | None = None  # started at the broker, waiting for a message
        self._work: asyncio.Task[None] | None = None  # the current call to the broker
        self._cut: asyncio.Future[None] | None = None  # resolved by a loss of the connection
        self._is_doubtful = False  # the broker may have answered the request with a message that the application holds

    async def open(self) -> None:
        """Nothing is sent before a message is requested."""

    def settled(self, entry: Dispatch) -> None:
        """There is no prefetch window."""

    def taken_back(self, entry: Dispatch) -> None:
        """There is no prefetch window."""

    def consumed(self) -> None:
        """No further messages wait."""

    def ask(self) -> None:
        if self._work is None and self._subscribed is None:
            self._start(partial(self._request, waits=True))

    async def settle_request(self, *, asks: bool) -> None:
        """Wait until no request is pending; with ``asks``, request a message before."""
        await self._quiet()
        if not self._consumer.session.is_live:
            return
        if self._subscribed is not None:
            self._start(self._withdraw)
        elif asks:
            self._start(partial(self._request, waits=False))
        await self._quiet()

    def receiver_left(self) -> None:
        """No call waits any longer: withdraw the request."""
        if self._subscribed is not None and self._work is None:
            self._start(self._withdraw)

    def interrupted(self) -> None:
        """Does not wait for the reply. The request is restored on the next connection. A broker without ``x-pull-one``
        may answer it with a message that the application holds, which the audit drops; one with it ends the consumer
        (``_ended``)."""
        self._is_doubtful = not self._consumer.session.connection.is_leveret
        if self._cut is not None and not self._cut.done():
            self._cut.set_result(None)

    def restored(self) -> None:
        if self._is_doubtful and self._subscribed is not None and self._work is None:
            self._start(self._withdraw)  # the waiting call then requests again

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
        """Fetch a message, or start a consumer that waits for one."""
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
        """Called before a message arrived. After ``x-pull-one`` has delivered one, the broker ends the consumer too."""
        waiting, self._subscribed = self._subscribed, None
        if waiting is None or isinstance(problem, Closed):
            return
        if isinstance(problem, Cancelled):
            self._start(partial(self._look, problem))
        else:
            self._give_up(problem)

    async def _look(self, problem: Exception) -> None:
        """The queue was deleted; or, after a reconnect, the audit dropped a message that the application holds: then
        the waiting call requests again."""
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
        """The caller may have been cancelled. A transaction could requeue it only at its end, so it is kept then."""
        consumer, session = self._consumer, self._consumer.session
        session.dispatch(Dispatch(consumer, delivery, session.connection.clock.now(), None))
        if not consumer.is_receiving and not session.is_transacted:
            session.give_back_waiting(consumer)


def _retrieve_exception(opening: asyncio.Task[None]) -> None:
    """The waiting call raises its error; without one it is ignored."""
    if not opening.cancelled():
        opening.exception()
