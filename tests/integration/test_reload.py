"""SIGHUP: what may change while running does, the rest is named, and a file that cannot be used changes nothing.

The supervisor's socket is how these tests know that a reload is over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

from leveret.config import DECLARED, Settings
from leveret.machine import usable_memory
from leveret.node import Node
from leveret.setting_kinds import MemoryWatermark
from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from tests.support.broker_process import SRC, BrokerProcess
from tests.support.cell_clients import clients_by_cell, until
from tests.support.cell_processes import cell_processes
from tests.support.raw_client import RawClient
from tests.support.supervisor import Supervisor

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "operate.md"


class Service:
    """A broker with a config file, under a supervisor who hears how it goes."""

    def __init__(self, folder: Path, supervisor: Supervisor, text: str, *flags: str) -> None:
        self.file = folder / "leveret.toml"
        self.file.write_text(text)
        self.supervisor = supervisor
        self.serving = BrokerProcess(folder, "--config", str(self.file), *flags, environ=supervisor.environ, port=None)

    def reload(self, text: str) -> str:
        """What the reload logged."""
        self.file.write_text(text)
        before = len(self.serving.log())
        self.serving.process.send_signal(signal.SIGHUP)
        told = self.supervisor.told()
        assert told["RELOADING"] == "1"
        assert int(told["MONOTONIC_USEC"]) > 0
        self.status = self.supervisor.wait_for("READY")["STATUS"]
        return self.serving.log()[before:]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path) as listening:
        yield listening


PORT = "amqp_port = 0\n"


def test_a_service_says_that_it_is_ready_and_that_it_stops(tmp_path: Path, supervisor: Supervisor) -> None:
    service = Service(tmp_path, supervisor, PORT)
    with service.serving as serving:
        ready = supervisor.told()
        assert ready["READY"] == "1"
        address = serving.url().partition("@")[2].rstrip("/")
        assert ready["STATUS"] == f"listening on amqp://{address}"
        serving.terminate()
        assert supervisor.told()["STOPPING"] == "1"
        assert serving.exit_code() == 0


def test_live_settings_change_and_connections_stay(tmp_path: Path, supervisor: Supervisor) -> None:
    service = Service(tmp_path, supervisor, PORT)
    with service.serving as serving:
        supervisor.wait_for("READY")
        with RawClient.open(serving.url()) as early:
            told = service.reload(PORT + 'connection_max = 1\nlog_level = "debug"\nmax_message_size = 10\n')
            assert service.status == "reloaded"
            assert "setting changed setting=connection_max running=unlimited wanted=1" in told
            assert "setting changed setting=max_message_size running=16777216 wanted=10" in told
            early.is_alive()
            with pytest.raises((AssertionError, OSError)):
                RawClient.open(serving.url())
            service.reload(PORT + "max_message_size = 10\n")
            with RawClient.open(serving.url()) as late:
                late.call(QueueDeclare("small", exclusive=True), QueueDeclareOk)
                late.publish("", "small", bytes(11))
                assert "larger than configured max size 10" in late.expect_channel_close(406).reply_text
            early.call(QueueDeclare("large", exclusive=True), QueueDeclareOk)
            early.publish("", "large", bytes(11))
            early.is_alive()


def test_live_settings_change_in_all_cells(tmp_path: Path, supervisor: Supervisor) -> None:
    """Also in a cell that is started again."""
    text = PORT + "cells = 2\nhttp_port = 0\n"
    service = Service(tmp_path, supervisor, text, "--data-dir", str(tmp_path / "data"))
    with service.serving as serving:
        supervisor.wait_for("READY")
        told = service.reload(text + "max_message_size = 10\nheartbeat = 7\n")
        assert told.count("setting cannot change at runtime setting=heartbeat") == 1
        until(lambda: serving.log().count("setting changed setting=max_message_size") == 2)
        refuses_large_messages(serving.url(), "c2")
        (killed,) = cell_processes(serving)
        os.kill(killed, signal.SIGKILL)
        until(lambda: "cell is ready again" in serving.log())
        refuses_large_messages(serving.url(), "c2")


def refuses_large_messages(url: str, cell: str) -> None:
    with clients_by_cell(url, cell) as clients:
        clients[cell].channel.queue_declare("q", exclusive=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="larger than configured max size 10"):
            clients[cell].publisher().basic_publish("", "q", bytes(11))


def test_the_least_that_is_logged_changes(tmp_path: Path, supervisor: Supervisor) -> None:
    service = Service(tmp_path, supervisor, PORT + 'log_level = "error"\n')
    with service.serving:
        supervisor.wait_for("READY")
        assert service.reload(PORT + 'log_level = "info"\n') == ""  # the level of before holds for the reload itself
        assert "settings reloaded changed=0" in service.reload(PORT + 'log_level = "info"\n')


def test_what_cannot_change_is_named_with_the_remedy(tmp_path: Path, supervisor: Supervisor) -> None:
    service = Service(tmp_path, supervisor, PORT)
    with service.serving as serving:
        supervisor.wait_for("READY")
        url = serving.url()
        told = service.reload(
            'amqp_port = 1\nheartbeat = 7\ndefault_password = "hunter2"\n[[bootstrap.users]]\nname = "ann"\n'
        )
        lines = {line.partition("setting=")[2].partition(" ")[0]: line for line in told.splitlines()}
        assert 'remedy="restart the broker" running=0 wanted=1' in lines["amqp_port"]
        assert 'remedy="restart the broker" running=60 wanted=7' in lines["heartbeat"]
        assert 'remedy="restart the broker"' in lines["bootstrap"]
        assert "first start only" in lines["default_password"]
        assert "hunter2" not in told
        assert "settings reloaded changed=0 not_changed=4" in told
        with RawClient.open(url) as client:
            client.is_alive()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("this is no TOML", "is not TOML"),
        (PORT + "connection_max = 1\nmax_mesage_size = 2\n", "nearest known name is 'max_message_size'"),
        (PORT + 'connection_max = 1\nlog_level = "loud"\n', "log_level = 'loud'"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(
    text: str, reason: str, tmp_path: Path, supervisor: Supervisor
) -> None:
    service = Service(tmp_path, supervisor, PORT)
    with service.serving as serving:
        supervisor.wait_for("READY")
        told = service.reload(text)
        assert "error reload settings not reloaded" in told
        assert reason in told
        assert "settings not reloaded" in service.status
        with RawClient.open(serving.url()) as one, RawClient.open(serving.url()) as other:
            one.is_alive()
            other.is_alive()
        service.file.unlink()
        serving.process.send_signal(signal.SIGHUP)
        assert "cannot be read" in supervisor.wait_for("READY")["STATUS"]
        assert serving.process.poll() is None


def test_flags_win_over_the_file_at_a_reload_too(tmp_path: Path, supervisor: Supervisor) -> None:
    service = Service(tmp_path, supervisor, PORT, "--connection-max", "5")
    with service.serving:
        supervisor.wait_for("READY")
        assert "settings reloaded changed=0 not_changed=0" in service.reload(PORT + "connection_max = 1\n")


def test_a_terminal_that_goes_away_ends_the_broker(tmp_path: Path) -> None:
    """As it did before there was a reload: nobody could stop it by Ctrl-C any more."""
    command = [sys.executable, "-m", "leveret.cli.main", "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--amqp-port", "0", "--http-port", "off", "--stomp-port", "off"]
    ours, theirs = pty.openpty()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(SRC)},
        )
    os.close(theirs)
    try:
        assert process.stdout is not None
        while b"Ctrl-C" not in process.stdout.readline():
            assert process.poll() is None
        os.close(ours)  # the kernel sends SIGHUP to whoever stands before the terminal
        process.wait(20)
        process.stdout.close()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
    text = (tmp_path / "log").read_text()
    assert 'stopping reason="terminal closed"' in text
    assert "stopped" in text


# ---- every setting that is declared live has somebody who keeps to it

PROBES: dict[str, tuple[object, Callable[[Any], object]]] = {
    "shutdown_timeout": (3.5, lambda node: node.settings.shutdown_timeout),
    "log_level": ("warning", lambda node: node.settings.log_level),  # the process keeps to it: see above
    "handshake_timeout": (4.5, lambda node: max(node._checks.handshake_timeout, node._http._connections.head_timeout)),
    "max_message_size": (999, lambda node: node._listener.limits.max_message_size),
    "connection_max": (2, lambda node: node._listener._most),
    "memory_high_watermark": (
        MemoryWatermark(size=12 << 20),
        lambda node: MemoryWatermark(size=node.broker.memory.high_watermark),
    ),
    "login_failure_delay": (0.5, lambda node: node._logins.failure_delay),
}


def test_each_live_setting_is_kept_to_after_a_reload_and_named_in_the_guide() -> None:
    live_names = {declared.name for declared in DECLARED if declared.live}
    assert PROBES.keys() == live_names
    table = GUIDE.read_text().partition("\n## Reload")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == live_names
    quiet = Settings(amqp_port=0, http_port=0, stomp_port=None)
    wanted = replace(quiet, **{name: value for name, (value, _) in PROBES.items()})  # type: ignore[arg-type]

    async def live() -> dict[str, object]:
        node = Node(quiet)
        await node.start()
        assert all(probe(node) != value for value, probe in PROBES.values())
        await node.reload(lambda: wanted)
        found = {name: probe(node) for name, (_, probe) in PROBES.items()}
        await node.stop()
        return found

    assert asyncio.run(live()) == {name: value for name, (value, _) in PROBES.items()}


def test_a_shorter_handshake_timeout_ends_the_next_silent_peer_of_http() -> None:
    patient = Settings(amqp_port=None, http_port=0, stomp_port=None, handshake_timeout=3600)

    async def live() -> bytes:
        node = Node(patient)
        await node.start()
        await node.reload(lambda: replace(patient, handshake_timeout=0.1))
        where = urlsplit(node.endpoints["http"])
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(b"GET / HTTP/1.1\r\n")
        try:
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
            return b""
        finally:
            writer.close()
            await node.stop()

    assert asyncio.run(live()) == b""


def test_a_lower_memory_mark_holds_publishers_at_once_and_a_higher_one_lets_them_go() -> None:
    settings = Settings(amqp_port=0, http_port=None, stomp_port=None)
    low, high = (
        replace(settings, memory_high_watermark=MemoryWatermark(size=size)) for size in (1 << 20, usable_memory())
    )

    async def live() -> list[list[str]]:
        node = Node(settings)
        await node.start()
        node.broker.gauge.used += 4 << 20
        seen = [list(node.broker.alarms)]
        for wanted in (low, high):
            await node.reload(lambda wanted=wanted: wanted)  # type: ignore[misc]
            seen.append(list(node.broker.alarms))
        await node.stop()
        return seen

    assert asyncio.run(live()) == [[], ["memory"], []]


def test_an_embedded_broker_says_nothing_to_the_supervisor_of_its_process(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The application around it is the service, and may not be ready at all."""
    monkeypatch.setenv("NOTIFY_SOCKET", supervisor.environ["NOTIFY_SOCKET"])

    async def live() -> None:
        node = Node(Settings(amqp_port=0, http_port=None, stomp_port=None))
        await node.start()
        await node.stop()

    with caplog.at_level(logging.INFO, "leveret"):
        asyncio.run(live())
    supervisor._socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        supervisor.told()
