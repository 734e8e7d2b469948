"""Visits the messages of a stream (see backlog/walk.py), from the oldest to the newest one that was confirmed at the
start. No message can be taken out of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.backlog.walk import READ_BYTES, START, STEP, Position, Visitor
from leveret.message import Message
from leveret.queues.stream_offset_header import with_offset

if TYPE_CHECKING:
    from leveret.queues.stream import StreamQueue

LANE = 0  # a stream has one


class StreamWalk:
    def __init__(
        self,
        queue: StreamQueue,
        visit: Visitor,
        on_progress: Callable[[], None] = lambda: None,
        after: Position = START,
    ) -> None:
        self._queue = queue
        self._visit = visit
        self._on_progress = on_progress
        self._at = max(queue.first_offset, after.get(LANE, 0))  # the next offset to read; a sequence is an offset + 1
        self._stop = queue.end_offset
        self._has_begun = False
        self._read: deque[tuple[int, Message]] = deque()
        self._is_reading = False
        self.is_over = False
        self.ends: dict[int, int] = {}
        self.enough = False  # set by the visitor: no more messages in this step

    def step(self, most: int = STEP) -> bool:
        """Visit some messages; False if there is nothing to do until ``on_progress`` is called, or at the end."""
        self.enough = False
        if not self._has_begun:
            self._has_begun = self._is_reading = True
            self._queue.when_visible(self._begin)
            return False
        while most > 0 and self._read and not self.enough:
            offset, message = self._read.popleft()
            self._visit(LANE, (offset + 1, 0, with_offset(message, offset)))
            most -= 1
        if not self._read and not self.enough:  # otherwise the visitor may not have accepted the last message
            self.is_over = not self._queue.alive or self._at >= self._stop
            if self.is_over:
                self.ends[LANE] = self._stop
            if not self.is_over:
                self._fetch()
        return not self._is_reading and not self.is_over

    def _begin(self) -> None:
        self._is_reading = False
        self._on_progress()

    def _fetch(self) -> None:
        files, offset, stop = self._queue.files, max(self._at, self._queue.first_offset), self._stop
        self._is_reading = True
        self._queue.context.stream_workers.read(lambda: files.read(offset, stop, READ_BYTES), self._fetched)

    def _fetched(self, result: object) -> None:
        self._is_reading = False
        runs = result if isinstance(result, list) else []
        for run in runs:
            self._read.extend(enumerate(run.messages, run.first))
        self._at = self._read[-1][0] + 1 if self._read else self._stop  # a read error ends the walk
        self._on_progress()
