"""The AMQP side of a STOMP session: an AMQP client in the same process, on the connection that serves the STOMP client.

Requests go as AMQP methods, in bytes, to ``Connection.receive``; what the connection sends comes back through
``receive``. So permissions, limits, alarms, confirms, transactions and statistics of STOMP clients are those of AMQP
clients, by the same code.

Methods are collected and passed to the connection once per chunk of input. ``receive`` is called while the connection
writes its outbox: it must not pass anything to the connection.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Protocol

from leveret.errors import FrameError, UnexpectedFrame
from leveret.session.connection import Connection
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leveret.wire.frames import CONTENT_HEADER, content_frames, decode_header, decode_method, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ConnectionClose,
    Method,
)
from leveret.wire.properties import Properties, decode_properties, encode_properties
from leveret.wire.reader import FrameReader

PUBLISHING, CONSUMING = 1, 2  # channels: with confirms; and the other, which transactions need too
Then = Callable[[], None] | None


class AmqpEvents(Protocol):
    """What the connection sends without a request."""

    def delivered(self, envelope: BasicDeliver, properties: Properties, body: bytes) -> None: ...

    def confirmed(self, tag: int, multiple: bool, is_confirmed: bool) -> None: ...

    def cancelled(self, consumer_tag: str) -> None: ...

    def ended(self, code: int, text: str) -> None: ...


class _Partial:
    """A message whose frames have not all arrived."""

    __slots__ = ("left", "method", "parts", "properties")

    def __init__(self, method: Method) -> None:
        self.method = method
        self.properties: Properties | None = None
        self.left = 0
        self.parts: list[bytes] = []


class AmqpClient:
    __slots__ = ("_events", "_out", "_partial", "_reader", "_waiting", "connection")

    def __init__(self, connection: Connection, events: AmqpEvents) -> None:
        self.connection = connection
        self._events = events
        self._out: list[bytes] = []
        self._reader = FrameReader(0)
        self._partial: dict[int, _Partial] = {}
        self._waiting: defaultdict[int, deque[tuple[type[Method], Then]]] = defaultdict(deque)  # by channel

    # ---- to the connection

    def write(self, data: bytes) -> None:
        self._out.append(data)

    def send(self, channel: int, method: Method) -> None:
        """A method without a reply."""
        self._out.append(method_frame(channel, method))

    def call(self, channel: int, method: Method, reply: type[Method], then: Then = None) -> None:
        self._waiting[channel].append((reply, then))
        self._out.append(method_frame(channel, method))

    def expect(self, channel: int, reply: type[Method], then: Then = None) -> None:
        """A reply to something that was not sent by ``call``."""
        self._waiting[channel].append((reply, then))

    def message(self, channel: int, exchange: str, key: str, properties: Properties, body: bytes) -> bytes:
        """The frames of a publish."""
        frames = content_frames(channel, encode_properties(properties), body, self.connection.frame_max)
        return method_frame(channel, BasicPublish(exchange, key)) + frames

    def has_queue(self, name: str) -> bool:
        return self.connection.is_over or name in self.connection.vhost.queues

    @property
    def is_waiting(self) -> bool:
        return any(self._waiting.values())

    def flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self.connection.receive(data)

    # ---- from the connection

    def receive(self, data: bytes) -> None:
        for kind, channel, payload in self._reader.feed(data):
            if kind == FRAME_METHOD:
                self._method(channel, decode_method(payload))
            elif kind == FRAME_HEADER:
                partial = self._partial[channel]
                _, partial.left = decode_header(payload)
                partial.properties = _readable(payload)
                self._end_if_whole(channel, partial)
            elif kind == FRAME_BODY:
                partial = self._partial[channel]
                partial.parts.append(payload)
                partial.left -= len(payload)
                self._end_if_whole(channel, partial)

    def _method(self, channel: int, method: Method) -> None:
        if method.HAS_CONTENT:
            self._partial[channel] = _Partial(method)
        elif isinstance(method, BasicAck):
            self._events.confirmed(method.delivery_tag, method.multiple, is_confirmed=True)
        elif isinstance(method, BasicNack):
            self._events.confirmed(method.delivery_tag, method.multiple, is_confirmed=False)
        elif isinstance(method, BasicCancel):
            self._events.cancelled(method.consumer_tag)
        elif isinstance(method, ChannelClose | ConnectionClose):
            self._events.ended(method.reply_code, method.reply_text)
        else:
            self._replied(channel, method)

    def _replied(self, channel: int, method: Method) -> None:
        waiting = self._waiting[channel]
        if not waiting or not isinstance(method, waiting[0][0]):
            raise UnexpectedFrame(f"{method.NAME} on channel {channel} is no reply to a method that was sent")
        then = waiting.popleft()[1]
        if then is not None:
            then()

    def _end_if_whole(self, channel: int, partial: _Partial) -> None:
        if partial.left:
            return
        del self._partial[channel]
        if isinstance(partial.method, BasicDeliver):
            self._events.delivered(partial.method, partial.properties or Properties(), b"".join(partial.parts))


def _readable(header: bytes) -> Properties:
    """No properties if they cannot be decoded: headers are not checked when they are published."""
    try:
        return decode_properties(header, CONTENT_HEADER.size, len(header))
    except FrameError:
        return Properties()
