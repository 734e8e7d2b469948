"""A clock for the client that the test advances. Due timers are called in the order of their time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from leveret.client.jms.clock import Clock


class ManualTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock(Clock):
    def __init__(self) -> None:
        self._now = 1_000.0
        self._due: list[tuple[float, int, ManualTimer]] = []
        self._made = 0

    def now(self) -> float:
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(callback)
        self._made += 1
        heappush(self._due, (self._now + seconds, self._made, timer))
        return timer

    @property
    def pending(self) -> list[float]:
        """The seconds until each timer is due."""
        return sorted(round(when - self._now, 6) for when, _, timer in self._due if timer.callback is not None)

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while self._due and self._due[0][0] <= until:
            self._now, _, timer = heappop(self._due)
            if timer.callback is not None:
                timer.callback()
        self._now = until
