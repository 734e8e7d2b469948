"""The read checker and the write checker on a loop whose time is moved by hand."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

import pytest

from leveret.client import keep_alive
from leveret.client.keep_alive import KeepAlive


class HandLoop:
    """Timers that run when the time is moved to them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, int, asyncio.TimerHandle]] = []

    def call_later(self, seconds: float, callback: Callable[..., Any]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now + seconds, callback, (), self)  # type: ignore[arg-type]
        heapq.heappush(self.timers, (handle.when(), len(self.timers), handle))
        return handle

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            self.now, _, handle = heapq.heappop(self.timers)
            if not handle.cancelled():
                handle._run()
        self.now = end

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: object) -> None:
        """As asyncio's own."""


class Watched:
    def __init__(self, interval: float) -> None:
        self.told: list[str] = []
        self.checker = KeepAlive(interval, beat=self._beat, dead=lambda: self.told.append("dead"))

    def _beat(self) -> None:
        self.checker.writes += 1
        self.told.append("beat")


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> HandLoop:
    made = HandLoop()
    monkeypatch.setattr(keep_alive.asyncio, "get_running_loop", lambda: made)
    return made


@pytest.mark.feature("S3-09")
def test_two_intervals_without_a_read_are_the_end(loop: HandLoop) -> None:
    watched = Watched(10)
    loop.advance(19.9)
    assert "dead" not in watched.told
    loop.advance(0.1)
    assert watched.told[-1] == "dead"
    loop.advance(100)
    assert watched.told.count("dead") == 1


@pytest.mark.feature("S3-09")
def test_whatever_is_read_begins_the_time_anew(loop: HandLoop) -> None:
    watched = Watched(10)
    for _ in range(10):
        loop.advance(14)
        watched.checker.reads += 1
    assert "dead" not in watched.told


@pytest.mark.feature("S3-10")
def test_half_an_interval_without_a_write_brings_a_heartbeat(loop: HandLoop) -> None:
    watched = Watched(10)
    for _ in range(4):
        watched.checker.reads += 1  # the answers of the broker, which refresh the reads
        loop.advance(5)
    assert watched.told == ["beat"] * 4


@pytest.mark.feature("S3-10")
def test_who_writes_needs_no_heartbeats(loop: HandLoop) -> None:
    watched = Watched(10)
    for _ in range(20):
        watched.checker.reads += 1
        watched.checker.writes += 1
        loop.advance(2)
    assert watched.told == []


@pytest.mark.parametrize("is_stopped", [True, False])
def test_nobody_watches_without_an_interval_or_after_the_stop(loop: HandLoop, is_stopped: bool) -> None:
    watched = Watched(10 if is_stopped else 0)
    if is_stopped:
        watched.checker.stop()
    loop.advance(1000)
    assert watched.told == []
