"""What the management API uses of a cell. The node gives it to the API if it belongs to one."""

from __future__ import annotations

from typing import Protocol

from leveret.cluster.cell_summary import CellSummary
from leveret.cluster.status import ClusterStatus


class ClusterView(Protocol):
    def status(self) -> ClusterStatus:
        """As the leader knows it, which is this node."""

    async def hand_over(self, node: str) -> str:
        """Stop leading in favour of ``node``, or of the most advanced standby if it is empty; returns the successor.
        Raises ClusterError if there is none. Returns before this node has stopped to lead."""

    async def cells(self) -> list[CellSummary]:
        """All cells of the cluster, in the order of their numbers."""

    async def hand_over_cell(self, cell: str, node: str) -> str:
        """``hand_over`` for any of them."""
