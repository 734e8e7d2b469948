"""The deadlines of a lane's messages: two columns of numbers, since there may be a million."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from leveret.store.run_block import Run


class DeadlineColumns:
    """(wall time, sequence) of messages with a deadline of their own, in the order in which they were added."""

    __slots__ = ("sequences", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.sequences = array("Q")

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return zip(self.times, self.sequences, strict=True)

    def add(self, time: float, sequence: int) -> None:
        self.times.append(time)
        self.sequences.append(sequence)

    def first(self, number: int) -> DeadlineColumns:
        """A copy of the first ``number`` of them."""
        found = DeadlineColumns()
        found.times, found.sequences = self.times[:number], self.sequences[:number]
        return found

    def replace(self, number: int, others: DeadlineColumns) -> None:
        """Put others in the place of the first ``number``."""
        self.times[:number], self.sequences[:number] = others.times, others.sequences

    def keep(self, runs: Iterable[Run]) -> None:
        """Drop those of messages that are in none of these runs, which come in order."""
        firsts, stops = array("Q"), array("Q")
        for run in runs:
            firsts.append(run.sequence)
            stops.append(run.sequence + run.number)
        found = list(self)
        self.times, self.sequences = array("d"), array("Q")
        for time, sequence in found:
            at = bisect_right(firsts, sequence) - 1
            if at >= 0 and sequence < stops[at]:
                self.add(time, sequence)
