"""What of a queue is leased: how much, and which stretches on disk nobody may touch because of it.

Leased messages have left their lanes as if a consumer held them, but they are on disk only and nobody has them in
memory. Those that were leased in this life stand below the head of their lane, where no pager ever looks again. A lease
that an earlier life left lies in the middle of what is paged: only such stretches are kept here, as ranges, until the
head of the lane has passed them. A range may outlast its lease; what it names is then in memory, or gone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


class Withheld:
    __slots__ = ("_missed", "_ranges", "bytes", "number", "queue_died")

    def __init__(self) -> None:
        self.number = 0  # messages that are leased
        self.bytes = 0  # of their content
        self.queue_died: Callable[[], None] = lambda: None  # the leases go with it
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # by lane: from, below; in order, none touches another
        self._missed: set[tuple[int, int]] = set()  # (lane, sequence) of those whose time was up while they were leased

    def add(self, lane: int, ranges: Iterable[tuple[int, int]]) -> None:
        joined: list[tuple[int, int]] = []
        for first, stop in sorted([*self._ranges.get(lane, ()), *ranges]):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((first, stop))
        self._ranges[lane] = joined

    def remove(self, lane: int, start: int, stop: int) -> None:
        """All of these are kept here, or none."""
        ranges = self._ranges.get(lane, [])
        at = bisect_right(ranges, start, key=lambda each: each[0]) - 1
        if at >= 0 and stop <= ranges[at][1]:
            first, end = ranges[at]
            ranges[at : at + 1] = [part for part in ((first, start), (stop, end)) if part[0] < part[1]]

    def forget_below(self, lane: int, sequence: int) -> None:
        """The head of the lane is there: nobody looks at what is below."""
        ranges = self._ranges.get(lane)
        if ranges and ranges[0][1] <= sequence:
            self._ranges[lane] = [each for each in ranges if each[1] > sequence]

    def holds(self, lane: int, start: int, stop: int) -> bool:
        """Whether all of these are kept here."""
        ranges = self._ranges.get(lane)
        if not ranges:
            return False
        at = bisect_right(ranges, start, key=lambda each: each[0]) - 1
        return at >= 0 and stop <= ranges[at][1]

    def passed(self, lane: int, sequence: int) -> int:
        """The first sequence from this one on that is not withheld."""
        ranges = self._ranges.get(lane)
        if not ranges:
            return sequence
        at = bisect_right(ranges, sequence, key=lambda each: each[0]) - 1
        return max(ranges[at][1], sequence) if at >= 0 else sequence

    def next_start(self, lane: int, sequence: int, stop: int) -> int:
        """Where what is withheld begins behind this one that is not; ``stop`` if it does not before that."""
        ranges = self._ranges.get(lane, [])
        at = bisect_right(ranges, sequence, key=lambda each: each[0])
        return min(ranges[at][0], stop) if at < len(ranges) else stop

    def between(self, lane: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The parts of [start, stop) that are not withheld."""
        while (start := self.passed(lane, start)) < stop:
            end = self.next_start(lane, start, stop)
            yield start, end
            start = end

    def misses(self, lane: int, sequence: int) -> bool:
        """Whether this one cannot die now, because it is leased; then it is remembered that it should have."""
        if self.passed(lane, sequence) == sequence:
            return False
        self._missed.add((lane, sequence))
        return True

    def take_missed(self, lane: int, start: int, stop: int) -> list[int]:
        """Of these, the ones that should have died."""
        if not self._missed:
            return []
        found = [place for place in self._missed if place[0] == lane and start <= place[1] < stop]
        self._missed.difference_update(found)
        return [sequence for _, sequence in found]


def withheld_of(queue: ClassicQueue) -> Withheld:
    """Made when somebody leases from the queue for the first time."""
    pager = queue.pager
    assert pager is not None
    if pager.withheld is None:
        pager.withheld = Withheld()
    return pager.withheld
