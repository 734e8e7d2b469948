"""One timer for whatever a part of a queue has to do next."""

from __future__ import annotations

from collections.abc import Callable

from leveret.message import NEVER
from leveret.queues.surroundings import Cancellable, Surroundings


class NextMoment:
    """Calls at the earliest moment it was asked for; whoever is called asks again for the next."""

    __slots__ = ("_call", "_surroundings", "_timer")

    def __init__(self, surroundings: Surroundings, call: Callable[[], None]) -> None:
        self._surroundings = surroundings
        self._call = call
        self._timer: tuple[float, Cancellable] | None = None

    def no_later_than(self, when: float) -> None:
        if when == NEVER or (self._timer is not None and self._timer[0] <= when):
            return
        self.stop()
        self._timer = (when, self._surroundings.schedule(when, self._due))

    def _due(self) -> None:
        self._timer = None
        self._call()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
