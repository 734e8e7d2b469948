"""The journal's state of one lane of one queue."""

from __future__ import annotations

from collections import deque

from leveret.store.batch import Append
from leveret.store.run_index import RunIndex


def lane_key(queue: int, lane: int) -> int:
    return queue << 8 | lane


class LaneLog:
    __slots__ = ("index", "open", "synced", "tries")

    def __init__(self) -> None:
        self.index = RunIndex()
        self.open: deque[tuple[int, int, Append]] = deque()  # (first, stop, append) whose receipt is not granted yet
        self.synced = 0  # every message below this sequence is on disk, if it ever goes there
        self.tries: dict[
            int, tuple[int, int]
        ] = {}  # of live messages that were requeued: delivery count, and the segment with its record

    def forget_tries(self, sequence: int, number: int) -> list[int]:
        """These are done with; the segments of their returns."""
        if number > len(self.tries):
            keys = [key for key in self.tries if sequence <= key < sequence + number]
        else:
            keys = [key for key in range(sequence, sequence + number) if key in self.tries]
        return [self.tries.pop(key)[1] for key in keys]

    def close_through(self, receipt: int) -> None:
        """The receipts up to this one are granted."""
        while self.open and self.open[0][2].receipt <= receipt:
            self.synced = self.open.popleft()[1]
