"""x-expires: a queue that is not declared, consumed from or read by basic.get for this time is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.backlog.context import Cancellable

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


class IdleTimer:
    """Restarts at every use of the queue; one timer checks at the earliest time at which the queue may expire."""

    __slots__ = ("_queue", "_timer", "_used_at", "seconds")

    def __init__(self, queue: ClassicQueue, seconds: float) -> None:
        self._queue = queue
        self.seconds = seconds
        self._used_at = 0.0
        self._timer: Cancellable | None = None

    def note_use(self) -> None:
        context = self._queue.context
        self._used_at = context.now()
        if self._timer is None:
            self._timer = context.schedule(self._used_at + self.seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        queue = self._queue
        if not queue.alive or len(queue.consumers):
            return
        due = self._used_at + self.seconds
        if due <= queue.context.now():
            queue.context.callbacks.delete_unused(queue)
        else:
            self._timer = queue.context.schedule(due, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
