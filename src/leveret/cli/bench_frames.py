"""The messages of ``leveret bench`` as bytes: identical except for a number and the time of publishing.

A batch of publishes is encoded once; only numbers and times are written into it. Deliveries are not parsed, but cut by
their length and compared with the expected bytes: a load generator must be faster than the broker it measures, and the
client's consumers are half as fast. Connection, channels and acknowledgements are the client's (``LoadConnection``).

    | basic.publish | header frame | 3 | channel | size | number | moment | filler ... | 0xCE |
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from leveret.client import Connection
from leveret.client.confirms import Confirms
from leveret.wire.constants import FRAME_METHOD, FRAME_OVERHEAD
from leveret.wire.content import SIZE_AT, body_at
from leveret.wire.frames import ENVELOPE, content_frames, decode_method, method_frame
from leveret.wire.methods import BasicDeliver, BasicPublish, Method
from leveret.wire.properties import Properties, encode_properties

CHANNEL = 1  # the first and only one of each connection
STAMP = Struct(">QQ")  # number, nanoseconds
SMALLEST = STAMP.size
BATCH_BYTES = 64 << 10
MOST_IN_BATCH = 256
SEQUENCE_BITS = 48  # the bits above them are the publisher
DETAIL = 32  # steps per unit of the natural logarithm: quantiles are exact to 3 %


class Sample(NamedTuple):
    """The common parts of all messages of a load."""

    queue: str
    content: bytes

    @property
    def stamp_at(self) -> int:
        return body_at(self.content) + ENVELOPE.size


def sample(queue: str, size: int, persistent: bool, frame_max: int) -> Sample:
    """The filler is random, so that it cannot be compressed."""
    body = bytes(SMALLEST) + secrets.token_bytes(size - SMALLEST)
    properties = encode_properties(Properties(delivery_mode=2 if persistent else 1))
    return Sample(queue, content_frames(CHANNEL, properties, body, frame_max))


class Batches:
    """The publishes of one publisher."""

    def __init__(self, like: Sample, publisher: int) -> None:
        method = method_frame(CHANNEL, BasicPublish("", like.queue))
        self._stride = len(method) + len(like.content)
        self.most = max(1, min(MOST_IN_BATCH, BATCH_BYTES // self._stride))
        self._buffer = bytearray((method + like.content) * self.most)
        self._stamp_at = len(method) + like.stamp_at
        self._next = publisher << SEQUENCE_BITS

    def take(self, number: int, moment: int) -> bytes:
        """The frames of the next ``number`` messages, at most ``most``."""
        buffer, stamp, next_ = self._buffer, STAMP.pack_into, self._next
        for at in range(self._stamp_at, number * self._stride, self._stride):
            stamp(buffer, at, next_, moment)
            next_ += 1
        self._next = next_
        return bytes(memoryview(buffer)[: number * self._stride])


class Latencies:
    """A histogram with logarithmic steps."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def add(self, nanoseconds: int, number: int) -> None:
        step = int(math.log(max(nanoseconds, 1)) * DETAIL)
        self._steps[step] = self._steps.get(step, 0) + number

    def quantile(self, part: float) -> float | None:
        """In seconds; None without values."""
        left = part * sum(self._steps.values())
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return math.exp((step + 0.5) / DETAIL) / 1e9
        return None


