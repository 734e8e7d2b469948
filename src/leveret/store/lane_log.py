"""What the journal knows of one lane of one queue."""

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
        self.tries: dict[int, int] = {}  # by sequence, of live messages that came back

    def note_tries(self, sequence: int, number: int, tries: int) -> int:
        """How many came back for the first time."""
        before = len(self.tries)
        self.tries.update(dict.fromkeys(range(sequence, sequence + number), tries))
        return len(self.tries) - before

    def forget_tries(self, sequence: int, number: int) -> int:
        """How many of these had come back."""
        before = len(self.tries)
        if number > before:
            self.tries = {key: tries for key, tries in self.tries.items() if not sequence <= key < sequence + number}
        else:
            for key in range(sequence, sequence + number):
                self.tries.pop(key, None)
        return before - len(self.tries)

    def close_through(self, receipt: int) -> None:
        """The receipts up to this one are granted."""
        while self.open and self.open[0][2].receipt <= receipt:
            self.synced = self.open.popleft()[1]
