"""The pipeline of a broker that is one of several cells: requests and committed messages between cells."""

from __future__ import annotations

import asyncio
import hashlib

from leveret.cluster.api_links import ApiLinks
from leveret.cluster.cell_addresses import CellAddresses
from leveret.cluster.cell_transfers import TRANSFERS, CellTransfers
from leveret.cluster.link import Peer
from leveret.errors import LeveretError
from leveret.node import Node
from leveret.pipeline.outboxes import Answered, Transfer
from leveret.pipeline.transfers import ReceivedTransfers, encoded

TOKEN_LENGTH = 16


class CellPipeline:
    """``first``: the name of the first cell."""

    def __init__(self, node: Node, peer: Peer, first: str, addresses: CellAddresses) -> None:
        self._node = node
        self._peer = peer
        self._first = first
        outboxes = node.pipeline.commits.outboxes
        self._received = received = ReceivedTransfers(node.broker, outboxes)
        receive, keep_only = received.receive_encoded, received.keep_only
        self._tasks: set[asyncio.Task[None]] = set()
        self._transfers = CellTransfers(peer, addresses, outboxes.ids, receive, keep_only)
        self.services = {TRANSFERS: self._transfers.serve}

    def prepare(self, api_links: ApiLinks) -> None:
        """Before the node listens for HTTP."""
        if self._node.pipeline.cells is None:
            from leveret.pipeline.cell_requests import CellRequests  # see node.import_http

            token = hashlib.sha256(b"http" + self._peer.secret).hexdigest()[:TOKEN_LENGTH]
            own, endpoints = self._peer.node, self._node.endpoints
            self._node.pipeline.cells = CellRequests(own, self._first, token, api_links, endpoints)

    def start(self) -> None:
        """When the queues are restored."""
        if not self._transfers.is_ready:
            self._transfers.is_ready = True
            outboxes, own = self._node.pipeline.commits.outboxes, self._peer.node
            self._received.keep_only(own, outboxes.ids(own))
            outboxes.start(self._transfer)

    async def stop(self) -> None:
        await self._transfers.stop()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _transfer(self, cell: str, transfer: Transfer, answered: Answered) -> None:
        if cell != self._peer.node:
            self._transfers.send(cell, *encoded(transfer), answered)
            return
        task = asyncio.create_task(self._receive(transfer, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(self, transfer: Transfer, answered: Answered) -> None:
        """For a queue of this cell that was being moved when the messages were committed."""
        try:
            await self._received.receive(self._peer.node, transfer)
        except LeveretError as problem:
            answered(str(problem))
        else:
            answered(None)
