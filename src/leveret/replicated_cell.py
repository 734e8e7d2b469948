"""One of several replicated cells (``leveret serve --cluster --cells``): what a node of it has beside cluster_node.py.

While the node leads, its broker is joined to the leaders of the other cells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from leveret.cell_broker import CLUSTER, SERVICES, CellBroker
from leveret.cells.definition_requests import FIRST
from leveret.cluster.cell_addresses import Address
from leveret.cluster.cell_summary import CellSummary, summary_of
from leveret.cluster.cell_survey import HAND_OVER, STATUS, CellSurvey, LedCell, SurveyService
from leveret.cluster.engine import Engine, end
from leveret.cluster.joining_cells import JoiningCells
from leveret.cluster.leader_addresses import LeaderAddresses
from leveret.cluster.link import Frame, Link, Peer
from leveret.config import Settings
from leveret.errors import ClusterError, ConfigError
from leveret.logs import get_log
from leveret.machine import usable_cores, usable_memory
from leveret.node import Node
from leveret.setting_kinds import MemoryWatermark
from leveret.store.data_dir import cell_folder

EVERY = "main"  # the default of the setting: all cells
DEFINITIONS_SECONDS = 5.0  # that a leader waits for the first cell before it listens with the definitions it has
LOOK = 0.2
LAST_PORT = 65_535
Service = Callable[[Link, Frame], Awaitable[None]]


def cell_names(settings: Settings) -> tuple[str, ...]:
    """All cells of the cluster."""
    return tuple(f"c{number}" for number in range(1, settings.cells + 1))


def placed_cells(settings: Settings) -> tuple[str, ...]:
    """Those of which this machine has a member."""
    names = cell_names(settings)
    if settings.cell == EVERY:
        return names
    if settings.cell not in names:
        raise ConfigError(
            f"--cells {settings.cells} has the cells {names[0]} to {names[-1]}, not {settings.cell!r}: choose one of "
            "these with --cell, or leave it out for a member of each"
        )
    return (settings.cell,)


def member_settings(settings: Settings, cell: str) -> Settings:
    """Those of the member of one cell: its share of the memory, its own directory and cluster port; HTTP is served by
    the first cell."""
    placed = placed_cells(settings)
    share = MemoryWatermark(size=settings.memory_high_watermark.of(usable_memory()) // len(placed))
    port = settings.cluster_port and settings.cluster_port + placed.index(cell)
    if port > LAST_PORT:
        raise ConfigError(
            f"--cluster-port {settings.cluster_port} leaves no port for the cell {cell}: choose a lower one"
        )
    settings = replace(settings, cell=cell, memory_high_watermark=share, cluster_port=port)
    if usable_cores() <= len(placed):
        settings = replace(settings, busy_wait="off")
    if cell == FIRST or settings.data_dir is None:
        return settings
    return replace(settings, data_dir=cell_folder(settings.data_dir, cell), http_port=None, https_port=None)


class ReplicatedCell:
    def __init__(self, engine: Engine, settings: Settings, secret: bytes) -> None:
        self.peer = Peer(CLUSTER, settings.cell, secret)
        self._names = cell_names(settings)
        self._addresses = LeaderAddresses(engine)
        self._survey = CellSurvey(self.peer, self._addresses)
        self._looking: asyncio.Task[None] | None = None
        self._cell: LedCell | None = None
        self._broker: CellBroker | None = None  # while this node leads
        self._is_ready = False
        self._log = get_log("cells").bind(cell=settings.cell)

    @property
    def is_first(self) -> bool:
        return self.peer.node == FIRST

    # ---- on the cluster port

    @property
    def services(self) -> Mapping[str, Service]:
        survey = SurveyService(self._led)
        return {
            **{name: partial(self._serve, name) for name in SERVICES},
            STATUS: survey.serve_status,
            HAND_OVER: survey.serve_hand_over,
        }

    async def _serve(self, name: str, link: Link, request: Frame) -> None:
        """Not before all queues are there: another cell would take them for deleted."""
        if self._broker is None or not self._is_ready:
            raise ClusterError(f"this node does not lead the cell {self.peer.node}, or not yet")
        await self._broker.services[name](link, request)

    def _led(self) -> LedCell:
        if self._cell is None:
            raise ClusterError(f"this node does not lead the cell {self.peer.node}")
        return self._cell

    # ---- while this node leads

    def begin(self, node: Node, cell: LedCell) -> None:
        """Before the node starts. Its shards have the name of the cell, which any node may lead."""
        membership = node.sharding.membership
        membership.rename(self.peer.node)
        membership.cells = {name: name for name in self._names}
        self._cell = cell
        self._broker = CellBroker(node, self.peer, self._addresses, JoiningCells(membership, partial(self._add, node)))
        node.broker.cells.nodes = self._leaders(node.broker.node_name)
        for name in self._names:
            membership.join(name)
        self._looking = asyncio.create_task(self._addresses.run())

    def _add(self, node: Node, cell: str) -> None:
        """It was started with more cells than this node, which will be restarted with as many."""
        node.sharding.membership.cells[cell] = cell
        self._addresses.nodes.setdefault(cell, cell)

    def _leaders(self, own: str) -> Mapping[str, str]:
        """The nodes that lead the cells, as they change; a cell whose leader was never known has its own name."""
        leaders = self._addresses.nodes
        for name in self._names:
            leaders.setdefault(name, name)
        leaders[self.peer.node] = own
        return leaders

    async def ready(self, address: Address, epoch: int, is_over: Callable[[], bool]) -> None:
        """When all that this cell has is restored, and before clients are accepted: until the definitions are those of
        the first cell. If that is away, those that this cell has are used, if it has any. ``is_over``: this node does
        not lead any more."""
        broker = self._broker
        assert broker is not None
        if self._is_ready:
            return
        broker.start(address, epoch)
        deadline = asyncio.get_running_loop().time() + DEFINITIONS_SECONDS
        while not await broker.compare(LOOK):
            if is_over():
                return
            if broker.has_definitions and asyncio.get_running_loop().time() > deadline:
                self._log.warning("the first cell cannot be reached: its last changes are not known here")
                break
        self._is_ready = True

    async def finish(self) -> None:
        """When the node accepts no more clients, and before it stops."""
        broker, self._broker = self._broker, None
        self._cell = None
        self._is_ready = False
        if broker is not None:
            await broker.stop()
        if self._looking is not None:
            await end(self._looking)

    # ---- all cells

    async def summaries(self, own: LedCell) -> list[CellSummary]:
        others = [name for name in self._names if name != self.peer.node]
        found = [summary_of(own.status()), *await self._survey.summaries(others)]
        return sorted(found, key=lambda each: self._names.index(each.cell))

    async def hand_over(self, cell: str, node: str) -> str:
        return await self._survey.hand_over(cell, node)
