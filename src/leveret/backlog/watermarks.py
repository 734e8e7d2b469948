"""Calls back when all messages that were in a queue at a given moment have left it.

A mark stores the tails of the lanes and how many messages the queue had: ready, unacknowledged or waiting for a retry.
Each release of a message from before the mark decrements that number; later messages do not count. A message that
returns to its place is not released, so its mark continues to wait. The cost is one comparison per release, only on
queues that have a mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog


class Mark:
    """The state of a queue at one moment."""

    __slots__ = ("_left", "_over", "_queue", "_tails")

    def __init__(self, queue: Backlog, over: Callable[[], None]) -> None:
        self._queue = queue
        self._over = over  # called once, when nothing is left; possibly in the middle of the queue's work
        self._tails = [lane.tail for lane in queue.lanes]
        self._left = queue.outstanding

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def released(self, lane: int, sequence: int, number: int, size: int) -> None:
        tail = self._tails[lane]
        if sequence >= tail or self.is_over:
            return
        if size:
            self._left -= min(number, tail - sequence)
        else:  # a stretch was purged that was partly gone before: only unacknowledged messages are left
            self._left = min(self._left, self._queue.unsettled)
        self._check()

    def look(self) -> None:
        """Called after a drain: no more can be left than the queue has, even if a damaged disk lost some messages."""
        pager = self._queue.pager
        if not self.is_over and not (pager is not None and pager.reads_expired):
            self._left = min(self._left, self._queue.outstanding)
            self._check()

    def _check(self) -> None:
        if self.is_over:
            self.end()

    def end(self) -> None:
        self._left = 0
        self._over()


class Watermarks:
    """The marks of one queue."""

    __slots__ = ("_marks", "_queue", "_unsettled", "followers")

    def __init__(self, queue: Backlog) -> None:
        self._queue = queue
        self.followers: list[Callable[[int, int, int], None]] = []  # get lane, sequence and number of each release
        self._marks: list[Mark] = []
        self._unsettled: list[Callable[[], None]] = []  # marks to create once the number of messages is known

    def released(self, lane: int, sequence: int, number: int, size: int) -> None:
        for mark in self._marks[:]:
            mark.released(lane, sequence, number, size)
        for follower in self.followers:
            follower(lane, sequence, number)

    def add(self, over: Callable[[], None]) -> None:
        """Mark this moment; ``over`` is called once all present messages are gone, immediately if there are none."""
        pager = self._queue.pager
        if pager is not None and pager.reads_expired:
            self._unsettled.append(over)  # some messages have left their lane but not the queue, and are not counted
            return
        mark = Mark(self._queue, lambda: self._end(mark, over))
        if mark.is_over:
            over()
        else:
            self._marks.append(mark)

    def _end(self, mark: Mark, over: Callable[[], None]) -> None:
        self._marks.remove(mark)
        over()

    def look(self, queue: Backlog) -> None:
        """Called as an observer after the queue was drained."""
        if self._unsettled and queue.pager is not None and not queue.pager.reads_expired:
            unsettled, self._unsettled = self._unsettled, []
            for over in unsettled:
                self.add(over)
        for mark in self._marks[:]:
            mark.look()

    def queue_deleted(self) -> None:
        unsettled, self._unsettled = self._unsettled, []
        for over in unsettled:
            over()
        for mark in self._marks[:]:
            mark.end()
