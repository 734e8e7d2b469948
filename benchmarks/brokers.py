"""Brokers to measure: each is started on loopback with a directory of its own and stopped by its process id."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's; the one on the PATH changes the user
START_SECONDS = 60
STOP_SECONDS = 20
URL = re.compile(r"amqp://[^\s\x1b'\"]+")


class BrokerFailed(Exception):
    """A broker did not start; the message carries the end of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def allow_many_files() -> None:
    """Two thousand connections need as many descriptors; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descendants(pid: int) -> list[int]:
    """The process and everything below it."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(int(child) for child in children.read_text().split())
            except OSError:
                continue  # gone meanwhile
    return found


def rss_kb(pid: int) -> int:
    """Resident memory of the process and its children."""
    total = 0
    for one in descendants(pid):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return total


class Broker:
    """A started process with an AMQP port; `with` stops it."""

    name = "broker"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.pid = 0
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> str:
        """Processes whose CPU time and memory are measured, as an argument of the generator."""
        return str(self.pid)

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """SIGTERM, some patience, SIGKILL; the last started first."""
        for child in reversed(self._children):
            _end(child)
        self._children.clear()

    def crash(self) -> None:
        """SIGKILL to all of it; start() goes on from what is on disk."""
        for child in self._children:
            for pid in descendants(child.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            child.wait()
        self._children.clear()
        self._log.unlink()  # it names the old port
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    @property
    def _log(self) -> Path:
        return self.directory / "output.log"

    def _wait_until_listening(self, child: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not (self.port and _greets(self.port)):
            if child.poll() is not None or time.monotonic() > deadline:
                raise BrokerFailed(f"{self.name} did not start:\n{self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
            self._look_for_port()

    def _look_for_port(self) -> None:
        """For brokers that pick their port."""


class Leveret(Broker):
    """`leveret serve` of one Python environment; picks its port and names it in the banner."""

    http_port = "off"
    flags: tuple[str, ...] = ()

    def __init__(self, directory: Path, python: str, name: str = "leveret") -> None:
        super().__init__(directory)
        self.name = name
        self._python = python

    def start(self) -> None:
        command = [self._python, "-c", "from leveret.cli.main import main; main()", "serve", "--amqp-port", "0"]
        command += ["--http-port", self.http_port, "--stomp-port", "off", "--data-dir", str(self.directory / "data")]
        command += self.flags
        environment = {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "COLUMNS": "200"}
        child = self._launch(command, environment)
        self._wait_until_listening(child)
        self.pid = child.pid

    def _look_for_port(self) -> None:
        match = URL.search(self._log.read_text(errors="replace"))
        if match:
            self.port = urlsplit(match.group()).port or 5672


class AnyCommand(Broker):
    """Any broker that a command starts in the foreground, with `{port}` and, for its data, `{directory}` in it."""

    def __init__(self, directory: Path, command: str, name: str) -> None:
        super().__init__(directory)
        self.name = name
        self._command = command

    def start(self) -> None:
        self.port = free_port()
        command = self._command.replace("{port}", str(self.port)).replace("{directory}", str(self.directory))
        child = self._launch(shlex.split(command), {})
        self._wait_until_listening(child)
        self.pid = child.pid


class RabbitMQ(Broker):
    """Debian's RabbitMQ with default settings, as the invoking user, apart from any other on the machine."""

    name = "rabbitmq"

    def __init__(self, directory: Path, plugins: Sequence[str] = ()) -> None:
        super().__init__(directory)
        self._plugins = plugins  # of those that its package carries

    @staticmethod
    def is_installed() -> bool:
        return RABBITMQ_SERVER.exists()

    def start(self) -> None:
        self.port = free_port()
        names_port = str(free_port())
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "plugins").write_text(f"[{','.join(self._plugins)}].\n")
        environment = {
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": names_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{os.getpid()}p{self.port}@localhost",
            **self._settings(),
        }
        self._launch(["epmd", "-port", names_port, "-address", "127.0.0.1"], environment)
        self._serve(environment)

    def _settings(self) -> dict[str, str]:
        return {
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.directory / "none"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.directory / "none.config"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }

    def _serve(self, environment: dict[str, str]) -> None:
        child = self._launch([str(RABBITMQ_SERVER)], environment)
        self._wait_until_listening(child)
        self.pid = next(pid for pid in descendants(child.pid) if _command_name(pid).startswith("beam"))

    def stop(self) -> None:
        """The machine first: its parent is a shell that would not pass the signal on."""
        if self.pid:
            _signal(self.pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while _command_name(self.pid).startswith("beam") and time.monotonic() < deadline:
                time.sleep(0.05)
                self._children[-1].poll()
            if _command_name(self.pid).startswith("beam"):
                _signal(self.pid, signal.SIGKILL)
        super().stop()
        self.pid = 0


def _greets(port: int) -> bool:
    """True once the port speaks AMQP; a listener may accept before the broker behind it is up."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
            peer.sendall(b"AMQP\x00\x00\x09\x01")
            return peer.recv(1) == b"\x01"
    except OSError:
        return False


def _command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    below = descendants(child.pid)
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in below:
            _signal(pid, signal.SIGKILL)
        child.wait()
