"""Messages that a purged or deleted queue held in memory: freed in time slices, since a million of them take long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.queues.lane import Cleared

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

AT_ONCE = 1_000  # messages between two looks at the time


class Removal:
    """An errand. The messages have left their lanes and the log; the queue, if it lives, still counts their bytes."""

    def __init__(self, queue: ClassicQueue, cleared: list[Cleared]) -> None:
        self._queue = queue
        self._cleared = cleared

    def step(self) -> bool:
        queue = self._queue
        time_slice = queue.surroundings.errands.new_slice()
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
