"""A cell on one machine, or several: three servers of the engine and some nodes, on free ports of loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine, EngineConnection, EngineOptions, EngineRefusal, EngineUnavailable
from leveret.cluster.engine_checks import read_facts
from leveret.cluster.leader_watch import WATCH
from leveret.cluster.link import LinkLost, LinkRefused, Peer, open_link
from leveret.cluster.local_processes import (
    LocalProcess,
    ServerPorts,
    find_nats_server,
    free_ports,
    server_configuration,
)
from leveret.cluster.members import Members
from leveret.errors import ClusterError
from leveret.replication.claims import Position

SERVERS = 3
CELL = "demo"
USER = PASSWORD = "admin"  # noqa: S105  # printed; the ports are those of loopback
START_SECONDS = 60.0
ANSWER_SECONDS = 1.0
LOOK = 0.05
LOG_SIZE = "256MiB"
READY = b" is ready as "
NAME_OF_READER = "leveret cluster demo"


class NodeReport(NamedTuple):
    """A node as a member of one cell. ``role``: leader, standby, starting, no answer, or how the process ended.
    ``lag``: in records of the log."""

    name: str
    cell: str
    role: str
    epoch: int | None
    lag: int | None
    pid: int | None


class ServerReport(NamedTuple):
    """``state``: running, or how the process ended. ``leads``: the streams of these cells."""

    name: str
    state: str
    leads: tuple[str, ...]
    pid: int | None


class LocalNode(LocalProcess):
    def __init__(self, name: str, folder: Path, ports: list[int], servers: list[ServerPorts], cells: int = 1) -> None:
        """``ports``: for AMQP, HTTP and the cluster; with several cells, each process finds the last one itself."""
        self.amqp_port, self.http_port, self.cluster_port = ports
        urls = ",".join(f"nats://127.0.0.1:{ports.client}" for ports in servers)
        monitoring = ",".join(f"http://127.0.0.1:{ports.monitoring}" for ports in servers)
        command = [
            *(sys.executable, "-m", "leveret.cli.main", "serve", "--node-name", name),
            *("--data-dir", str(folder / name), "--host", "127.0.0.1", "--amqp-port", str(self.amqp_port)),
            *("--http-port", str(self.http_port), "--cluster", urls, "--cluster-monitoring", monitoring),
            *("--cluster-log-size", LOG_SIZE),
        ]
        if cells == 1:
            command += ["--cell", CELL, "--cluster-port", str(self.cluster_port)]
        else:
            command += ["--cells", str(cells), "--cluster-port", "0"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
        environ |= {"LEVERET_DEFAULT_USER": USER, "LEVERET_DEFAULT_PASSWORD": PASSWORD}
        log = folder / f"{name}.log"
        log.unlink(missing_ok=True)  # of a former cell
        super().__init__(name, command, log, environ)

    @property
    def is_ready(self) -> bool:
        """Whether it has printed its banner: it leads, or relays clients to the leader."""
        return self.log.exists() and READY in self.log.read_bytes()


class LocalCell:
    """``start``, then ``report`` again and again, and ``stop`` in any case."""

    user, password = USER, PASSWORD

    def __init__(
        self,
        folder: Path,
        nodes: int,
        cells: int = 1,
        amqp_port: int | None = None,
        http_port: int | None = None,
    ) -> None:
        """``folder`` may have the data of a former cell. The ports are those of the first node, the next ones have the
        next ports; by default all are free ones."""
        self.cells = (CELL,) if cells == 1 else tuple(f"c{number}" for number in range(1, cells + 1))
        free = free_ports(3 * (SERVERS + nodes))
        triples = [free[at : at + 3] for at in range(0, len(free), 3)]
        for place, triple in enumerate(triples[SERVERS:]):
            for kind, first in enumerate((amqp_port, http_port)):
                triple[kind] = triple[kind] if first is None else first + place
        self.ports = [ServerPorts(*triple) for triple in triples[:SERVERS]]
        self.servers = [self._server(place, folder) for place in range(SERVERS)]
        self.nodes = [
            LocalNode(f"n{place}", folder, triple, self.ports, cells)
            for place, triple in enumerate(triples[SERVERS:], 1)
        ]
        self._engine = Engine(
            EngineOptions(tuple(f"nats://127.0.0.1:{each.client}" for each in self.ports)), NAME_OF_READER
        )
        self._connection: EngineConnection | None = None
        self._peers: dict[str, Peer] = {}  # by cell
        self._addresses: dict[str, dict[str, tuple[str, int]]] = {cell: {} for cell in self.cells}  # and node

    def _server(self, place: int, folder: Path) -> LocalProcess:
        name = f"nats{place + 1}"
        path = folder / f"{name}.conf"
        path.write_text(server_configuration(name, folder, self.ports, place, cluster=CELL))
        return LocalProcess(name, [str(find_nats_server()), "-c", str(path)], folder / f"{name}.log")

    async def start(self) -> None:
        """Returns when all nodes accept clients. Raises ClusterError, or TimeoutError."""
        async with asyncio.timeout(START_SECONDS):
            for server in self.servers:
                server.start()
            await self._until_servers_answer()
            for node in self.nodes:
                node.start()
            while not all(node.is_ready for node in self.nodes):
                self._refuse_ended((*self.nodes, *self.servers))
                await asyncio.sleep(LOOK)

    async def _until_servers_answer(self) -> None:
        loop = asyncio.get_running_loop()
        for ports in self.ports:
            while True:
                self._refuse_ended(self.servers)
                try:
                    await loop.run_in_executor(None, read_facts, f"http://127.0.0.1:{ports.monitoring}")
                    break
                except ClusterError:
                    await asyncio.sleep(LOOK)

    def _refuse_ended(self, processes: Iterable[LocalProcess]) -> None:
        for process in processes:
            if process.ended is not None:
                raise ClusterError(
                    f"{process.name} has ended ({process.ended}): {process.last_line() or 'it has written nothing'}"
                )

    def stop(self) -> None:
        """Nodes first. Blocks."""
        for processes in (self.nodes, self.servers):
            for process in processes:
                process.ask_to_stop()
            for process in processes:
                process.wait()

    def kill(self) -> None:
        for process in (*self.nodes, *self.servers):
            process.kill()

    # ---- the state of the cell

    async def report(self) -> tuple[list[NodeReport], list[ServerReport]]:
        """One NodeReport for each node and cell."""
        leaders: dict[str, str] = {}  # of the streams, by cell
        nodes: list[NodeReport] = []
        for cell in self.cells:
            leaders[cell] = await self._look(cell)
            answers = await asyncio.gather(*(self._ask(node, cell) for node in self.nodes))
            newest = max((each.batch for each in answers if isinstance(each, _Answer)), default=0)
            nodes += [
                _node_report(node, cell, answer, newest) for node, answer in zip(self.nodes, answers, strict=True)
            ]
        servers = [
            ServerReport(
                server.name,
                server.ended or "running",
                tuple(cell for cell, leader in leaders.items() if leader == server.name),
                server.pid,
            )
            for server in self.servers
        ]
        return sorted(nodes, key=lambda report: (report.name, report.cell)), servers

    async def _look(self, cell: str) -> str:
        """The server that leads the stream, if it can be asked; and the addresses of the members."""
        stream = CellStream.of(cell)
        try:
            if self._connection is None or self._connection.lost.is_set():
                self._connection = await self._engine.connect()
            info = await self._connection.request(f"$JS.API.STREAM.INFO.{stream.name}", seconds=ANSWER_SECONDS)
            if cell not in self._peers:
                self._peers[cell] = Peer(cell, NAME_OF_READER, await Members(stream).secret(self._connection))
            members = await Members(stream).all(self._connection)
            self._addresses[cell] = {each.node: each.address for each in members}
            return str(info.get("cluster", {}).get("leader", ""))
        except (EngineUnavailable, EngineRefusal, ClusterError):  # not yet, or not now
            return ""

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, node: LocalNode, cell: str) -> _Answer | str:
        """By the first beat of its watch, or why there is none."""
        address = self._addresses[cell].get(node.name)
        if node.ended is not None or cell not in self._peers or address is None:
            return node.ended or "starting"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                link = await open_link(address, self._peers[cell], WATCH)
                try:
                    beat = await link.receive()
                finally:
                    link.close()
        except (ConnectionRefusedError, LinkRefused):
            return "starting"
        except (LinkLost, TimeoutError):
            return _why_silent(node)
        position = Position(*beat["position"])
        return _Answer(bool(beat["leads"]), position.epoch, position.batch)


class _Answer(NamedTuple):
    leads: bool
    epoch: int
    batch: int


def _why_silent(node: LocalNode) -> str:
    return node.ended or "no answer"


def _node_report(node: LocalNode, cell: str, answer: _Answer | str, newest: int) -> NodeReport:
    if isinstance(answer, str):
        return NodeReport(node.name, cell, answer, None, None, node.pid)
    role = "leader" if answer.leads else "standby"
    return NodeReport(node.name, cell, role, answer.epoch, newest - answer.batch, node.pid)
