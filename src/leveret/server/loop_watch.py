"""How long one iteration of the event loop takes, measured by the delay of a timer: the lag of the loop."""

from __future__ import annotations

import asyncio
from time import monotonic

INTERVAL = 0.025  # seconds: the measured time is too short by at most this much
PERIOD = 30.0  # seconds that a reading covers at least


class LoopWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._longest = [0.0, 0.0]  # in this period and in the one before
        self._period_ends = 0.0
        self.measurements = 0
        self.lag = 0.0  # seconds, of all measurements

    @property
    def longest(self) -> float:
        """The longest iteration of the last 30 to 60 seconds, in seconds."""
        return max(self._longest)

    def start(self) -> None:
        self._expect(monotonic())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expect(self, now: float) -> None:
        self._due = now + INTERVAL
        self._timer = self._loop.call_later(INTERVAL, self._look)

    def _look(self) -> None:
        now = monotonic()
        if now >= self._period_ends:
            self._period_ends = now + PERIOD
            self._longest = [0.0, self._longest[0]]
        lag = max(0.0, now - self._due)
        self.measurements += 1
        self.lag += lag
        self._longest[0] = max(self._longest[0], lag)
        self._expect(now)
