"""What a connection declares: queues at their first use, the exchange of topics, temporary destinations.

It uses a separate channel: a refused declaration closes its channel, which must not affect the messages of a session.
An existing queue with other arguments is used as it is, and so is one that the user may use but not declare.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from leveret.client.channel import Channel
from leveret.client.connection import Connection
from leveret.client.jms.destinations import Destination, Layout, Queue, TemporaryQueue, TemporaryTopic, Topic
from leveret.client.jms.errors import IllegalState, InvalidDestination
from leveret.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from leveret.wire.fields import Table


class Registrar:
    """``origin`` is a header of messages for topics, so that subscribers can exclude messages of their own connection
    (noLocal)."""

    def __init__(self, connection: Connection, layout: Layout, client_id: str) -> None:
        self.connection = connection
        self.layout = layout
        self.client_id = client_id
        self.origin = client_id or uuid4().hex
        properties = connection.server_properties
        self.is_leveret = "Leveret" in f"{properties.get('platform')} {properties.get('information')}"
        broker_selects = self.layout.broker_selects
        self.broker_selects = self.is_leveret if broker_selects is None else broker_selects
        self._ready: set[Destination] = set()  # declared queues
        self._has_topics = self.layout.topic_exchange == Layout().topic_exchange  # the exchange exists
        self._temporary: set[Destination] = set()
        self._claimed: set[str] = set()  # queues of durable subscriptions that have a consumer
        self._channel: Channel | None = None
        self._turn = asyncio.Lock()  # one declaration at a time: an error closes the channel

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[Channel]:
        """The channel for declarations; opened again if the last one was refused."""
        async with self._turn:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self.connection.channel()
            yield self._channel

    # ---- queues and topics

    async def prepare(self, destination: Destination) -> None:
        """Declare the destination at its first use. All topics share an exchange. Reply destinations exist already, and
        are too many to be remembered."""
        if not isinstance(destination, Queue):
            if not self._has_topics:
                await self._declare_topics()
                self._has_topics = True
        elif self.can_declare(destination) and destination not in self._ready:
            await self._declare(destination.name)
            self._ready.add(destination)

    def can_declare(self, destination: Destination) -> bool:
        return isinstance(destination, Queue) and destination.is_ours and self.layout.declares_queues

    def forget(self, destination: Destination) -> None:
        """The queue does not exist: its next use declares it again."""
        self._ready.discard(destination)

    async def _declare(self, queue: str) -> None:
        try:
            async with self.channel() as channel:
                await channel.declare_queue(queue, durable=True, arguments=dict(self.layout.queue_arguments))
        except (PreconditionFailed, AccessRefused) as refusal:
            await self._check_exists(queue, refusal)
        except ResourceLocked:
            return  # exclusive to another connection: it exists, and can be sent to

    async def _check_exists(self, queue: str, refusal: Exception) -> None:
        try:
            async with self.channel() as channel:
                await channel.declare_queue(queue, passive=True)
        except (NotFound, AccessRefused):
            raise refusal from None
        except ResourceLocked:
            return

    async def _declare_topics(self) -> None:
        name = self.layout.topic_exchange
        try:
            async with self.channel() as channel:
                await channel.declare_exchange(name, "topic", durable=True)
        except (PreconditionFailed, AccessRefused):
            async with self.channel() as channel:
                await channel.declare_exchange(name, "topic", passive=True)

    # ---- temporary destinations

    async def temporary_queue(self) -> TemporaryQueue:
        async with self.channel() as channel:
            name = f"temporary-{uuid4().hex}"  # not server-named: the name must survive a reconnect
            await channel.declare_queue(name, exclusive=True)
        made = TemporaryQueue(name, self)
        self._temporary.add(made)
        return made

    async def temporary_topic(self) -> TemporaryTopic:
        made = TemporaryTopic(f"temporary-{uuid4().hex}", self)
        self._temporary.add(made)
        return made

    async def delete_temporary(self, destination: Destination) -> None:
        if isinstance(destination, Queue):
            try:
                async with self.channel() as channel:
                    await channel.delete_queue(destination.name, if_unused=True)
            except PreconditionFailed:
                raise IllegalState(
                    f"temporary queue '{destination.name}' has a consumer: close it before the queue is deleted"
                ) from None
        self._temporary.discard(destination)
        self._ready.discard(destination)

    def refuse_foreign(self, destination: Destination) -> None:
        """A temporary destination belongs to the connection that created it."""
        if isinstance(destination, TemporaryQueue | TemporaryTopic) and destination not in self._temporary:
            raise InvalidDestination(
                f"'{destination.name}' is a temporary destination of another connection, or was deleted: consume from "
                "it on the connection that made it"
            )

    async def refuse_unusable(self, queue: str, *, is_for_one: bool) -> None:
        """Checked before consuming: a consumer that the broker refuses closes the channel of its session."""
        try:
            async with self.channel() as channel:
                known = await channel.declare_queue(queue, passive=True)
        except ResourceLocked:
            raise InvalidDestination(f"queue '{queue}' belongs to another connection: consume from it there") from None
        except NotFound:
            raise InvalidDestination(f"queue '{queue}' does not exist: declare it first") from None
        if is_for_one and known.consumer_count:
            raise IllegalState(f"'{queue}' already has a consumer, and allows only one: close that first")

    # ---- queues of subscriptions

    def claim(self, queue: str) -> None:
        """For one consumer. The broker does not know a consumer with prefetch 0 while it does not wait."""
        if queue in self._claimed:
            raise IllegalState(f"'{queue}' already has a consumer, and allows only one: close that first")
        self._claimed.add(queue)

    def release(self, queue: str) -> None:
        self._claimed.discard(queue)

    def is_claimed(self, queue: str) -> bool:
        return queue in self._claimed

    async def subscription_queue(self, topic: Topic, binding: Table) -> str:
        name = f"subscription-{uuid4().hex}"
        await self.prepare(topic)
        async with self.channel() as channel:
            await channel.declare_queue(name, exclusive=True)
            await channel.bind_queue(name, self.layout.topic_exchange, topic.key, dict(binding))
        return name
