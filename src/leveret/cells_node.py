"""One cell of several on one machine, as ``leveret serve --cells`` runs them: a composition root around node.py.

The first cell changes the definitions of all and serves the management API; the others follow it. All cells listen on
the same ports for AMQP and STOMP: the system spreads connections over them. Each cell has an HTTP port of its own for
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from leveret.cell_broker import CLUSTER, CellBroker
from leveret.cells.definition_requests import FIRST
from leveret.cluster.cell_addresses import Address, ReportedAddresses
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.joining_cells import JoiningCells
from leveret.cluster.link import Peer
from leveret.config import Settings
from leveret.errors import ClusterError, PreconditionFailed
from leveret.machine import usable_cores, usable_memory
from leveret.node import NO_ENVIRONMENT, Node
from leveret.server.initial_definitions import ShowFirstLogin
from leveret.server.moved_connections import MovedConnections, SocketMover, cells_secret
from leveret.server.ports import bound
from leveret.setting_kinds import MemoryWatermark
from leveret.store.data_dir import cell_folder

LOOPBACK = "127.0.0.1"
BETWEEN_PORTS = 10  # the HTTP port of each cell is so much higher than that of the cell before
DEFINITIONS_SECONDS = 10.0  # that a cell waits for the first one before it listens


class CellPlan(NamedTuple):
    """``first``: the cluster port of the first cell; None for the first cell itself. ``address``: of the own cluster
    port; 0 binds a free one."""

    name: str
    number: int  # of cells
    secret: bytes
    first: Address | None = None
    address: Address = (LOOPBACK, 0)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all cells."""
        return tuple(f"c{number}" for number in range(1, self.number + 1))

    def settings(self, settings: Settings) -> Settings:
        """Those of this cell: its share of the memory, its own directory and its own ports for HTTP."""
        settings = replace(_share(settings, self.number), node_name=node_name(settings.node_name, self.name))
        if self.first is None:
            return settings
        folder = None if settings.data_dir is None else cell_folder(settings.data_dir, self.name)
        ports = {name: self._port(getattr(settings, name)) for name in ("http_port", "https_port")}
        return replace(settings, data_dir=folder, **ports)  # type: ignore[arg-type]

    def _port(self, first: int | None) -> int | None:
        """``first``: that of the first cell; 0 is any free port."""
        return first + BETWEEN_PORTS * (number_of(self.name) - 1) if first else first


def _share(settings: Settings, number: int) -> Settings:
    """That of each of so many cells."""
    size = settings.memory_high_watermark.of(usable_memory()) // number
    polls = settings.busy_wait if usable_cores() > number else "off"
    return replace(settings, memory_high_watermark=MemoryWatermark(size=size), busy_wait=polls)


def number_of(cell: str) -> int:
    return int(cell.removeprefix("c"))


def node_name(name: str, cell: str) -> str:
    """The first cell has the name of the node: so have the shards of a single broker that becomes the first cell."""
    return name if cell == FIRST else f"{name}-{cell}"


class CellNode:
    """``start``, ``stop``; ``node`` is the broker."""

    def __init__(
        self,
        settings: Settings,
        plan: CellPlan,
        *,
        environ: Mapping[str, str] = NO_ENVIRONMENT,
        show_first_login: ShowFirstLogin | None = None,
    ) -> None:
        own = plan.settings(settings)
        self.plan = plan
        self._name = settings.node_name
        self.node = node = Node(
            own,
            environ=environ,
            show_first_login=show_first_login,
            before_listening=self._before_listening,
            shares_ports=True,
            is_first_cell=plan.first is None,
        )
        peer = Peer(CLUSTER, plan.name, plan.secret)
        addresses = ReportedAddresses() if plan.first is None else ReportedAddresses(**{FIRST: plan.first})
        node.sharding.membership.cells = {cell: node_name(settings.node_name, cell) for cell in plan.names}
        joining = JoiningCells(node.sharding.membership, self._joined)
        self.cell = CellBroker(node, peer, addresses, joining, self.remove_cell)
        self._moved: MovedConnections | None = None
        self.address: Address | None = None  # of the cluster port
        self._port = ClusterPort(peer, self.cell.services)

    async def start(self) -> None:
        try:
            host, port = self.plan.address
            self.address = host, await self._port.listen((host,), port)
            secret = cells_secret(self.plan.secret, self.plan.first or self.address)
            if self.node.settings.connections_follow_queues == "on":
                self.node.broker.cells.mover = SocketMover(secret)
            await self.node.start()
            if self.node.listener is not None:
                changes = self.node.broker.cells.changes
                self._moved = MovedConnections(self.plan.name, secret, self.node.listener, changes)
        except BaseException:
            await self.stop()
            raise

    async def _before_listening(self, scheme: str) -> None:
        """Called for each port, when the own definitions are restored."""
        assert self.address is not None
        self.cell.start(self.address)
        if not await self.cell.compare(DEFINITIONS_SECONDS):
            raise ClusterError(f"cell {self.plan.name} cannot get the definitions of cell {FIRST}: see its log")

    def _joined(self, cell: str) -> None:
        """It was added while this one ran."""
        self.node.sharding.membership.cells[cell] = node_name(self._name, cell)
        self.resize(max(self.plan.number, number_of(cell)))

    def resize(self, number: int) -> None:
        """So many cells share the memory and the cores."""
        if number == self.plan.number:
            return
        own = self.node.settings
        whole = MemoryWatermark(size=own.memory_high_watermark.of(usable_memory()) * self.plan.number)
        self.plan = self.plan._replace(number=number)
        self.node.apply(_share(replace(own, memory_high_watermark=whole), number))

    async def refuse_used_ports(self, settings: Settings, cell: str) -> None:
        """Before anything depends on this further cell."""
        own = self.plan._replace(name=cell, first=self.address).settings(settings)
        for port in filter(None, (own.http_port, own.https_port if own.tls_cert is not None else None)):
            for host in own.host:
                try:
                    for listening in await bound(host, port):
                        listening.close()
                except OSError as problem:
                    raise PreconditionFailed(
                        f"cell {cell} needs port {port} on {host} for HTTP, which cannot be used "
                        f"({problem.strerror or problem}): free it, or start the broker with another http_port"
                    ) from None

    def remove_cell(self, cell: str) -> None:
        """Called in the first cell: another one has no more queues. The owner of its process ends it."""

    async def stop(self) -> None:
        if self._moved is not None:
            self._moved.stop()
        await self.node.stop_listening()
        await self.cell.stop()
        self._port.close()
        await self.node.stop()

    async def reload(self, load: Callable[[], Settings]) -> str:
        return await self.node.reload(lambda: self.plan.settings(load()))

    # ---- for the command line

    @property
    def settings(self) -> Settings:
        return self.node.settings

    @property
    def endpoints(self) -> dict[str, str]:
        return self.node.endpoints

    @property
    def message_memory(self) -> int:
        return self.node.message_memory

    @property
    def url_user(self) -> str:
        return self.node.url_user

    @property
    def recovered(self) -> Mapping[str, object]:
        return self.node.recovered

    @property
    def cell_facts(self) -> dict[str, str]:
        return {"cells": f"{self.plan.number} processes, definitions and management in {FIRST}"}
