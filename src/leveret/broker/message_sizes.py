"""The sizes of published messages, for a histogram.  Hot path.

Sizes are counted by run, since a message must not cost more for being counted: the first message of a run stands for
all of them. Runs are consecutive publishes with the same exchange and key in one read, so they are mostly alike; where
they are not, the first ones are a sample of all.

A publish counts the exact length of the content, which costs one access to a dict (session/publishes.py). The lengths
are sorted into the buckets later: twice a second, and before the numbers are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)  # bytes, as RabbitMQ's
FRAMES = 30  # bytes of a content that belong to frames: a header frame without properties, and one body frame


class MessageSizes:
    __slots__ = ("_bytes", "_numbers", "lengths")

    def __init__(self) -> None:
        self.lengths: defaultdict[int, int] = defaultdict(int)  # messages by length, since the last ``sort``
        self._numbers = [0] * (len(SIZES) + 1)  # of messages, by size; the last one has no limit
        self._bytes = 0

    def sort(self) -> None:
        """Sort the lengths into the buckets, so that their number stays small."""
        for length, number in self.lengths.items():
            size = max(0, length - FRAMES)
            self._bytes += size * number
            self._numbers[bisect_left(SIZES, size)] += number
        self.lengths.clear()

    def cumulative(self) -> list[int]:
        """The messages up to each size; the last number is that of all messages."""
        self.sort()
        return list(accumulate(self._numbers))

    def total(self) -> int:
        """Bytes of properties and bodies."""
        self.sort()
        return self._bytes
