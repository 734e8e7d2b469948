"""The memory that glibc keeps after a load is returned once the process is idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from leveret.machine import resident_memory
from leveret.server import periodic_checks
from leveret.server.periodic_checks import IDLE_CHECKS, IDLE_SHARE, INTERVAL, PeriodicChecks
from tests.support.peer_pair import Harness


def checks(loop: asyncio.AbstractEventLoop) -> PeriodicChecks:
    return PeriodicChecks(loop, Harness().broker, 10.0)


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_process_is_idle_some_checks_after_a_load() -> None:
    loop = asyncio.new_event_loop()
    periodic = checks(loop)
    loop.close()
    for _ in range(2):
        work(2 * IDLE_SHARE * INTERVAL)
        assert [periodic._is_idle() for _ in range(IDLE_CHECKS + 3)] == [False] * IDLE_CHECKS + [True] * 3


class ScriptedMemory:
    """Idle checks of a process with ``resident`` bytes, ``messages`` of which are in queues."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident, self.trims = 0, 0
        self.calls: list[Callable[[], None]] = []
        loop = SimpleNamespace(
            call_later=lambda *_: None, time=lambda: 0.0, run_in_executor=lambda _, call: self.calls.append(call)
        )
        self.periodic = checks(loop)  # type: ignore[arg-type]
        monkeypatch.setattr(self.periodic, "_is_idle", lambda: True)
        monkeypatch.setattr(periodic_checks, "resident_memory", lambda: self.resident)
        monkeypatch.setattr(periodic_checks, "trim_heap", lambda: None)

    def trims_with(self, resident: int, messages: int, trimmed_to: int) -> bool:
        self.resident, self.periodic._broker.gauge.used = resident << 20, messages << 20
        self.periodic._run()
        calls, self.calls = self.calls, []
        self.resident = trimmed_to << 20
        for call in calls:
            call()
        return bool(calls)


def test_what_a_backlog_leaves_is_returned_if_the_broker_was_idle_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: 210 MB stayed resident when a backlog was consumed after the broker had been idle."""
    memory = ScriptedMemory(monkeypatch)
    assert memory.trims_with(330, messages=280, trimmed_to=320)
    assert not memory.trims_with(320, messages=280, trimmed_to=320)  # nothing to return
    assert memory.trims_with(320, messages=0, trimmed_to=40)
    assert not memory.trims_with(44, messages=0, trimmed_to=40)


@pytest.mark.skipif(resident_memory() is None, reason="kernel: no /proc/self/statm")
def test_free_memory_is_returned_in_a_worker_thread() -> None:
    async def run() -> int:
        periodic = checks(asyncio.get_running_loop())
        periodic._idle_checks = IDLE_CHECKS - 1
        periodic._cpu = time.process_time()
        periodic._run()
        periodic.stop()
        assert periodic._after_trim > 0
        return periodic._after_trim

    assert asyncio.run(run()) > 0  # the loop ends after its worker threads
