"""Calls the broker's tick once per iteration of the event loop, however often it is woken.  Hot path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.message import NEVER
from leveret.server.busy_wait import BusyWait

SHORTEST = 0.001  # event loops count in milliseconds; a shorter timer would spin


class Ticker:
    """The EventLoop of a broker (broker/timers.py)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, busy_wait: BusyWait | None = None) -> None:
        self._loop = loop
        self._broker = broker
        self._busy_wait = busy_wait
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        broker.attach(self)

    def wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._tick)
            if self._busy_wait is not None:
                self._busy_wait.ended()

    def _tick(self) -> None:
        self._scheduled = False
        self._broker.tick()
        if self._busy_wait is not None:
            self._busy_wait.begin()

    def run(self, call: Callable[[], None]) -> None:
        """Call, and tick at once if that gives the broker work: a wake would cost one more iteration of the loop."""
        if self._scheduled:
            call()
            return
        self._scheduled = True
        try:
            call()
        finally:
            self._scheduled = False
            if self._broker.has_work:
                self._broker.tick()

    def rearm(self) -> None:
        """Set the loop's timer for the next timer of the broker, which uses message time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._broker.timers.next_due()
        clock = self._broker.clock
        if due != NEVER and clock.runs:
            self._timer = self._loop.call_later(max(due - clock.now(), SHORTEST), self._due)

    def _due(self) -> None:
        self._timer = None
        self._broker.timers.run_due()
        self.rearm()
        self._broker.tick()

    def stop_polling(self) -> None:
        """For good."""
        self._busy_wait = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
