"""A session: one channel, one order of events, one transaction at a time.

Messages that the channel delivers wait in the session's queue until the connection is started, and are then passed to
the consumers. Consumers with a listener are served one message at a time, in turn, so that the code of an application
never runs concurrently within one session.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from leveret.client.channel import Channel
from leveret.client.closable import Once
from leveret.client.errors import ClientError, ConnectionLost
from leveret.client.jms.ack_modes import AckMode
from leveret.client.jms.browser import QueueBrowser
from leveret.client.jms.consumer import MessageConsumer
from leveret.client.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from leveret.client.jms.errors import IllegalState
from leveret.client.jms.listeners import Listener
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from leveret.client.jms.policies import refuse_exclusive_pull, refuse_wrong_prefetch
from leveret.client.jms.producer import Producer
from leveret.client.jms.requestor import Requestor
from leveret.client.jms.session_acks import SessionAcks
from leveret.client.jms.topics import open_source, unsubscribe
from leveret.client.jms.unsettled import Dispatch, Outcome
from leveret.errors import AmqpError

if TYPE_CHECKING:
    from leveret.client.jms.connection import Connection

log = logging.getLogger("leveret.client.jms")
BURST = 100  # messages for plain functions before other tasks of the loop run


class MessageFactory:
    """Methods of a session that create messages and destinations without asking the broker."""

    def create_message(self) -> Message:
        return Message()

    def create_text_message(self, text: str = "") -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"") -> BytesMessage:
        return BytesMessage(data)

    def create_map_message(self, fields: Mapping[str, object] | None = None) -> MapMessage:
        return MapMessage(fields)

    def create_queue(self, name: str) -> Queue:
        return Queue(name)

    def create_topic(self, name: str) -> Topic:
        return Topic(name)


class Session(MessageFactory, SessionAcks):
    def __init__(self, connection: Connection, channel: Channel, ack_mode: AckMode) -> None:
        super().__init__(connection, channel, ack_mode)
        self.subscribing = asyncio.Lock()  # basic.qos is for the next basic.consume
        self.registrar = connection.registrar
        self.is_closed = False
        self.problem: Exception | None = None
        self._closing = Once(self._close)
        self._line: deque[Dispatch] = deque()  # delivered by the channel, not yet passed to the consumer
        self._listener_call: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_moving = False
        self._with_channels: list[QueueBrowser | Requestor] = []
        channel.on_close = self._lost

    @property
    def is_live(self) -> bool:
        """Whether there is a connection. With ``failover:`` there may be none for a while."""
        return self.channel.is_live

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
        """``prefetch`` 0: one message per receive(); by default, it is that of the destination or the factory.
        ``subscription``: the name of a durable subscription to a topic."""
        self.refuse_closed()
        factory = self.connection.factory
        usual = factory.prefetch.of(destination, is_durable=bool(subscription))
        prefetch = next(number for number in (prefetch, destination.prefetch, usual) if number is not None)
        refuse_wrong_prefetch(prefetch)
        refuse_exclusive_pull(destination, prefetch)
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
            self.run(consumer.close)  # the broker may have started it
            raise
        except BaseException:
            await consumer.close()
            raise
        return consumer

    async def create_durable_subscriber(
        self, topic: Destination, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        return await self.create_consumer(topic, selector, no_local=no_local, subscription=name)

    async def unsubscribe(self, name: str) -> None:
        """Ends a durable subscription, and deletes the messages stored for it."""
        self.refuse_closed()
        await unsubscribe(self.registrar, name)

    def forget(self, consumer: MessageConsumer) -> None:
        """A closed consumer is kept while the application holds messages of it: commit and rollback need them."""
        if not consumer.delivered and consumer in self._consumers:
            self._consumers.remove(consumer)

    # ---- temporary destinations, producers, browsers, requestors

    async def create_temporary_queue(self) -> TemporaryQueue:
        self.refuse_closed()
        return await self.registrar.temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        self.refuse_closed()
        return await self.registrar.temporary_topic()

    async def create_producer(self, destination: Destination | None = None) -> Producer:
        """Without a destination, each message is sent with one."""
        self.refuse_closed()
        if destination is not None:
            destination.route(self.registrar.layout)  # raises now if nothing can be sent to it
            await self.registrar.prepare(destination)
        return Producer(self.outgoing, destination)

    async def create_browser(self, queue: Destination, selector: str = "", limit: int | None = None) -> QueueBrowser:
        """``limit``: how many messages it may hold; by default, the browser prefetch of the factory."""
        self.refuse_closed()
        limit = self.connection.factory.prefetch.browser if limit is None else limit
        browser = QueueBrowser(self.registrar, queue, selector.strip() or queue.selector, limit)
        self._keep(browser)
        return browser

    async def create_requestor(self, queue: Destination) -> Requestor:
        self.refuse_closed()
        requestor = Requestor(self.registrar, queue)
        self._keep(requestor)
        return requestor

    def _keep(self, made: QueueBrowser | Requestor) -> None:
        self._with_channels = [*(each for each in self._with_channels if not each.is_closed), made]

    # ---- from the channel to the consumers

    def dispatch(self, entry: Dispatch) -> None:
        entry.generation = self.generation
        self._outstanding.add(entry)
        self._line.append(entry)
        if not self._is_moving and self.connection.is_started:
            self._is_moving = True
            asyncio.get_running_loop().call_soon(self.move)

    def move(self) -> None:
        """Pass waiting messages to their consumers."""
        self._is_moving = False
        line = self._line
        if not line or not self.connection.is_started or self.is_closed:
            return
        while line:
            entry = line.popleft()
            entry.consumer.arrived(entry)
        self.serve_listeners()

    def take_waiting(self, consumer: MessageConsumer) -> list[Dispatch]:
        """Removes and returns the waiting messages for this consumer."""
        found = [entry for entry in self._line if entry.consumer is consumer]
        self._line = deque(entry for entry in self._line if entry.consumer is not consumer)
        return found

    def give_back_waiting(self, consumer: MessageConsumer) -> None:
        """Requeue the waiting messages of a consumer."""
        self.settle(self.take_waiting(consumer), Outcome.GIVE_BACK)

    def resume(self) -> None:
        """The connection is started."""
        self.move()
        for consumer in self._consumers:
            consumer.wake()
        self.serve_listeners()

    def serve_listeners(self) -> None:
        if self._listener_call is None and not self.is_closed and any(each.has_work for each in self._consumers):
            self._listener_call = asyncio.ensure_future(self._serve_in_turn())

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
            self._listener_call = None

    async def listeners_done(self) -> None:
        """Wait until no listener runs. Returns at once if a listener calls it."""
        listening = self._listener_call
        if listening is not None and listening is not asyncio.current_task():
            await asyncio.wait([listening])

    # ---- the end

    async def close(self) -> None:
        """Waits for a listener that is running. A transaction is rolled back; unacknowledged messages, and those that
        still waited in the client, are requeued."""
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
        await self.outgoing.finish()
        await self.connection.in_time(self._leave())
        self._consumers.clear()

    async def _leave(self) -> None:
        """If the connection is closed too, the broker deletes everything else."""
        consumers = [] if self.connection.is_closed else list(self._consumers)
        with suppress(ConnectionLost):  # then the broker requeues the messages
            for made in self._with_channels:
                await made.close()
            await self.outgoing.close()
            await self.channel.close()
            for consumer in consumers:
                await consumer.source.close()

    def _lost(self, problem: Exception) -> None:
        """The channel is closed. Unless closed by this session, fail all waiting calls."""
        if self.is_closed:
            return
        self.problem = problem
        self._line.clear()
        for consumer in list(self._consumers):
            consumer.end(problem)
        self.connection.trouble(problem)

    def interrupted(self) -> None:
        """The connection is lost, and may come back (``failover:``)."""
        self._seen_generation = self.generation
        for entry in self._line:
            entry.consumer.unconsumed.append(entry)
        self._line.clear()
        self._forget_void_aside()
        for consumer in self._consumers:
            consumer.interrupted()

    def restored(self) -> None:
        """The connection is restored. There may have been one in between that was lost before its event was handled."""
        if self._seen_generation != self.generation:
            self.interrupted()
        for consumer in self._consumers:
            consumer.subscription.restored()

    def refuse_closed(self) -> None:
        if self.is_closed:
            raise IllegalState("the session is closed")
        if self.problem is not None:
            raise self.problem

    def run(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """In the background. An error of the broker closes the channel, and is reported by that."""
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
