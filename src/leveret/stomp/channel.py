"""A channel of a STOMP connection, and its consumers, which write MESSAGE frames.

A connection has two channels, since confirms and transactions exclude each other on a channel: one publishes with
confirms, the other consumes and commits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leveret.delivery.confirms import Confirm
from leveret.errors import FrameError
from leveret.message import Message
from leveret.session.consumers import BURST_BYTES, ChannelConsumer
from leveret.session.direct_channel import DirectChannel
from leveret.session.pooled_consumer import Member
from leveret.stomp.destinations import shown
from leveret.stomp.frame import encode_head
from leveret.stomp.message_headers import headers_of_message
from leveret.wire.content import body_of, properties_of
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.stomp.connection import StompConnection


class StompConsumer(ChannelConsumer):
    __slots__ = ()

    connection: StompConnection

    def room(self) -> int:
        return 0 if self.connection.is_over else super().room()

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        taken = size = 0
        if limit > 1:  # for one message, ``room`` was checked by the caller
            limit = min(limit, self.room())
        while taken < limit and size <= BURST_BYTES:
            message = ready.popleft()
            self._deliver(message, redelivered=False)
            self.keep_one(message, lane, sequence + taken, 0)
            size += len(message[0])
            taken += 1
        return taken, size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        self._deliver(message, redelivered=True, count=count)
        self.keep_one(message, lane, sequence, count)

    def _deliver(self, message: Message, *, redelivered: bool, count: int = 0) -> None:
        try:
            head, body = self._encoded(message, redelivered, count)
        except Exception as bug:  # noqa: BLE001 - the queue must be able to go on
            self.connection.delivery_failed(bug)
            return
        self.outbox.pieces += (head, body, b"\0")
        self.outbox.added(len(head) + len(body) + 1)

    def _encoded(self, message: Message, redelivered: bool, count: int) -> tuple[bytes, bytes]:
        """A MESSAGE up to its body, and the body."""
        content, address, _ = message
        properties, body, version = _readable(content), body_of(content), self.connection.version
        if count and self.queue.counts_deliveries:
            properties.headers = {**(properties.headers or {}), "x-delivery-count": count}
        subscription, name = self.connection.subscriptions.delivered(self.tag, self.channel.unacked.next_tag)
        headers = [("subscription", subscription.id)] if subscription.id else []
        headers += [("destination", shown(address.exchange, address.key)), ("message-id", name)]
        headers.append(("redelivered", "true" if redelivered else "false"))
        if subscription.mode != "auto" and version == "1.2":
            headers.append(("ack", name))
        headers += [*headers_of_message(properties), ("content-length", str(len(body)))]
        return encode_head(version, "MESSAGE", headers), body


class StompMember(Member, StompConsumer):
    """A consumer of one queue of a pool."""


class StompChannel(DirectChannel):
    __slots__ = ()

    connection: StompConnection
    consumer_class = StompConsumer
    member_class = StompMember

    def send_confirms(self, confirms: list[Confirm]) -> None:
        self.connection.confirmed(confirms)

    def cancelled(self, tag: str) -> None:
        self.connection.cancelled(tag)

    def send_frames(self, frames: bytes) -> None:
        super().send_frames(frames)
        self.connection.leave_if_done()

    def granted(self, receipt: int) -> bool:
        is_waiting = super().granted(receipt)
        self.connection.leave_if_done()
        return is_waiting


def _readable(content: bytes) -> Properties:
    """No properties if they cannot be decoded: headers are not checked when they are published."""
    try:
        return properties_of(content)
    except FrameError:
        return Properties()
