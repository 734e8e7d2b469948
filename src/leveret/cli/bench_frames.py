"""The messages of a load, as bytes: all alike but for a number and the moment of sending, so that they need no parser.

A batch of publishes is one buffer that is made once; only numbers and moments are written into it anew. Deliveries come
back with frames of equal length as well: they are cut by that length and compared with what is expected, byte for byte.

    | basic.publish | header frame | 3 | channel | size | number | moment | filler ... | 0xCE |
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from leveret.cli.amqp_link import CHANNEL
from leveret.wire.constants import FRAME_METHOD, FRAME_OVERHEAD
from leveret.wire.content import SIZE_AT, body_at
from leveret.wire.frames import ENVELOPE, content_frames, decode_method, method_frame
from leveret.wire.methods import BasicDeliver, BasicPublish, Method
from leveret.wire.properties import Properties, encode_properties

STAMP = Struct(">QQ")  # number, nanoseconds
SMALLEST = STAMP.size
BATCH_BYTES = 64 << 10
MOST_IN_BATCH = 256
SEQUENCE_BITS = 48  # the publisher stands above them
DETAIL = 32  # steps of the logarithm: quantiles are true to three in a hundred


class Sample(NamedTuple):
    """What every message of a load is like."""

    queue: str
    content: bytes

    @property
    def stamp_at(self) -> int:
        return body_at(self.content) + ENVELOPE.size


def sample(queue: str, size: int, persistent: bool, frame_max: int) -> Sample:
    """The filler is random: nobody can have made it up, or have compressed it."""
    body = bytes(SMALLEST) + secrets.token_bytes(size - SMALLEST)
    properties = encode_properties(Properties(delivery_mode=2 if persistent else 1))
    return Sample(queue, content_frames(CHANNEL, properties, body, frame_max))


class Batches:
    """Of one publisher."""

    def __init__(self, like: Sample, publisher: int) -> None:
        method = method_frame(CHANNEL, BasicPublish("", like.queue))
        self._stride = len(method) + len(like.content)
        self.most = max(1, min(MOST_IN_BATCH, BATCH_BYTES // self._stride))
        self._buffer = bytearray((method + like.content) * self.most)
        self._stamp_at = len(method) + like.stamp_at
        self._next = publisher << SEQUENCE_BITS

    def take(self, number: int, moment: int) -> bytes:
        """The next messages: ``number`` of them, ``most`` at most."""
        buffer, stamp, next_ = self._buffer, STAMP.pack_into, self._next
        for at in range(self._stamp_at, number * self._stride, self._stride):
            stamp(buffer, at, next_, moment)
            next_ += 1
        self._next = next_
        return bytes(memoryview(buffer)[: number * self._stride])


class Latencies:
    """How many messages took how long, in steps of a logarithm."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}

    def add(self, nanoseconds: int, number: int) -> None:
        step = int(math.log(max(nanoseconds, 1)) * DETAIL)
        self._steps[step] = self._steps.get(step, 0) + number

    def quantile(self, part: float) -> float | None:
        """In seconds; None as long as there is nothing."""
        left = part * sum(self._steps.values())
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return math.exp((step + 0.5) / DETAIL) / 1e9
        return None


class Received:
    """All that the consumers of a load were given. ``total`` adds the numbers up: other messages, another sum."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0
        self.changed = 0  # messages that are not as they were sent
        self.disordered = 0  # that came after a later one, or twice
        self.latencies = Latencies()


class Deliveries:
    """Of one consumer: bytes in any slicing go in, and are counted in ``received``."""

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
        """``other`` is told of methods that are no deliveries."""
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
        """How many bytes of messages there were that are as expected."""
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
        """The size of a frame that no expected message begins with, 0 if it is not whole."""
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
        """Whether this may become an expected message when the rest has come."""
        return self._pending.startswith(self._before, start)
