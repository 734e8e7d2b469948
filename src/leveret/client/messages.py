"""Messages as they reach a client: delivered, fetched, or returned since no queue took them.

Properties are decoded on first access: most consumers use the body alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.wire.fields import Table
from leveret.wire.properties import Properties, decode_properties

if TYPE_CHECKING:
    from leveret.client.channel import Channel


class Arrival:
    """A message with its envelope. ``head`` are the properties as they came."""

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
        """Of one that was read from a stream. It is asked of each delivery: others are not decoded for it."""
        if b"x-stream-offset" not in self._head:
            return None
        offset = self.headers.get("x-stream-offset")
        return int(offset) if isinstance(offset, int) else None


class Delivery(Arrival):
    """One that is ours until it is acked, nacked or rejected, unless the consumer asked for no acks."""

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
        """With ``multiple`` all that were delivered on the channel up to this one."""
        self.channel.ack(self.delivery_tag, multiple=multiple)

    def nack(self, *, multiple: bool = False, requeue: bool = True) -> None:
        self.channel.nack(self.delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, *, requeue: bool = False) -> None:
        self.channel.reject(self.delivery_tag, requeue=requeue)


class Fetched(Delivery):
    """The answer to basic.get. ``left`` is how many were ready behind it."""

    __slots__ = ("left",)

    left: int


class Returned(Arrival):
    """A mandatory message that no queue took."""

    __slots__ = ("reply_code", "reply_text")

    def __init__(self, code: int, text: str, exchange: str, routing_key: str, head: bytes, body: bytes) -> None:
        super().__init__(exchange, routing_key, head, body)
        self.reply_code = code
        self.reply_text = text

    @property
    def head(self) -> bytes:
        """Its properties as they came."""
        return self._head
