"""A session: one channel, one order of events, one transaction at a time.

What the channel delivers waits in the session's line until the connection is started. Then it moves on to the
consumers: those with a listener are served one message at a time, in turn, so that the code of an application never
runs twice at once in one session.

In a transacted session sends and acks are kept back by the broker until ``commit`` (tx.* of AMQP). Acks are told only
then. All that must be settled besides, such as a poisonous or an expired message, is told with the next commit, or in a
little transaction of its own after a rollback.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from leveret.client.channel import Channel
from leveret.client.errors import ClientError, ConnectionLost, TransactionRolledBack
from leveret.client.jms.ack_modes import AckEvent, AckListener, AckMode, AckType
from leveret.client.jms.consumer import Listener, MessageConsumer
from leveret.client.jms.creations import Creations
from leveret.client.jms.delivered import Dispatched, Outstanding, Verdict
from leveret.client.jms.destinations import Destination
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.messages import Message
from leveret.client.jms.once import Once
from leveret.client.jms.prefetch import refuse_wrong_prefetch
from leveret.client.jms.registrar import Registrar
from leveret.client.jms.topics import open_source
from leveret.errors import AmqpError

if TYPE_CHECKING:
    from leveret.client.jms.connection import Connection

log = logging.getLogger("leveret.client.jms")
BURST = 100  # messages for plain functions before others on the loop get their turn


class Session(Creations):
    def __init__(self, connection: Connection, channel: Channel, ack_mode: AckMode) -> None:
        super().__init__(connection, channel if ack_mode is AckMode.SESSION_TRANSACTED else None)
        self.channel = channel
        self.ack_mode = ack_mode
        self.ack_listeners: list[AckListener] = []
        self.subscribing = asyncio.Lock()  # basic.qos is for the next basic.consume
        self.is_closed = False
        self.problem: Exception | None = None
        self._closing = Once(self._close)
        self._consumers: list[MessageConsumer] = []
        self._line: deque[Dispatched] = deque()  # delivered by the channel, not yet with its consumer
        self._outstanding = Outstanding()
        self._aside: list[tuple[list[Dispatched], Verdict]] = []  # to be told when the transaction ends
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_moving = False
        self._life = 0  # of the connection below, which may come back after a loss
        channel.on_close = self._lost

    @property
    def is_transacted(self) -> bool:
        return self.ack_mode is AckMode.SESSION_TRANSACTED

    @property
    def registrar(self) -> Registrar:
        return self.connection.registrar

    # ---- consumers

    async def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        prefetch: int | None = None,
        listener: Listener | None = None,
        subscription: str = "",
    ) -> MessageConsumer:
        """``prefetch`` 0: one message per receive(). Without a number it is the destination's, or the factory's.
        ``subscription``: the name of a durable one, to a topic."""
        self.refuse_closed()
        factory = self.connection.factory
        usual = factory.prefetch.of(destination, is_durable=bool(subscription))
        prefetch = next(number for number in (prefetch, destination.prefetch, usual) if number is not None)
        refuse_wrong_prefetch(prefetch)
        selector = (selector or "").strip() or destination.selector
        source = await open_source(
            self.registrar, destination, selector=selector, no_local=no_local, subscription=subscription
        )
        consumer = MessageConsumer(self, source, prefetch, factory.redelivery)
        self._consumers.append(consumer)
        try:
            consumer.listener = listener
            await consumer.subscription.open()
        except asyncio.CancelledError:
            self.run(consumer.close)  # the broker may have begun to push
            raise
        except BaseException:
            await consumer.close()
            raise
        return consumer

    async def create_durable_subscriber(
        self, topic: Destination, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        return await self.create_consumer(topic, selector, no_local=no_local, subscription=name)

    def forget(self, consumer: MessageConsumer) -> None:
        """It is closed. While the application has messages of it, a commit or rollback must know them."""
        if not consumer.delivered and consumer in self._consumers:
            self._consumers.remove(consumer)

    # ---- from the channel to the consumers

    def dispatch(self, entry: Dispatched) -> None:
        entry.life = self._life
        self._outstanding.add(entry)
        self._line.append(entry)
        if not self._is_moving and self.connection.is_started:
            self._is_moving = True
            asyncio.get_running_loop().call_soon(self.move)

    def move(self) -> None:
        """What waits in the line goes to its consumers."""
        self._is_moving = False
        line = self._line
        if not line or not self.connection.is_started or self.is_closed:
            return
        while line:
            entry = line.popleft()
            entry.consumer.arrived(entry)
        self.serve_listeners()

    def take_waiting(self, consumer: MessageConsumer) -> list[Dispatched]:
        """Those in the line that were on their way to it."""
        found = [entry for entry in self._line if entry.consumer is consumer]
        self._line = deque(entry for entry in self._line if entry.consumer is not consumer)
        return found

    def resume(self) -> None:
        """The connection is started."""
        self.move()
        for consumer in self._consumers:
            consumer.wake()
        self.serve_listeners()

    def serve_listeners(self) -> None:
        if self._listening is None and not self.is_closed and any(each.has_work for each in self._consumers):
            self._listening = asyncio.ensure_future(self._serve_in_turn())

    async def _serve_in_turn(self) -> None:
        served = 0
        try:
            while self.connection.is_started and not self.is_closed:
                busy = [consumer for consumer in self._consumers if consumer.has_work]
                if not busy:
                    return
                for consumer in busy:
                    if consumer.has_work and self.connection.is_started:
                        await consumer.serve()
                        served += 1
                        if served % BURST == 0:
                            await asyncio.sleep(0)
        finally:
            self._listening = None

    async def listeners_done(self) -> None:
        """Until no listener runs, unless it is a listener that waits here."""
        listening = self._listening
        if listening is not None and listening is not asyncio.current_task():
            await asyncio.wait([listening])

    # ---- acknowledging

    def acknowledge(self, message: Message | None = None) -> None:
        """CLIENT: all that were delivered so far. INDIVIDUAL: this one. The other modes do it by themselves."""
        self.refuse_closed()
        if self.ack_mode is AckMode.CLIENT:
            for consumer in list(self._consumers):
                consumer.acknowledge(list(consumer.delivered.values()), AckType.STANDARD)
        elif self.ack_mode is AckMode.INDIVIDUAL and message is not None and message.delivery is not None:
            for consumer in list(self._consumers):
                entry = consumer.delivered.get(message.delivery)
                if entry is not None:
                    consumer.acknowledge([entry], AckType.INDIVIDUAL)
        self._drop_closed()

    def acknowledge_lazy(self, consumer: MessageConsumer) -> None:
        """What a session that acks lazily owes the broker."""
        if self.ack_mode is AckMode.DUPS_OK and not self.channel.is_closed:
            consumer.acknowledge([each for each in consumer.delivered.values() if each.is_consumed], AckType.STANDARD)

    def settle(self, entries: list[Dispatched], verdict: Verdict) -> None:
        """In a transaction the broker hears of it when that ends. Until then they use up their window."""
        if not entries or self.channel.is_closed:
            return
        if self.is_transacted:
            self._aside.append((entries, verdict))
        else:
            self._say(entries, verdict)

    def _say(self, entries: list[Dispatched], verdict: Verdict) -> None:
        for entry in entries:
            if not entry.is_settled:
                entry.consumer.subscription.settled(entry)
        self._outstanding.settle(entries, verdict)

    def forget_void(self, entries: Iterable[Dispatched]) -> None:
        """The broker brings them again; to these nothing can be said."""
        void = [entry for entry in entries if not entry.is_settled and self.is_void(entry)]
        for entry in void:
            entry.consumer.subscription.settled(entry)
        self._outstanding.forget(void)

    def give_back_waiting(self, consumer: MessageConsumer) -> None:
        """What was on its way to a consumer that does not want it any more."""
        self.settle(self.take_waiting(consumer), Verdict.GIVE_BACK)

    def tell(self, kind: AckType, consumer: MessageConsumer, entries: Iterable[Dispatched]) -> None:
        if self.ack_listeners:
            event = AckEvent(kind, consumer, tuple(entry.delivery for entry in entries))
            for listener in list(self.ack_listeners):
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener to the acks of a session failed")

    # ---- transactions, and second chances

    async def commit(self) -> None:
        """What was sent is there for others, what was received is done with: both, or neither."""
        self._refuse_without_transactions()
        done = [(consumer, list(consumer.delivered.values())) for consumer in self._consumers]
        if any(self.is_void(entry) for _, entries in done for entry in entries):
            await self._undo(done)
            raise TransactionRolledBack(
                "the connection was lost after messages of the transaction had been received: it is rolled back, and "
                "they come again; do its work again"
            )
        for consumer, entries in done:
            self.settle(entries, Verdict.ACK)
            consumer.forget(entries)
        self._tell_aside()
        try:
            await self.channel.commit()
        except TransactionRolledBack:
            await self._undo(done)
            raise
        for consumer, entries in done:
            if entries:
                self.tell(AckType.STANDARD, consumer, entries)
        self._drop_closed()
        self.outgoing.raise_returned()

    async def _undo(self, done: list[tuple[MessageConsumer, list[Dispatched]]]) -> None:
        """The connection was lost before the commit, and is there again. What the broker has given to the lost one it
        delivers again; what came since then is still ours."""
        await self.channel.rollback()
        self.outgoing.forget_returned()
        for consumer, entries in done:
            alive = [entry for entry in entries if not self.is_void(entry)]
            for entry in self._outstanding.take_back(alive):
                consumer.subscription.taken_back(entry)
            consumer.roll_back(entries)
        if self._aside:
            self._tell_aside()
            await self.channel.commit()

    async def rollback(self) -> None:
        """What was sent is forgotten, what was received comes again, in its order."""
        self._refuse_without_transactions()
        await self.channel.rollback()
        self.outgoing.forget_returned()
        self._deliver_again()
        if self._aside:
            self._tell_aside()
            await self.channel.commit()

    async def recover(self) -> None:
        """What was received and not acknowledged comes again, in its order."""
        self.refuse_closed()
        if self.is_transacted:
            raise IllegalState("recover() is for sessions without transactions: use rollback()")
        self._deliver_again()

    def _deliver_again(self) -> None:
        for consumer in list(self._consumers):
            self.acknowledge_lazy(consumer)
            consumer.roll_back(list(consumer.delivered.values()))
        self._drop_closed()

    def _tell_aside(self) -> None:
        aside, self._aside = self._aside, []
        for entries, verdict in aside:
            self._say(entries, verdict)

    def _drop_closed(self) -> None:
        self._consumers = [each for each in self._consumers if not each.is_closed or each.delivered]

    def _refuse_without_transactions(self) -> None:
        self.refuse_closed()
        if not self.is_transacted:
            raise IllegalState("the session has no transactions: create it with AckMode.SESSION_TRANSACTED")

    # ---- its end

    async def close(self) -> None:
        """A listener that runs is waited for. A transaction is rolled back; what was not acknowledged, and what still
        waited in the client, goes back to its queues."""
        await self._closing.do()

    async def _close(self) -> None:
        self.is_closed = True
        for consumer in list(self._consumers):
            consumer.end(None)
        await self.listeners_done()
        for consumer in list(self._consumers):
            self.acknowledge_lazy(consumer)
        for task in list(self._tasks):
            task.cancel()
        self.connection.forget(self)
        await self.close_creations()
        with suppress(ConnectionLost):  # they are back in their queues in any case
            await self.channel.close()
            for consumer in list(self._consumers):
                await consumer.source.close()
        self._consumers.clear()

    def _lost(self, problem: Exception) -> None:
        """The channel has ended. If it was not us: everybody who waits learns it."""
        if self.is_closed:
            return
        self.problem = problem
        self._line.clear()
        for consumer in list(self._consumers):
            consumer.end(problem)
        self.connection.trouble(problem)

    def interrupted(self) -> None:
        """The connection is lost, and may come back (``failover:``)."""
        self._life += 1
        for entry in self._line:
            entry.consumer.unconsumed.append(entry)
        self._line.clear()
        for consumer in self._consumers:
            consumer.interrupted()

    def is_void(self, entry: Dispatched) -> bool:
        """Whether the broker gave it to a connection that is lost, and will deliver it again. What the connection knows
        by its message id is not delivered again: an ack for it still counts."""
        if entry.life == self._life:
            return False
        is_known = self.connection.is_audited and entry.delivery.properties.message_id is not None
        return self.is_transacted or not is_known

    def refuse_closed(self) -> None:
        if self.is_closed:
            raise IllegalState("the session is closed")
        if self.problem is not None:
            raise self.problem

    def run(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Beside everything else. What the broker refuses ends the channel, and is known by that."""
        task = asyncio.ensure_future(self._quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _quietly(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (ClientError, AmqpError) as problem:
            if not self.channel.is_closed:
                self.connection.trouble(problem)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
