"""x-expires: a queue that nobody declares, consumes from or gets from for so long asks to be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.queues.surroundings import Cancellable

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


class Idleness:
    """The clock starts again at every use; one timer looks, at the earliest moment that matters."""

    __slots__ = ("_queue", "_timer", "_used_at", "seconds")

    def __init__(self, queue: ClassicQueue, seconds: float) -> None:
        self._queue = queue
        self.seconds = seconds
        self._used_at = 0.0
        self._timer: Cancellable | None = None

    def note_use(self) -> None:
        surroundings = self._queue.surroundings
        self._used_at = surroundings.now()
        if self._timer is None:
            self._timer = surroundings.schedule(self._used_at + self.seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        queue = self._queue
        if not queue.alive or len(queue.consumers):
            return
        due = self._used_at + self.seconds
        if due <= queue.surroundings.now():
            queue.surroundings.retire(queue)
        else:
            self._timer = queue.surroundings.schedule(due, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
