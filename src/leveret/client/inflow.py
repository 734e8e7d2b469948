"""Parses bytes from the broker into methods and messages.

Hot path: most frames are basic.deliver with its header and one body. Such a message is cut out of the bytes in one step
(``_whole_delivery``); everything else, and messages that are split over frames or reads, is parsed frame by frame.
Names that repeat from message to message are decoded once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Protocol

from leveret.errors import FrameError, UnexpectedFrame
from leveret.wire.constants import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_KINDS, FRAME_METHOD
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, decode_header, decode_method
from leveret.wire.methods import BasicDeliver, Method

DELIVER = b"\x00\x3c\x00\x3c"
MOST_NAMES = 1_000  # that are cached

unpack_envelope = ENVELOPE.unpack_from
unpack_tag = Struct(">QB").unpack_from
unpack_sizes = Struct(">Q").unpack_from


class Receiver(Protocol):
    """Called with the received methods and messages."""

    def heard(self, channel: int, method: Method) -> None: ...

    def heard_content(self, channel: int, method: Method, head: bytes, body: bytes) -> None: ...

    def heard_delivery(
        self, channel: int, tag: str, number: int, redelivered: bool, exchange: str, key: str, head: bytes, body: bytes
    ) -> None: ...


@dataclass(slots=True, eq=False)
class _Partial:
    """A message of which frames are missing."""

    method: Method
    head: bytes | None = None
    left: int = 0
    parts: list[bytes] = field(default_factory=list)


class Inflow:
    def __init__(self, receiver: Receiver, limit: int = 0) -> None:
        """``limit``: the largest payload in bytes; 0: no limit."""
        self.limit = limit
        self._receiver = receiver
        self._rest = b""
        self._partial: dict[int, _Partial] = {}
        self._names: dict[bytes, str] = {b"": ""}

    def receive(self, data: bytes) -> None:
        """Bytes in any slicing."""
        if self._rest:
            data = self._rest + data
        start, total = 0, len(data)
        deliver = self._whole_delivery
        while total - start > 7:
            kind, channel, size = unpack_envelope(data, start)
            end = start + 7 + size
            if end >= total:
                self._check_envelope(kind, size)
                break
            if data[end] != FRAME_END:
                raise FrameError(f"frame ends with 0x{data[end]:02x}, not 0xce")
            if kind == FRAME_METHOD and data.startswith(DELIVER, start + 7) and channel not in self._partial:
                behind = deliver(data, channel, start + 11, end, total)
                if behind:
                    start = behind
                    continue
            self._check_envelope(kind, size)
            self._one_frame(kind, channel, data[start + 7 : end])
            start = end + 1
        self._rest = data[start:] if start else data

    def forget(self, channel: int) -> None:
        """The channel is closed: the rest of a message will not arrive."""
        self._partial.pop(channel, None)

    def _check_envelope(self, kind: int, size: int) -> None:
        if kind not in FRAME_KINDS:
            raise FrameError(f"unknown frame type {kind}: is this an AMQP broker?")
        if self.limit and size > self.limit:
            raise FrameError(f"frame of {size} bytes exceeds the negotiated frame_max of {self.limit}")

    def _whole_delivery(self, data: bytes, channel: int, at: int, end: int, total: int) -> int:
        """The end of the message, if header and body have arrived in one frame each; else 0."""
        if total - end <= 8:
            return 0
        kind, owner, header_size = unpack_envelope(data, end + 1)
        header_end: int = end + 8 + header_size
        if header_end >= total or kind != FRAME_HEADER or owner != channel or data[header_end] != FRAME_END:
            return 0
        middle = at + 1 + data[at]
        key_at = middle + 10 + data[middle + 9] if middle + 10 < end else end
        if key_at >= end or key_at + 1 + data[key_at] != end or header_size < CONTENT_HEADER.size:
            return 0  # malformed: parsing frame by frame raises the error
        size: int = unpack_sizes(data, end + 12)[0]
        body_at = header_end + 1
        if size:
            body_end = body_at + 7 + size
            if body_end >= total or unpack_envelope(data, body_at) != (FRAME_BODY, channel, size):
                return 0
            if data[body_end] != FRAME_END:
                return 0
            body, behind = data[body_at + 7 : body_end], body_end + 1
        else:
            body, behind = b"", body_at
        number, bits = unpack_tag(data, middle)
        name = self._name
        tag, exchange, key = name(data[at + 1 : middle]), name(data[middle + 10 : key_at]), name(data[key_at + 1 : end])
        head = data[end + 8 + CONTENT_HEADER.size : header_end]
        self._receiver.heard_delivery(channel, tag, number, bits & 1 != 0, exchange, key, head, body)
        return behind

    def _name(self, raw: bytes) -> str:
        known = self._names.get(raw)
        if known is None:
            known = raw.decode("utf-8", "surrogateescape")
            if len(self._names) < MOST_NAMES:
                self._names[raw] = known
        return known

    def _one_frame(self, kind: int, channel: int, payload: bytes) -> None:
        partial = self._partial.get(channel)
        if kind == FRAME_HEARTBEAT:
            return
        if (kind == FRAME_METHOD) != (partial is None):
            raise UnexpectedFrame(
                f"unexpected frame of type {kind} on channel {channel}: content frames must follow their method"
            )
        if partial is None:
            self._method(channel, decode_method(payload))
        elif kind == FRAME_HEADER:
            if partial.head is not None:
                raise UnexpectedFrame(f"a second content header on channel {channel}")
            _, partial.left = decode_header(payload)
            partial.head = payload[CONTENT_HEADER.size :]
            self._end_if_whole(channel, partial)
        else:
            partial.left -= len(payload)
            partial.parts.append(payload)
            if partial.head is None or partial.left < 0:
                raise UnexpectedFrame(f"a body on channel {channel} without a header, or longer than announced")
            self._end_if_whole(channel, partial)

    def _method(self, channel: int, method: Method) -> None:
        if method.HAS_CONTENT:
            self._partial[channel] = _Partial(method)
        else:
            self._receiver.heard(channel, method)

    def _end_if_whole(self, channel: int, partial: _Partial) -> None:
        if partial.left or partial.head is None:
            return
        del self._partial[channel]
        got, head, body = partial.method, partial.head, b"".join(partial.parts)
        if isinstance(got, BasicDeliver):
            envelope = (got.consumer_tag, got.delivery_tag, got.redelivered, got.exchange, got.routing_key)
            self._receiver.heard_delivery(channel, *envelope, head, body)
        else:
            self._receiver.heard_content(channel, got, head, body)
