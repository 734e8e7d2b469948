"""Message time: the one place that reads the machine's clock.

Everything that a message lives through (TTL, queue expiry, later schedules, retries and leases) asks a Clock that was
handed in. ``move_to`` lets tests and users travel; it only ever goes forward. Heartbeats and handshake deadlines do not
use this clock: they are about real peers on real wires.
"""

from __future__ import annotations

import time


class Clock:
    """Runs with the machine, plus whatever it was advanced by."""

    runs = True

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds, monotonic; means something only against another now()."""
        return time.monotonic() + self._ahead

    def wall(self) -> float:
        """Seconds since 1970, for timestamps that people and disks see."""
        return time.time() + self._ahead

    def move_to(self, moment: float) -> None:
        """Let now() be at least ``moment``."""
        self._ahead += max(0.0, moment - self.now())


class FrozenClock(Clock):
    """Stands still until it is moved: for tests that want every moment to be exact."""

    runs = False

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        super().__init__()
        self._now = 1_000.0
        self._wall = wall - self._now

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._wall + self._now

    def move_to(self, moment: float) -> None:
        self._now = max(self._now, moment)
