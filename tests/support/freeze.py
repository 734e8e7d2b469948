"""Stop processes before the power of their machine is cut: then no call of the system is under way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from tests.support.raw_client import eventually


def freeze(pids: Iterable[int]) -> None:
    """Every thread is stopped, none of them within a call of the system."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        eventually(lambda pid=pid: _is_frozen(pid))


def _is_frozen(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task")
    states = [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads.iterdir()]
    return set(states) == {"T"}
