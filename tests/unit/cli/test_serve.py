"""``leveret serve`` as its own process, with a stand-in for the node: signals, exit codes, banner, one-line errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[3] / "src"

FAKE_NODE = """
import asyncio, gc, signal, sys, types
from leveret.errors import ConfigError

MODE = sys.argv.pop()

class Node:
    url_user = "guest"
    cell_facts = {}
    recovered = {}
    message_memory = 0
    def __init__(self, settings, environ, show_first_login):
        self.settings = settings
        self.endpoints = {}
    async def start(self):
        self.mode = mode = MODE
        if mode == "taken":
            raise ConfigError("port 5672 is in use: set amqp_port to another one; 0 picks a free one")
        if mode == "oserror":
            raise PermissionError(13, "Permission denied", "/data")
        if mode == "slow-start":
            print("starting", flush=True)
            await asyncio.Event().wait()
        self.endpoints = {"amqp": "amqp://127.0.0.1:5672", "http": "http://127.0.0.1:15672"}
    async def stop(self):
        print("stop", self.mode, type(asyncio.get_running_loop()).__module__, gc.get_threshold(), flush=True)
        if self.mode == "hang":
            await asyncio.Event().wait()

module = types.ModuleType("leveret.node")
module.Node = Node
sys.modules["leveret.node"] = module
if sys.argv[1] == "--no-uvloop":
    sys.argv.pop(1)
    sys.modules["uvloop"] = None
from leveret.cli.main import main
main()
"""


def started(mode: str, *flags: str, uvloop: bool = True) -> subprocess.Popen[str]:
    before = [] if uvloop else ["--no-uvloop"]
    return subprocess.Popen(
        [sys.executable, "-c", FAKE_NODE, *before, "serve", "--node-name", "leveret@here", *flags, mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC), "HOME": "/home/ann"},
    )


def banner_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or "to stop" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr and process.stderr.read()
    return "".join(lines)


@pytest.mark.parametrize("uvloop", [True, False])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_node_in_order_and_exits_zero(signum: signal.Signals, uvloop: bool) -> None:
    with started("run", uvloop=uvloop) as process:
        shown = banner_of(process)
        process.send_signal(signum)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "amqp://guest:guest@127.0.0.1:5672/" in shown
    assert "http://127.0.0.1:15672" in shown
    assert "/home/ann/.local/share/leveret" in shown or "XDG_DATA_HOME" in os.environ
    assert "pika" in shown
    assert f"stop run {'uvloop' if uvloop else 'asyncio.unix_events'}" in out
    assert "(200000, 1073741824, 1073741824)" in out
    assert f"stopping signal={signum.name}" in err


def test_a_second_signal_leaves_at_once_though_the_stop_hangs() -> None:
    with started("hang") as process:
        banner_of(process)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        while not process.stdout.readline().startswith("stop hang"):
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
        process.communicate()


def test_a_stop_that_hangs_ends_with_its_time() -> None:
    with started("hang", "--shutdown-timeout", "0.5", "--log-format", "json") as process:
        assert process.stderr is not None
        while '"ready"' not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '"event": "shutdown timed out' in err


def test_a_signal_during_a_long_start_ends_it() -> None:
    with started("slow-start") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Stop it" not in out


@pytest.mark.parametrize(
    ("mode", "code", "says"),
    [
        ("taken", 2, "leveret: port 5672 is in use: set amqp_port to another one; 0 picks a free one\n"),
        ("oserror", 1, "leveret: cannot start: [Errno 13] Permission denied: '/data'\n"),
    ],
)
def test_a_node_that_cannot_start_is_one_line_and_an_exit_code(mode: str, code: int, says: str) -> None:
    with started(mode) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", says)
