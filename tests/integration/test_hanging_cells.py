"""A cell whose process does not answer is killed and started again."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from functools import partial
from multiprocessing import Pipe
from pathlib import Path

import pytest

from leveret.cli import cell_processes
from leveret.cli.cell_processes import ALIVE, MOST_UNANSWERED, READY, CellProcess, Patience, Reporting, is_traced
from tests.support.cell_processes import has_sockets
from tests.support.hanging_cell import hang


def test_a_cell_that_hangs_is_killed_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has answered more questions before than it may leave unanswered."""
    for name, value in {"ASK_INTERVAL": 0.02, "MOST_UNANSWERED": 10, "RESTART_AFTER": 0.0}.items():
        monkeypatch.setattr(cell_processes, name, value)

    async def run() -> None:
        cell = CellProcess("c2", partial(hang, tmp_path, READY))
        await cell.start()
        try:
            async with asyncio.timeout(30):
                while len(list(tmp_path.iterdir())) < 2:
                    await asyncio.sleep(0.02)
        finally:
            await cell.stop(5)

    asyncio.run(run())
    first = min(int(path.name) for path in tmp_path.iterdir())
    assert not has_sockets(first)


def test_a_node_answers_while_its_event_loop_runs() -> None:
    class Node:
        async def start(self) -> None: ...

    class ReportingNode(Reporting, Node): ...

    async def run() -> None:
        ours, theirs = Pipe()
        node, loop, readable = ReportingNode(), asyncio.get_running_loop(), asyncio.Event()
        node.pipe = theirs
        await node.start()
        assert ours.recv() == READY
        loop.add_reader(ours.fileno(), readable.set)
        for _ in range(3):
            ours.send(ALIVE)
            await asyncio.wait_for(readable.wait(), 5)
            assert ours.recv() == ALIVE
            readable.clear()
        loop.remove_reader(ours.fileno())
        loop.remove_reader(theirs.fileno())

    asyncio.run(run())


def test_questions_are_counted_while_this_process_runs_in_time_itself() -> None:
    patience = Patience()
    for _ in range(2 * MOST_UNANSWERED):
        patience.asked(False, 5.0, False)  # the machine is overloaded
        patience.asked(False, 1.0, True)  # in a debugger
    assert not patience.is_over
    for _ in range(MOST_UNANSWERED - 1):
        patience.asked(False, 1.0, False)
    patience.asked(True, 1.0, False)
    for _ in range(MOST_UNANSWERED - 1):
        patience.asked(False, 1.0, False)
    assert not patience.is_over
    patience.asked(False, 1.0, False)
    assert patience.is_over


def test_a_process_in_a_debugger_is_recognised() -> None:
    libc = ctypes.CDLL(None)
    child = os.fork()
    if not child:
        libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME: by the parent
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        assert (is_traced(child), is_traced(os.getpid())) == (True, False)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
