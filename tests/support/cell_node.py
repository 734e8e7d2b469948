"""Nodes of a cell as processes: ``leveret serve --cluster`` on free ports of loopback.

    with Cell(tmp_path, servers, "orders") as cell:     # ends its processes; no tracebacks may be in their logs
        cell.start()
        leader = cell.leader()                          # waits for one
        leader.kill()                                   # SIGKILL
        leader = cell.leader()

Clients log in as ``admin`` with the password ``admin``, through any node.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar

from tests.support.cell_ports import free_ports
from tests.support.fork_server import LEVERET
from tests.support.forked_broker import IS_COLD, ForkedProcess
from tests.support.machines import HERE, Machine
from tests.support.nats_servers import NatsServers

PROGRAM = (str(Path(sys.executable).with_name("leveret")),)
REPOSITORY = Path(__file__).parents[2]
LOGIN = {"LEVERET_DEFAULT_USER": "admin", "LEVERET_DEFAULT_PASSWORD": "admin"}
PORTS = ("amqp", "http", "cluster")
T = TypeVar("T")


class CellNode:
    def __init__(
        self,
        folder: Path,
        name: str,
        arguments: list[str],
        ports: dict[str, int],
        program: Sequence[str] = (LEVERET,),
        machine: Machine = HERE,
    ) -> None:
        """``ports`` by name: amqp, http and cluster, and perhaps more. ``program``: a module that is run instead of
        ``leveret``, with its arguments."""
        self.name = name
        self.host = machine.host
        self.ports = ports
        self._machine = machine
        self._program = program
        self.port, self.http_port, self.cluster_port = (ports[name] for name in PORTS)
        self.data = folder / name
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._log = folder / f"{name}.log"
        self._begun = 0  # where the last start begins in the log
        self._arguments = [
            *("--node-name", name, "--data-dir", str(self.data)),
            *(f"--{each}-port={port}" for each, port in ports.items()),
            *("--host", self.host, "--cluster-host", self.host),
            *arguments,
        ]

    def start(self, **environ: str) -> None:
        """``environ``: more environment variables. With some, the process is not forked, but a program of its own."""
        self._begun = len(self.log())
        variables = os.environ | LOGIN | environ
        module, *before = self._program
        arguments = [*before, "serve", *self._arguments]
        with self._log.open("ab") as log:
            if environ or IS_COLD:
                self.process = subprocess.Popen(
                    [*self._machine.prefix, sys.executable, "-m", module, *arguments],
                    stdout=log,
                    stderr=log,
                    cwd=REPOSITORY,
                    env=variables,
                    start_new_session=True,
                )
            else:
                self.process = ForkedProcess(
                    module,
                    arguments,
                    variables,
                    log.fileno(),
                    log.fileno(),
                    folder=REPOSITORY,
                    network=self._machine.network,
                )

    @property
    def url(self) -> str:
        return f"amqp://admin:admin@{self.host}:{self.port}/"

    @property
    def http_url(self) -> str:
        return f"http://{self.host}:{self.http_port}"

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        """Until this is in the log."""
        until(lambda: text in self.log(), seconds, lambda: self.log()[-2000:])

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def times_leading(self) -> int:
        return sum(" leading " in line for line in self.log().splitlines())

    @property
    def leads(self) -> bool:
        """Whether the last of its changes was to lead. A stopped process does not write that it was deposed."""
        return self.is_running and " leading " in self._last_change

    @property
    def has_claimed(self) -> bool:
        """Whether it is taking over: its claim is in the log, and its broker is not started yet."""
        return self.is_running and " claimed " in self._last_change

    @property
    def _last_change(self) -> str:
        changes = (" claimed ", " leading ", "stepping down", "stopped")
        lines = self.log()[self._begun :].splitlines()
        return next((line for line in reversed(lines) if any(text in line for text in changes)), "")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(seconds)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Cell:
    def __init__(
        self,
        folder: Path,
        servers: NatsServers,
        name: str,
        *arguments: str,
        nodes: int = 3,
        listeners: tuple[str, ...] = (),
        program: Sequence[str] = (LEVERET,),
        machines: Sequence[Machine] = (),
    ) -> None:
        """``arguments``: more ones of ``leveret serve``. ``listeners``: besides amqp and http, by scheme. ``program``:
        see CellNode. ``machines``: one for each node; by default all are on this one."""
        self.name = name
        self._machines = machines or [HERE] * 8
        self._program = program
        self.folder = folder
        self._arguments = [
            *("--cluster", ",".join(servers.urls), "--cluster-monitoring", ",".join(servers.monitoring)),
            *("--cell", name, "--cluster-log-size", "64MiB", *arguments),
        ]
        self._ports = (*PORTS, *listeners)
        self.nodes: list[CellNode] = []
        self.singles: list[CellNode] = []  # nodes without the cell, which end with it
        for place in range(nodes):
            self.add("abcdefgh"[place])

    def add(self, name: str) -> CellNode:
        """One more node, which is not started."""
        ports = dict(zip(self._ports, free_ports(len(self._ports)), strict=True))
        machine = self._machines[len(self.nodes)]
        self.nodes.append(CellNode(self.folder, name, self._arguments, ports, self._program, machine))
        return self.nodes[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.end()
        if error is None:
            assert not self.tracebacks()

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def await_ready(self) -> None:
        """All nodes have started: each leads, or relays to the leader."""
        for node in self.nodes:
            node.wait_for("is ready as")

    def end(self) -> None:
        for node in (*self.nodes, *self.singles):
            node.end()

    def leader(self, seconds: float = 90.0, *, but: CellNode | None = None) -> CellNode:
        """Wait for one. ``but``: a node that was stopped, and whose log still says that it leads."""
        return until(
            lambda: next((node for node in self.nodes if node.leads and node is not but), None), seconds, self.logs
        )

    def standbys(self) -> list[CellNode]:
        leader = self.leader()
        return [node for node in self.nodes if node is not leader and node.is_running]

    def logs(self) -> str:
        return "\n".join(f"{node.name}:\n{node.log()[-2000:]}" for node in self.nodes)

    def tracebacks(self) -> list[str]:
        return [node.log() for node in self.nodes if "Traceback" in node.log()]


def until(look: Callable[[], T | None], seconds: float, explain: Callable[[], str]) -> T:
    """The first true result."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)
    return found
