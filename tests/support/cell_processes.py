"""The processes of ``leveret serve --cells``."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.support.broker_process import BrokerProcess


def cell_processes(broker: BrokerProcess) -> list[int]:
    """The processes of the other cells."""
    pid = broker.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def kill_cell(pid: int) -> None:
    """Kill it and wait for its end: before, the kernel may hand it a new connection, which it then resets."""
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while has_sockets(pid):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def has_sockets(pid: int) -> bool:
    """A process closes its files before it becomes a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