class Received:
    """Totals of all consumers. ``total``: the sum of the message numbers, compared with that of the published ones."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.changed = 0  # not as published
        self.disordered = 0  # received after a later one, or twice
        self.latencies = Latencies()


class Deliveries:
    """The deliveries of one consumer, fed as bytes in any slicing and counted in ``received``."""

    def __init__(self, like: Sample, tag: str, publishers: int, received: Received) -> None:
        method = method_frame(CHANNEL, BasicDeliver(tag, 0, False, "", like.queue))
        tag_at = ENVELOPE.size + 4 + 1 + len(tag.encode())
        self._before = method[:tag_at]
        self._between = method[tag_at + 8 :] + like.content[: like.stamp_at]
        self._after = like.content[like.stamp_at + STAMP.size :]
        self._layout = Struct(f">{len(self._before)}sQ{len(self._between)}sQQ{len(self._after)}s")
        self._last = [-1 + (publisher << SEQUENCE_BITS) for publisher in range(publishers)]
        self._received = received
        self._pending = bytearray()
        self.last_tag = 0

    def take(self, data: bytes, moment: int, other: Callable[[Method], None]) -> None:
        """``other`` is called with methods that are not deliveries."""
        pending = self._pending
        pending += data
        start = 0
        while True:
            start += self._take_alike(start, moment)
            size = self._odd_frame(start, other)
            if not size:
                break
            start += size
        del pending[:start]

    def _take_alike(self, start: int, moment: int) -> int:
        """The size of the messages at ``start`` that are as expected."""
        stride = self._layout.size
        received, last = self._received, self._last
        count = total = run = 0
        run_sent = 0
        whole = (len(self._pending) - start) // stride * stride
        with memoryview(self._pending) as view, view[start : start + whole] as part:
            for before, tag, between, number, sent, after in self._layout.iter_unpack(part):
                if before != self._before or between != self._between or after != self._after:
                    break
                publisher = number >> SEQUENCE_BITS
                if publisher >= len(last) or number <= last[publisher]:
                    received.disordered += 1
                else:
                    last[publisher] = number
                if sent != run_sent:
                    if run:
                        received.latencies.add(moment - run_sent, run)
                    run, run_sent = 0, sent
                run += 1
                count += 1
                total += number
                self.last_tag = tag
        if run:
            received.latencies.add(moment - run_sent, run)
        received.count += count
        received.total += total
        return count * stride

    def _odd_frame(self, start: int, other: Callable[[Method], None]) -> int:
        """The size of a frame that is not the start of an expected message, 0 if it is incomplete."""
        pending = self._pending
        if len(pending) - start < ENVELOPE.size:
            return 0
        kind, size = pending[start], int.from_bytes(pending[start + SIZE_AT : start + ENVELOPE.size], "big")
        end = start + size + FRAME_OVERHEAD
        if len(pending) < end or (len(pending) - start < self._layout.size and self._is_alike(start)):
            return 0
        if kind == FRAME_METHOD:
            method = decode_method(bytes(pending[start + ENVELOPE.size : end - 1]))
            if isinstance(method, BasicDeliver):
                self._received.changed += 1
                self.last_tag = method.delivery_tag
            else:
                other(method)
        return size + FRAME_OVERHEAD

    def _is_alike(self, start: int) -> bool:
        """Whether this may be the start of an expected message."""
        return self._pending.startswith(self._before, start)


class LoadConnection(Connection):
    """A connection whose received bytes go to ``take`` once that is set, instead of being parsed."""

    take: Callable[[bytes], None] | None = None

    def received(self, data: bytes) -> None:
        if self.take is None:
            super().received(data)
        else:
            self._keep_alive.reads += 1
            self.take(data)


class ConfirmCount(Confirms):
    """Counts confirms instead of resolving a future for each message."""

    __slots__ = ("_on_confirm", "_single", "_through", "refused")

    def __init__(self, on_confirm: Callable[[int], None]) -> None:
        """``on_confirm`` is called with the number of messages confirmed so far."""
        super().__init__(asyncio.get_running_loop())
        self.refused = 0
        self._through = 0
        self._single: set[int] = set()
        self._on_confirm = on_confirm

    def settle(self, tag: int, *, multiple: bool, is_taken: bool) -> None:
        if not is_taken:
            self.refused += tag - self._through if multiple else 1
        if multiple:
            self._through = max(self._through, tag)
            self._single = {each for each in self._single if each > self._through}
        else:
            self._single.add(tag)
        while self._through + 1 in self._single:
            self._through += 1
            self._single.remove(self._through)
        self._on_confirm(self._through + len(self._single))
