"""Requests between the leaders of the cells of a cluster: the state of a cell, and the hand-over to another node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from leveret.cluster.cell_addresses import Address, CellAddresses
from leveret.cluster.cell_summary import CellSummary, summary_of
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.cluster.status import ClusterStatus
from leveret.errors import ClusterError

STATUS, HAND_OVER = "status", "hand_over"  # requests on the cluster port
SECONDS = 1.5  # for an answer
HAND_OVER_SECONDS = 8.0  # for that of a leader, which may still be taking over


class LedCell(Protocol):
    """api.cluster_view.ClusterView, as far as it is needed here."""

    def status(self) -> ClusterStatus: ...

    async def hand_over(self, node: str) -> str: ...


class SurveyService:
    """``cell``: the one that this node leads; raises ClusterError if there is none."""

    def __init__(self, cell: Callable[[], LedCell]) -> None:
        self._cell = cell

    async def serve_status(self, link: Link, _: Frame) -> None:
        found = summary_of(self._cell().status())
        await link.send({})
        await link.send({"cell": msgspec.to_builtins(found)})

    async def serve_hand_over(self, link: Link, request: Frame) -> None:
        successor = await self._cell().hand_over(str(request.get("to", "")))
        await link.send({})
        await link.send({"to": successor})


class CellSurvey:
    """Asks the leaders of other cells."""

    def __init__(self, peer: Peer, addresses: CellAddresses) -> None:
        self._peer = peer
        self._addresses = addresses

    async def summaries(self, cells: Iterable[str]) -> list[CellSummary]:
        return list(await asyncio.gather(*(self._summary(cell) for cell in cells)))

    async def _summary(self, cell: str) -> CellSummary:
        try:
            answer = await self._ask(cell, STATUS)
            return msgspec.convert(answer["cell"], CellSummary)
        except ClusterError as problem:
            return CellSummary(cell, problem=str(problem))

    async def hand_over(self, cell: str, node: str) -> str:
        """Returns the successor. Raises ClusterError."""
        return str((await self._ask(cell, HAND_OVER, HAND_OVER_SECONDS, to=node))["to"])

    async def _ask(self, cell: str, ask: str, seconds: float = SECONDS, **details: object) -> Frame:
        address = self._addresses.of(cell)
        if address is None:
            await self._addresses.changed(cell, None, SECONDS)
            address = self._addresses.of(cell)
        if address is None:
            raise ClusterError("no node leads this cell")
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(address, ask, details)
        except TimeoutError as problem:
            raise ClusterError("its leader does not answer") from problem
        except (OSError, LinkLost, LinkRefused, msgspec.ValidationError) as problem:
            raise ClusterError(str(problem)) from problem

    async def _exchange(self, address: Address, ask: str, details: dict[str, object]) -> Frame:
        link = await open_link(address, self._peer, ask, **details)
        try:
            return await link.receive()
        finally:
            link.close()
