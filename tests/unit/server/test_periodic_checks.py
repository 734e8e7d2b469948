"""What the periodic checks do about memory, whatever the gauge shows."""

from __future__ import annotations

import asyncio

import pytest

from leveret.broker.broker import Broker
from leveret.clock import FrozenClock
from leveret.machine import give_back_memory
from leveret.server import periodic_checks
from leveret.server.periodic_checks import PeriodicChecks
from leveret.store.memory_log import MemoryLog


def test_a_process_that_is_too_large_raises_the_alarm_and_is_asked_to_give_memory_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = 400 << 20  # bytes that are resident, as the system tells

    async def live() -> None:
        loop = asyncio.get_running_loop()
        given_back = asyncio.Event()

        def give_back() -> None:
            nonlocal size
            give_back_memory()
            size = 100 << 20
            loop.call_soon_threadsafe(given_back.set)

        monkeypatch.setattr(periodic_checks, "resident_memory", lambda: size)
        monkeypatch.setattr(periodic_checks, "give_back_memory", give_back)
        broker = Broker(
            node_name="n", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=200 << 20, baseline=50 << 20
        )
        checks = PeriodicChecks(loop, broker, handshake_timeout=10)
        checks._run()
        assert "resident size" in broker.alarms["memory"]
        await asyncio.wait_for(given_back.wait(), 10)
        checks.stop()
        checks._run()
        checks.stop()
        assert not broker.alarms

    asyncio.run(live())
