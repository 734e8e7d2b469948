"""How messages get from a queue to a consumer: pushed ahead of the application, or pulled one by one.

Push is a consumer of AMQP with a prefetch. Where messages stay unacked after the application had them, the prefetch
would be used up in the end. Then a new consumer, with a new prefetch, takes the place of the old one on the same
channel: the messages stay, the window moves on. So never more than the prefetch waits in the client.

Pull takes one message per request. It asks by basic.get; if the queue is empty, or a selector chooses, a consumer that
the broker ends after one message (``x-pull-one``) waits there. A broker that does not know such consumers is told to
send one, and the consumer is cancelled as soon as it has come. Nobody polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from leveret.client.arrivals import Delivery
from leveret.client.consumers import Consumer
from leveret.client.errors import Closed
from leveret.client.jms.ack_modes import AckType
from leveret.client.jms.delivered import Dispatched
from leveret.wire.fields import Table

if TYPE_CHECKING:
    from leveret.client.jms.consumer import MessageConsumer

X_PULL_ONE = "x-pull-one"


class Push:
    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer
        self._window = 0  # the number of the AMQP consumer that is subscribed
        self._held = 0  # messages of it that are not settled
        self._subscribed: Consumer | None = None
        self._opening: asyncio.Task[None] | None = None
        self._moving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Who asks may go in the meantime: close() waits for what comes of it."""
        self._opening = asyncio.ensure_future(self._open())
        self._opening.add_done_callback(_looked_at)
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        consumer, session, source = self._consumer, self._consumer.session, self._consumer.source
        self._window += 1
        self._held = 0
        window, dispatch, now = self._window, session.dispatch, session.connection.clock.now

        def take(delivery: Delivery) -> None:
            if window == self._window:
                self._held += 1
            dispatch(Dispatched(consumer, delivery, now(), window))

        async with session.subscribing:
            await session.channel.qos(consumer.prefetch)
            subscribed = await session.channel.consume(
                source.queue, take, exclusive=source.exclusive, arguments=source.arguments
            )
        self._subscribed = subscribed
        subscribed.on_end = self._ended
        if subscribed.problem is not None:
            self._ended(subscribed.problem)

    def _ended(self, problem: Exception) -> None:
        if not isinstance(problem, Closed):  # not by us
            self._consumer.cancelled(problem)
            self._consumer.session.connection.trouble(problem)

    def settled(self, entry: Dispatched) -> None:
        if entry.window == self._window:
            self._held -= 1

    def taken_back(self, entry: Dispatched) -> None:
        """It was not settled after all."""
        if entry.window == self._window:
            self._held += 1

    def consumed(self) -> None:
        """The application has another one, unacked."""
        consumer = self._consumer
        if self._held < consumer.prefetch or self._moving is not None or consumer.is_closed:
            return
        consumer.session.move()
        if not consumer.unconsumed:
            self._moving = consumer.session.run(self._move_on)

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

    async def open(self) -> None:
        """Nothing happens before somebody wants a message."""

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
        if self._subscribed is not None:
            self._start(self._withdraw)
        elif asks:
            self._start(partial(self._request, waits=False))
        await self._quiet()

    def receiver_left(self) -> None:
        """Nobody waits any more: what was asked for is taken back."""
        if self._subscribed is not None and self._work is None:
            self._start(self._withdraw)

    async def close(self) -> None:
        await self._quiet()
        if self._subscribed is not None:
            await self._withdraw()

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = self._consumer.session.run(work)
        self._work.add_done_callback(self._worked)

    def _worked(self, work: asyncio.Task[None]) -> None:
        if work is self._work:
            self._work = None
        self._consumer.wake()

    async def _quiet(self) -> None:
        while self._work is not None:
            await asyncio.wait([self._work])

    async def _request(self, *, waits: bool) -> None:
        """A message, or a place in the line for one."""
        source, channel = self._consumer.source, self._consumer.session.channel
        if not source.arguments:
            fetched = await channel.get(source.queue)
            if fetched is not None:
                self._take(fetched)
                return
        if waits or source.arguments:
            await self._subscribe()
        if self._subscribed is not None and not (waits and self._consumer.is_receiving):
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
        if waiting is not None and not isinstance(problem, Closed):
            self._consumer.cancelled(problem)
            self._consumer.session.connection.trouble(problem)

    async def _withdraw(self) -> None:
        subscribed = self._subscribed
        if subscribed is not None:
            await subscribed.cancel()
            self._subscribed = None

    def _take(self, delivery: Delivery) -> None:
        """Who asked for it may have gone. In a transaction it could be given back at its end only, so it is kept."""
        consumer, session = self._consumer, self._consumer.session
        session.dispatch(Dispatched(consumer, delivery, session.connection.clock.now(), 0))
        if not consumer.is_receiving and not session.is_transacted:
            session.give_back_waiting(consumer)


def _looked_at(opening: asyncio.Task[None]) -> None:
    """Its error is raised where somebody waits for it; if nobody does, it is no news."""
    if not opening.cancelled():
        opening.exception()
