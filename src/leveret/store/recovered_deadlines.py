"""The deadlines of a lane's messages as recovery finds them: two columns of numbers, since there may be a million."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from leveret.store.run_block import Run


class RecoveredDeadlines:
    """Of messages with a deadline of their own: (wall time, sequence), in the order in which they were found."""

    __slots__ = ("_sequences", "_times")

    def __init__(self) -> None:
        self._times = array("d")
        self._sequences = array("Q")

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return zip(self._times, self._sequences, strict=True)

    def add(self, time: float, sequence: int) -> None:
        self._times.append(time)
        self._sequences.append(sequence)

    def keep(self, runs: Iterable[Run]) -> None:
        """Drop those of messages that are in none of these runs, which come in order."""
        firsts, stops = array("Q"), array("Q")
        for run in runs:
            firsts.append(run.sequence)
            stops.append(run.sequence + run.number)
        found, self._times, self._sequences = iter(self), array("d"), array("Q")
        for time, sequence in found:
            at = bisect_right(firsts, sequence) - 1
            if at >= 0 and sequence < stops[at]:
                self.add(time, sequence)

    def clear(self) -> None:
        self._times, self._sequences = array("d"), array("Q")
