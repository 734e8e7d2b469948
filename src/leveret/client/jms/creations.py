"""What a session makes for the application, apart from consumers: messages, destinations, producers, browsers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leveret.client.channel import Channel
from leveret.client.jms.browser import QueueBrowser
from leveret.client.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage
from leveret.client.jms.producer import Outgoing, Producer
from leveret.client.jms.requestor import Requestor
from leveret.client.jms.topics import unsubscribe

if TYPE_CHECKING:
    from leveret.client.jms.connection import Connection


class Creations:
    """``transacted``: the channel of a session with transactions, on which it also sends."""

    def __init__(self, connection: Connection, transacted: Channel | None) -> None:
        self.connection = connection
        self.outgoing = Outgoing(
            connection.client, connection.registrar, transacted, connection.factory.sending, connection.trouble
        )
        self._with_channels: list[QueueBrowser | Requestor] = []

    def refuse_closed(self) -> None:
        raise NotImplementedError

    # ---- messages

    def create_message(self) -> Message:
        return Message()

    def create_text_message(self, text: str = "") -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"") -> BytesMessage:
        return BytesMessage(data)

    def create_map_message(self, fields: Mapping[str, object] | None = None) -> MapMessage:
        return MapMessage(fields)

    # ---- destinations

    def create_queue(self, name: str) -> Queue:
        return Queue(name)

    def create_topic(self, name: str) -> Topic:
        return Topic(name)

    async def create_temporary_queue(self) -> TemporaryQueue:
        self.refuse_closed()
        return await self.connection.registrar.temporary_queue()

    async def create_temporary_topic(self) -> TemporaryTopic:
        self.refuse_closed()
        return await self.connection.registrar.temporary_topic()

    async def unsubscribe(self, name: str) -> None:
        """Ends a durable subscription, and drops what is stored for it."""
        self.refuse_closed()
        await unsubscribe(self.connection.registrar, name)

    # ---- producers and browsers

    async def create_producer(self, destination: Destination | None = None) -> Producer:
        """Without a destination, each message is sent with one."""
        self.refuse_closed()
        if destination is not None:
            destination.route(self.connection.registrar.layout)  # refused now, if it cannot be sent to
            await self.connection.registrar.prepare(destination)
        return Producer(self.outgoing, destination)

    async def create_browser(self, queue: Destination, selector: str = "", limit: int | None = None) -> QueueBrowser:
        """``limit``: how many messages it may hold; without one as many as the factory's prefetch says."""
        self.refuse_closed()
        limit = self.connection.factory.prefetch.browser if limit is None else limit
        selector = selector.strip() or queue.selector
        browser = QueueBrowser(self.connection.client, self.connection.registrar, queue, selector, limit)
        self._keep(browser)
        return browser

    async def create_requestor(self, queue: Destination) -> Requestor:
        self.refuse_closed()
        requestor = Requestor(self.connection.client, self.connection.registrar, queue)
        self._keep(requestor)
        return requestor

    def _keep(self, made: QueueBrowser | Requestor) -> None:
        self._with_channels = [*(each for each in self._with_channels if not each.is_closed), made]

    async def close_creations(self) -> None:
        for made in self._with_channels:
            await made.close()
        self._with_channels.clear()
        await self.outgoing.close()
