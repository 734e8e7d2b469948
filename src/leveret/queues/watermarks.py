"""Tells when everything has left a queue that was in it at some moment.

A mark remembers the tails of the lanes and how many messages the queue had: ready, unacked or waiting for a retry. Each
release of a message from before the mark counts it down; what came later does not count. What comes back to its place
is not released and keeps its mark waiting. Costs one comparison for each release, on queues that have a mark only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


class Mark:
    """One moment in the life of a queue."""

    __slots__ = ("_left", "_over", "_queue", "_tails")

    def __init__(self, queue: ClassicQueue, over: Callable[[], None]) -> None:
        self._queue = queue
        self._over = over  # called once, as soon as nothing is left; maybe in the middle of the queue's work
        self._tails = [lane.tail for lane in queue.lanes]
        self._left = outstanding(queue)

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def released(self, lane: int, sequence: int, number: int, size: int) -> None:
        tail = self._tails[lane]
        if sequence >= tail or self.is_over:
            return
        if size:
            self._left -= min(number, tail - sequence)
        else:  # a stretch was purged, and some of it was gone before: all that is left is in somebody's hands
            self._left = min(self._left, _in_hands(self._queue))
        self._check()

    def look(self) -> None:
        """After a drain: the queue cannot owe more than it has, whatever was lost on a damaged disk."""
        pager = self._queue.pager
        if not self.is_over and not (pager is not None and pager.exhuming):
            self._left = min(self._left, outstanding(self._queue))
            self._check()

    def _check(self) -> None:
        if self.is_over:
            self.end()

    def end(self) -> None:
        self._left = 0
        self._over()


class Watermarks:
    """The marks of one queue."""

    __slots__ = ("_marks", "_queue", "_unsettled")

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._marks: list[Mark] = []
        self._unsettled: list[Callable[[], None]] = []  # marks to be made when it is known what there is

    def released(self, lane: int, sequence: int, number: int, size: int) -> None:
        for mark in self._marks[:]:
            mark.released(lane, sequence, number, size)

    def add(self, over: Callable[[], None]) -> None:
        """Mark this moment; ``over`` is called when all is gone that is here, which is now if there is nothing."""
        pager = self._queue.pager
        if pager is not None and pager.exhuming:
            self._unsettled.append(over)  # some have left the lane and not the queue: nobody has counted them
            return
        mark = Mark(self._queue, lambda: self._end(mark, over))
        if mark.is_over:
            over()
        else:
            self._marks.append(mark)

    def _end(self, mark: Mark, over: Callable[[], None]) -> None:
        self._marks.remove(mark)
        over()

    def look(self, queue: ClassicQueue) -> None:
        """The queue was drained (an observer of it)."""
        if self._unsettled and queue.pager is not None and not queue.pager.exhuming:
            unsettled, self._unsettled = self._unsettled, []
            for over in unsettled:
                self.add(over)
        for mark in self._marks[:]:
            mark.look()

    def queue_died(self) -> None:
        unsettled, self._unsettled = self._unsettled, []
        for over in unsettled:
            over()
        for mark in self._marks[:]:
            mark.end()


def outstanding(queue: ClassicQueue) -> int:
    """Messages that are in the queue or in the hands of its consumers."""
    return queue.ready + _in_hands(queue)


def _in_hands(queue: ClassicQueue) -> int:
    return queue.unacked + (0 if queue.waiting is None else len(queue.waiting))


def watch(queue: ClassicQueue, over: Callable[[], None]) -> None:
    """Call ``over`` once all that is in the queue now has left it for good."""
    if not queue.alive:
        over()
        return
    if queue.watermarks is None:
        queue.watermarks = Watermarks(queue)
        queue.observers.append(queue.watermarks.look)
    queue.watermarks.add(over)
