"""The memory that glibc keeps after a load is returned once the process is idle."""

from __future__ import annotations

import asyncio
import time

import pytest

from leveret.machine import resident_memory
from leveret.server.periodic_checks import IDLE_CHECKS, IDLE_SHARE, INTERVAL, PeriodicChecks
from tests.support.peer_pair import Harness


def checks(loop: asyncio.AbstractEventLoop) -> PeriodicChecks:
    return PeriodicChecks(loop, Harness().broker, 10.0)


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_end_of_a_load_is_noticed_once() -> None:
    loop = asyncio.new_event_loop()
    periodic = checks(loop)
    loop.close()
    for _ in range(2):
        work(2 * IDLE_SHARE * INTERVAL)
        assert [periodic._is_idle() for _ in range(IDLE_CHECKS + 3)].count(True) == 1


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
