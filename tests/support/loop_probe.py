"""How long one turn of a broker's event loop takes, in CPU time of its thread: what other work on the machine takes is
not counted. An embedded broker is measured from inside, once per turn."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import leveret


class LoopProbe:
    def __init__(self, broker: leveret.Broker) -> None:
        self._broker = broker
        self._is_on = False
        self._last = 0.0
        self.longest = 0.0  # seconds

    def __enter__(self) -> Self:
        self._broker.call(self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_on = False

    def _start(self) -> None:
        self._is_on = True
        self._last = time.thread_time()
        self._tick()

    def _tick(self) -> None:
        """Runs once in every turn of the loop, and asks for the next turn."""
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        if self._is_on:
            loop = self._broker._loop
            assert loop is not None
            loop.call_soon(self._tick)
