"""Received messages: delivered, fetched, or returned because no queue matched.

Properties are decoded on first access: most consumers use the body alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.wire.fields import Table
from leveret.wire.properties import Properties, decode_properties

if TYPE_CHECKING:
    from leveret.client.channel import Channel


class ReceivedMessage:
    """A message with its envelope. ``head``: the encoded properties."""

    __slots__ = ("_head", "_properties", "body", "exchange", "routing_key")

    def __init__(self, exchange: str, routing_key: str, head: bytes, body: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.body = body
        self._head = head
        self._properties: Properties | None = None

    @property
    def properties(self) -> Properties:
        if self._properties is None:
            self._properties = decode_properties(self._head, 0, len(self._head))
        return self._properties

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}

    @property
    def stream_offset(self) -> int | None:
        """Of a message from a stream. Checked for each delivery, so the properties of others are not decoded for it."""
        if b"x-stream-offset" not in self._head:
            return None
        offset = self.headers.get("x-stream-offset")
        return int(offset) if isinstance(offset, int) else None


class Delivery(ReceivedMessage):
    """Unacknowledged until it is acked, nacked or rejected, unless its consumer uses no acks."""

    __slots__ = ("channel", "consumer_tag", "delivery_tag", "redelivered")

    def __init__(
        self,
        channel: Channel,
        consumer_tag: str,
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        head: bytes,
        body: bytes,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.body = body
        self._head = head
        self._properties = None
        self.channel = channel
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered

    def ack(self, *, multiple: bool = False) -> None:
        """``multiple``: all messages that were delivered on the channel up to this one."""
        self.channel.ack(self.delivery_tag, multiple=multiple)

    def nack(self, *, multiple: bool = False, requeue: bool = True) -> None:
        self.channel.nack(self.delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, *, requeue: bool = False) -> None:
        self.channel.reject(self.delivery_tag, requeue=requeue)


class Fetched(Delivery):
    """The reply to basic.get. ``left``: how many messages remain in the queue."""

    __slots__ = ("left",)

    left: int


class Returned(ReceivedMessage):
    """A mandatory message that was not routed to a queue."""

    __slots__ = ("reply_code", "reply_text")

    def __init__(self, code: int, text: str, exchange: str, routing_key: str, head: bytes, body: bytes) -> None:
        super().__init__(exchange, routing_key, head, body)
        self.reply_code = code
        self.reply_text = text

    @property
    def head(self) -> bytes:
        """The encoded properties."""
        return self._head
