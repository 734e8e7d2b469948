from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leveret.server import loop_watch
from leveret.server.loop_watch import INTERVAL, PERIOD, LoopWatch


class HandLoop:
    """Keeps what is to be called later."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call_later(self, seconds: float, call: Any) -> asyncio.TimerHandle:
        self.calls.append(call)
        return None  # type: ignore[return-value]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [1_000.0]
    monkeypatch.setattr(loop_watch, "monotonic", lambda: time[0])
    return time


def test_the_longest_lateness_of_the_last_minute_counts(now: list[float]) -> None:
    loop = HandLoop()
    watch = LoopWatch(loop)  # type: ignore[arg-type]
    watch.start()

    def passes(late: float) -> None:
        now[0] += INTERVAL + late
        loop.calls.pop()()

    for late in (0.0, 0.2, 0.01):
        passes(late)
    assert watch.longest == pytest.approx(0.2)
    passes(PERIOD)  # a stall of half a minute begins the next period
    assert watch.longest == pytest.approx(PERIOD)
    for _ in range(2):
        now[0] += PERIOD
        loop.calls.clear()
        watch.start()
        passes(0.001)
    assert watch.longest == pytest.approx(0.001)
