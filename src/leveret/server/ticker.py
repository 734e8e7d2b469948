"""Calls the broker's tick once per iteration of the event loop, however often it is woken."""

from __future__ import annotations

import asyncio

from leveret.broker.broker import Broker
from leveret.message import NEVER

SHORTEST = 0.001  # event loops count in milliseconds; a shorter timer would spin


class Ticker:
    """The EventLoop of a broker (broker/timers.py)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker) -> None:
        self._loop = loop
        self._broker = broker
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        broker.attach(self)

    def wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._scheduled = False
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

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
