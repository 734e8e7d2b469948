"""A broker out of a warm room ends like any other process, and two in a row come out of different rooms."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.forked_broker import IS_COLD, ForkedBroker
from tests.support.raw_client import eventually

pytestmark = pytest.mark.skipif(IS_COLD, reason="each broker is started like any program")


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_exit_codes_and_signals_are_reported_as_of_any_process(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        serving.banner()
        assert serving.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            serving.exit_code(0)
        serving.process.kill()
        assert serving.exit_code() == -signal.SIGKILL
        serving.process.kill()  # no process is hit
    with ForkedBroker(tmp_path) as serving:
        serving.banner()
        serving.terminate()
        assert serving.exit_code() == 0
    with ForkedBroker(tmp_path, "--frame-max", "none") as serving:
        assert serving.exit_code() == 2


def test_consecutive_processes_come_from_fork_servers_with_different_hash_seeds(tmp_path: Path) -> None:
    rooms = []
    for _ in range(2):
        with ForkedBroker(tmp_path) as serving:
            serving.banner()
            rooms.append(parent(parent(serving.process.pid)))
    assert rooms[0] != rooms[1]
    for room in rooms:
        assert b"PYTHONHASHSEED" not in Path(f"/proc/{room}/environ").read_bytes()


def test_a_broker_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    serving = ForkedBroker(tmp_path)
    with serving.process.stdout:
        serving.banner()
        serving.process.abandon()
        eventually(lambda: not Path(f"/proc/{serving.process.pid}").exists(), 20)
