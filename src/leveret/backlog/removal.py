"""Frees the messages that a purged or deleted queue held in memory, in time slices: a million of them take long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.backlog.lane import Cleared

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog

AT_ONCE = 1_000  # messages between two checks of the time slice


class Removal:
    """A background task. The messages have left their lanes and the log; if the queue still exists, it counts their
    bytes."""

    def __init__(self, queue: Backlog, cleared: list[Cleared]) -> None:
        self._queue = queue
        self._cleared = cleared

    def step(self) -> bool:
        queue = self._queue
        time_slice = queue.context.background.new_slice()
        while self._cleared:
            number, size = self._cleared[-1].pop_some(AT_ONCE)
            if queue.alive:
                queue.bytes -= size
            if number < AT_ONCE:
                self._cleared.pop()
            if time_slice.is_over:
                break
        if queue.alive:
            queue.account()
        return bool(self._cleared)
