"""One timer for the next thing that a part of a queue has to do."""

from __future__ import annotations

from collections.abc import Callable

from leveret.backlog.context import BacklogContext, Cancellable
from leveret.message import NEVER


class NextTimer:
    """Calls back at the earliest requested time; the callback then requests the next one."""

    __slots__ = ("_call", "_context", "_timer")

    def __init__(self, context: BacklogContext, call: Callable[[], None]) -> None:
        self._context = context
        self._call = call
        self._timer: tuple[float, Cancellable] | None = None

    def no_later_than(self, when: float) -> None:
        if when == NEVER or (self._timer is not None and self._timer[0] <= when):
            return
        self.stop()
        self._timer = (when, self._context.schedule(when, self._due))

    def _due(self) -> None:
        self._timer = None
        self._call()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
