"""The journal's state of one lane of one queue."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from leveret.store.batch import Append
from leveret.store.deadline_columns import DeadlineColumns
from leveret.store.run_block import Block
from leveret.store.run_index import RunIndex

MOST_QUICK = 8
Tries = dict[int, tuple[int, int]]  # by sequence: delivery count, and the segment with its record


def lane_key(queue: int, lane: int) -> int:
    return queue << 8 | lane


class FrozenLane(NamedTuple):
    """A lane as of one moment, for a checkpoint. The first ``timed`` deadlines belong to it."""

    tail: int
    redelivered_below: int
    messages: int
    bytes: int
    blocks: tuple[Block, ...]
    tries: Tries
    deadlines: DeadlineColumns
    timed: int


class LaneLog:
    __slots__ = (
        "deadlines",
        "epoch",
        "frozen",
        "index",
        "open",
        "quick",
        "redelivered_below",
        "synced",
        "tail",
        "tries",
    )

    def __init__(self, epoch: int = 0) -> None:
        self.index = RunIndex()
        self.open: deque[tuple[int, int, Append]] = deque()  # (first, stop, append) whose receipt is not granted yet
        self.quick = 0  # above 0: its messages are settled so soon that appends wait for it (store/ack_wait.py)
        self.synced = 0  # every message below this sequence is on disk, if it ever goes there
        self.tail = 1  # above every sequence that a record names
        self.tries: Tries = {}  # of live messages that were requeued
        self.redelivered_below = 1  # as noted at a clean shutdown
        self.deadlines = DeadlineColumns()  # of messages with a deadline of their own, also of some that are gone
        self.epoch = epoch  # of the snapshot that last included the lane
        self.frozen: FrozenLane | None = None  # until the snapshot collects it

    def freeze(self, epoch: int) -> None:
        """Keep the present state for the snapshot of this epoch."""
        self.epoch = epoch
        index = self.index
        self.frozen = FrozenLane(
            self.tail,
            self.redelivered_below,
            len(index),
            index.bytes,
            index.freeze(),
            self.tries.copy(),
            self.deadlines,
            len(self.deadlines),
        )

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
