"""The leased messages of a queue: their number, and the ranges on disk that must not be touched because of them.

Leased messages have left their lanes as if a consumer held them, but they are on disk only. Messages that were leased
since the start have sequences below the head of their lane, which the pager never reads again. A lease from before a
restart lies in the middle of the paged stretch: only such leases are kept here, as ranges, until the head of the lane
has passed them. A range may remain after its lease has ended; its messages are then in memory, or gone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class LeaseRanges:
    __slots__ = ("_missed", "_ranges", "bytes", "number")

    def __init__(self) -> None:
        self.number = 0  # messages that are leased
        self.bytes = 0  # of their content
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # by lane: first, stop; in order and not adjacent
        self._missed: set[tuple[int, int]] = set()  # (lane, sequence) of messages that expired while they were leased

    def add(self, lane: int, ranges: Iterable[tuple[int, int]]) -> None:
        joined: list[tuple[int, int]] = []
        for first, stop in sorted([*self._ranges.get(lane, ()), *ranges]):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((first, stop))
        self._ranges[lane] = joined

    def remove(self, lane: int, start: int, stop: int) -> None:
        """Remove a range that is kept here either as a whole or not at all."""
        ranges = self._ranges.get(lane, [])
        at = bisect_right(ranges, start, key=lambda each: each[0]) - 1
        if at >= 0 and stop <= ranges[at][1]:
            first, end = ranges[at]
            ranges[at : at + 1] = [part for part in ((first, start), (stop, end)) if part[0] < part[1]]

    def forget_below(self, lane: int, sequence: int) -> None:
        """The head of the lane has reached this sequence: ranges below are no longer needed."""
        ranges = self._ranges.get(lane)
        if ranges and ranges[0][1] <= sequence:
            self._ranges[lane] = [each for each in ranges if each[1] > sequence]

    def holds(self, lane: int, start: int, stop: int) -> bool:
        """Whether the whole range is kept here."""
        ranges = self._ranges.get(lane)
        if not ranges:
            return False
        at = bisect_right(ranges, start, key=lambda each: each[0]) - 1
        return at >= 0 and stop <= ranges[at][1]

    def passed(self, lane: int, sequence: int) -> int:
        """The first sequence from this one on that is not leased."""
        ranges = self._ranges.get(lane)
        if not ranges:
            return sequence
        at = bisect_right(ranges, sequence, key=lambda each: each[0]) - 1
        return max(ranges[at][1], sequence) if at >= 0 else sequence

    def next_start(self, lane: int, sequence: int, stop: int) -> int:
        """The start of the next leased range after this sequence, which is not leased; at most ``stop``."""
        ranges = self._ranges.get(lane, [])
        at = bisect_right(ranges, sequence, key=lambda each: each[0])
        return min(ranges[at][0], stop) if at < len(ranges) else stop

    def between(self, lane: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of [start, stop) that are not leased."""
        while (start := self.passed(lane, start)) < stop:
            end = self.next_start(lane, start, stop)
            yield start, end
            start = end

    def misses(self, lane: int, sequence: int) -> bool:
        """Whether the message cannot expire now because it is leased; it then expires when it is returned."""
        if self.passed(lane, sequence) == sequence:
            return False
        self._missed.add((lane, sequence))
        return True

    def take_missed(self, lane: int, start: int, stop: int) -> list[int]:
        """The sequences of messages in this range that expired while they were leased."""
        if not self._missed:
            return []
        found = [place for place in self._missed if place[0] == lane and start <= place[1] < stop]
        self._missed.difference_update(found)
        return [sequence for _, sequence in found]
