"""The part of a cell in moves of queues between cells; in the first cell, also the decisions about them, and the
removal of cells."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from leveret.cells.cell_removal import CellRemovals
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.definition_requests import FirstCell
from leveret.cells.definition_service import DefinitionService
from leveret.cells.home_cells import HomeCells
from leveret.cells.move_agent import MoveAgent
from leveret.cells.queue_move import QueueMove
from leveret.cells.queue_moves import QueueMoves
from leveret.cluster.cell_addresses import CellAddresses
from leveret.cluster.cell_links import CellLinks
from leveret.cluster.copy_links import CopyLinks
from leveret.cluster.link import Peer
from leveret.node import Node


class CellMoves:
    """``follow`` or ``decide`` is called once, before ``start``."""

    def __init__(self, node: Node, peer: Peer, homes: HomeCells, links: CellLinks, addresses: CellAddresses) -> None:
        self.removals: CellRemovals | None = None  # in the first cell
        self._node = node
        self._cell = peer.node
        self._agent = MoveAgent(node.broker, peer.node, homes, self._connect)
        self._copies = CopyLinks(peer, addresses, links.ends, self._agent.accept)
        self._moves: QueueMoves | None = None  # in the first cell
        self.services = self._copies.services

    def _connect(self, cell: str, move: QueueMove) -> None:
        self._copies.connect(cell, move)

    def follow(self, first: FirstCell) -> None:
        """This is not the first cell."""
        self._agent.first = first
        first.follow_moves(self._agent)

    def decide(
        self, feed: DefinitionFeed, service: DefinitionService, remove: Callable[[str], None] | None = None
    ) -> None:
        """This is the first cell. ``remove`` ends a cell that has no more queues."""
        broker, members = self._node.broker, self._node.sharding.membership

        def connected() -> list[str]:
            return [self._cell, *feed.connected()]

        self._moves = QueueMoves(broker, self._cell, feed, self._agent, connected, lambda: secrets.token_hex(8))
        service.moves = self._moves
        self.removals = CellRemovals(broker, self._cell, self._moves, members, self._is_settled, remove)

    def _is_settled(self, cell: str) -> bool:
        return self._node.sharding.is_settled(cell) and self._node.pipeline.commits.outboxes.is_passed(cell)

    def start(self) -> None:
        """When the own definitions are restored, and before anything can be published."""
        self._agent.start()
        if self._moves is not None:
            self._moves.start()
        if self.removals is not None:
            self.removals.start()

    async def stop(self) -> None:
        await self._copies.stop()
