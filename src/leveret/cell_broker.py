"""What makes the broker of a node one of several cells: queues of other cells, shared definitions, and links.

The first cell changes the definitions of all, the others follow it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.cell_moves import CellMoves
from leveret.cell_pipeline import CellPipeline
from leveret.cells.api_request import ApiRequest
from leveret.cells.definition_copy import DefinitionCopy
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.definition_requests import FIRST, FirstCell
from leveret.cells.definition_service import DefinitionService
from leveret.cells.home_cells import HomeCells
from leveret.cluster.api_links import API
from leveret.cluster.api_service import Receive, Send
from leveret.cluster.cell_addresses import Address, CellAddresses
from leveret.cluster.cell_links import DEFINITIONS, QUEUES, CellLinks, CellMembers
from leveret.cluster.cell_transfers import TRANSFERS
from leveret.cluster.copy_links import COPIES
from leveret.cluster.link import Peer
from leveret.cluster.vhost_relay import CLIENT, ClientService, VhostRelay
from leveret.config import Settings
from leveret.http.internal_requests import scope_of
from leveret.node import Node
from leveret.queues.leader_locator import BALANCED, CLIENT_LOCAL
from leveret.server.listener import most_unfinished
from leveret.session.limits import Limits

if TYPE_CHECKING:
    from leveret.api.context import ApiContext
    from leveret.http.app import HttpApp

CLUSTER = "cells"  # the name in the handshake of links between cells
SERVICES = (DEFINITIONS, QUEUES, COPIES, API, CLIENT, TRANSFERS)  # on the cluster port


def _locator(settings: Settings) -> str:
    if settings.queue_leader_locator != "auto":
        return settings.queue_leader_locator
    return CLIENT_LOCAL if settings.cluster else BALANCED  # connections cannot follow their queue to another machine


def _limits_of_links(settings: Settings) -> Limits:
    size = settings.max_message_size
    return Limits(channel_max=65_535, max_message_size=size, max_partial_bytes=most_unfinished(size))


class CellBroker:
    """Create it before the node starts. ``peer``: this cell, for links. ``joining`` enters the cells that connect.
    ``remove`` ends a cell that was taken out of service; without it, that is done by hand."""

    def __init__(
        self,
        node: Node,
        peer: Peer,
        addresses: CellAddresses,
        joining: CellMembers,
        remove: Callable[[str], None] | None = None,
    ) -> None:
        broker, cell, settings = node.broker, peer.node, node.settings
        broker.announced["cell"] = cell
        broker.cells.name = cell
        members = node.sharding.membership
        members.are_cells = True
        homes = HomeCells(broker)
        limits = _limits_of_links(settings)
        if cell == FIRST:
            feed, service = DefinitionFeed(broker, cell, _locator(settings)), DefinitionService(broker, cell)
            self.links = CellLinks(broker, peer, homes, limits, joining, addresses, feed=feed, service=service)
            self.moves = CellMoves(node, peer, homes, self.links, addresses)
            self.moves.decide(feed, service, remove)
        else:
            copy = DefinitionCopy(broker, cell, settings.default_user, settings.default_password)
            first = FirstCell(broker, cell, copy)
            self.links = CellLinks(broker, peer, homes, limits, joining, addresses, first=first)
            self.moves = CellMoves(node, peer, homes, self.links, addresses)
            self.moves.follow(first)
        self._relay = broker.cells.clients = VhostRelay(peer, addresses.of)
        self.pipeline = CellPipeline(node, peer, FIRST, addresses)
        clients = ClientService(broker, lambda: node.listener)
        self.services = {
            **self.links.services,
            **self.moves.services,
            CLIENT: clients.serve,
            **self.pipeline.services,
        }
        broker.cells.nodes, broker.cells.cluster_name = members.cells, members.cells[FIRST]
        node.cell = self
        self._members = members
        self._broker = broker
        self._is_first = cell == FIRST

    def start(self, address: Address, epoch: int = 0) -> None:
        """When the own definitions are restored; see CellLinks. May be called twice."""
        self.pipeline.prepare(self.links.api_links)
        self.pipeline.start()
        if not self.links.is_started:
            self.moves.start()
            self.links.start(address, epoch)
            if self._is_first:
                self._members.forget_removed()

    def api_made(self, app: HttpApp, context: ApiContext) -> None:
        """Answer requests of the first cell; the first cell asks the others before it answers its clients."""
        from leveret.api.cells.cell_requests import CellRequests  # imports starlette, which is loaded after the start
        from leveret.api.cells.relay import CellRelay, PipelineOnly

        broker = self._broker

        async def perform(request: ApiRequest, receive: Receive, send: Send) -> None:
            await app.perform(scope_of(broker, request), receive, send)

        self.links.api.perform = perform
        app.relay = PipelineOnly(FIRST)
        if self._is_first:
            app.relay = CellRelay(CellRequests(context, app.perform, FIRST, self.links.api_links))

    @property
    def has_definitions(self) -> bool:
        """Whether it has ever had those of the first cell, which has a user at least."""
        return self._is_first or bool(self._broker.users.list())

    async def compare(self, seconds: float) -> bool:
        """Whether the definitions are those of the first cell, within this many seconds."""
        if self._is_first:
            return True
        try:
            await asyncio.wait_for(self.links.compared.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """When the node accepts no more clients, and before it stops."""
        await self._relay.stop()
        await self.moves.stop()
        await self.links.stop()
        await self.pipeline.stop()
