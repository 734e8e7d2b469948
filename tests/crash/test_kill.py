"""kill -9 again and again, under load: nothing confirmed is lost, nothing comes back that must not.

The seed chooses what is done, not when answers come: the same seed gives a similar run, not the same one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.crash_cycles import CrashCycles, serving_from

CYCLES = int(os.environ.get("LEVERET_CRASH_CYCLES", "20"))


def kill(serving: BrokerProcess) -> None:
    serving.process.kill()


def stop(serving: BrokerProcess) -> None:
    serving.terminate()


@pytest.mark.slow
@pytest.mark.timeout(300 + 8 * CYCLES)
@pytest.mark.feature("S0-11", "S0-14", "S0-17", "S4-15", "S4-30")
def test_nothing_confirmed_is_lost_however_often_the_broker_is_killed(tmp_path: Path, seed: int) -> None:
    """Over many runs, with a clean stop now and then."""
    lives = CrashCycles(lambda: serve(), seed)
    serve = serving_from(tmp_path, lives.random)
    for cycle in range(1, CYCLES + 1):
        end = stop if lives.random.random() < 0.15 else kill
        lives.live(lives.random.uniform(0.2, 1.5), end)
        print(f"cycle {cycle} of {CYCLES}, {end.__name__}: {lives.history.summary()}", flush=True)
    lives.finish()
    print(f"drained: {lives.history.summary()}", flush=True)
