"""Liveness checks of a connection.

read      nothing was read for two intervals: the connection is closed with an error
write     nothing was written for half an interval: a heartbeat is sent
connect   connecting and logging in have a timeout (Connection.open)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class KeepAlive:
    def __init__(self, interval: float, *, beat: Callable[[], None], dead: Callable[[], None]) -> None:
        """``interval`` 0: no checks."""
        self.reads = 0  # counters, incremented with each read and write
        self.writes = 0
        self._seen = (0, 0)
        self._interval = interval
        self._beat = beat
        self._dead = dead
        self._silent = 0  # number of half intervals without a read
        self._timer: asyncio.TimerHandle | None = None
        if interval:
            self._again()

    def _again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval / 2, self._look)

    def _look(self) -> None:
        reads, writes = self._seen
        self._silent = 0 if reads != self.reads else self._silent + 1
        if self._silent >= 4:
            self._dead()
            return
        if writes == self.writes:
            self._beat()
        self._seen = (self.reads, self.writes)
        self._again()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
