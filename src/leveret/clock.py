"""Message time: the one place that reads the machine's clock.

TTL, queue expiry, schedules, retries and leases use a Clock that is passed in. Tests and users can move it with
``move_to``, forward only. Heartbeats and handshake timeouts do not use it: they depend on real network connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The machine's clock, plus the time by which it was advanced."""

    runs = True

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds, monotonic; meaningful only relative to another now()."""
        return time.monotonic() + self._ahead

    def wall(self) -> float:
        """Seconds since 1970, for timestamps that are shown or stored."""
        return time.time() + self._ahead

    def wall_ahead(self) -> float:
        """Seconds from now() to wall()."""
        return self.wall() - self.now()

    def work_time(self) -> float:
        """Seconds, to measure how long work takes; moving the clock does not change it."""
        return time.perf_counter()

    def machine_time(self) -> float:
        """Seconds, monotonic, as event loops count them; moving the clock does not change it."""
        return time.monotonic()

    def move_to(self, moment: float) -> None:
        """Let now() be at least ``moment``."""
        self._ahead += max(0.0, moment - self.now())


class FrozenClock(Clock):
    """Stands still until it is moved: for tests that need exact times."""

    runs = False

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        super().__init__()
        self._now = 1_000.0
        self._wall = wall - self._now

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._wall + self._now

    def work_time(self) -> float:
        """Work takes no time, so no time slice ends: long work is done at once."""
        return 0.0

    def machine_time(self) -> float:
        return self._now

    def move_to(self, moment: float) -> None:
        self._now = max(self._now, moment)


class TimeSlice:
    """Some milliseconds of the event loop. Long work checks regularly whether its slice is over, and continues in
    another one."""

    __slots__ = ("_end", "_work_time")

    def __init__(self, work_time: Callable[[], float], seconds: float) -> None:
        self._work_time = work_time
        self._end = work_time() + seconds

    @property
    def is_over(self) -> bool:
        return self._work_time() > self._end
