"""Messages that wait for a delayed retry.

While such a message waits, it is neither ready nor unacknowledged. Its place, its delivery count and the time of the
retry are in the log: after a restart it continues to wait once it was read from disk (until then it counts as ready).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from leveret.backlog.context import NextTimer
from leveret.message import Message

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog


class DelayedMessages:
    """Messages of one queue that are redelivered later."""

    __slots__ = ("_due", "_kept", "_next", "_queue", "bytes")

    def __init__(self, queue: Backlog) -> None:
        self._queue = queue
        self._due: list[tuple[float, int, int]] = []  # when, lane, sequence
        self._kept: dict[tuple[int, int], tuple[int, Message]] = {}
        self._next = NextTimer(queue.context, self._look)
        self.bytes = 0  # of content

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[int, int, Message]]:
        """The lane, sequence and message of each delayed message."""
        return ((lane, sequence, message) for (lane, sequence), (_, message) in self._kept.items())

    def times(self) -> list[tuple[float, tuple[int, int]]]:
        """When each delayed message is due, with its lane and sequence."""
        return [(due, (lane, sequence)) for due, lane, sequence in self._due if (lane, sequence) in self._kept]

    def find(self, lane: int, sequence: int) -> tuple[int, Message]:
        """The delivery count of a delayed message, and the message."""
        return self._kept[lane, sequence]

    def keep(self, due: float, lane: int, sequence: int, count: int, message: Message) -> None:
        """Hold a message that was delivered ``count`` times until ``due``, or until it expires."""
        due = min(due, message[2].deadline)
        self._kept[lane, sequence] = (count, message)
        self.bytes += len(message[0])
        heappush(self._due, (due, lane, sequence))
        self._next.no_later_than(due)

    def _look(self) -> None:
        self.release(self._queue.context.now())
        if self._due:
            self._next.no_later_than(self._due[0][0])

    def release(self, now: float) -> None:
        """Make the messages that are due ready again."""
        queue = self._queue
        while self._due and self._due[0][0] <= now:
            _, lane, sequence = heappop(self._due)
            count, message = self._kept.pop((lane, sequence))
            self.bytes -= len(message[0])
            queue.put_back(lane, sequence, count, message)
        queue.touch()

    def stop(self) -> None:
        self._next.stop()
