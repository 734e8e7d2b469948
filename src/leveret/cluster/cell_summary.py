"""All cells of a cluster: which node leads each, which ones could, and how the leaders can be spread evenly. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from leveret.cluster.status import ClusterStatus


class MemberSummary(NamedTuple):
    """See MemberStatus."""

    node: str
    role: str
    is_connected: bool
    is_up_to_date: bool
    lag_records: int | None = None
    lag_seconds: float | None = None


class CellSummary(NamedTuple):
    """``leader``: empty if no leader is known; ``problem`` then says why."""

    cell: str
    leader: str = ""
    epoch: int = 0
    members: tuple[MemberSummary, ...] = ()
    problem: str = ""

    @property
    def candidates(self) -> list[str]:
        """The nodes that can lead now."""
        return [each.node for each in self.members if each.is_up_to_date]


class Move(NamedTuple):
    cell: str
    origin: str
    target: str


def summary_of(status: ClusterStatus) -> CellSummary:
    members = tuple(
        MemberSummary(each.node, each.role, each.is_connected, each.is_up_to_date, each.lag_records, each.lag_seconds)
        for each in status.members
    )
    return CellSummary(status.cell, status.leader, status.epoch, members)


def balanced(cells: Sequence[CellSummary]) -> list[Move]:
    """Hand-overs after which no node leads two cells more than another that could take one. As few as possible; those
    of the first cells, whose hand-over concerns all, are the last choice."""
    leaders = {each.cell: each.leader for each in cells if each.leader}
    led = Counter({node: 0 for each in cells for node in each.candidates})
    led.update(leaders.values())
    moves: dict[str, Move] = {}
    while (found := _best(cells, leaders, led)) is not None:
        led[leaders[found.cell]] -= 1
        led[found.target] += 1
        leaders[found.cell] = found.target
        moves[found.cell] = found._replace(origin=moves[found.cell].origin) if found.cell in moves else found
    return sorted((move for move in moves.values() if move.origin != move.target), key=lambda move: move.cell)


def _best(cells: Sequence[CellSummary], leaders: dict[str, str], led: Counter[str]) -> Move | None:
    possible = [
        (led[leaders[each.cell]] - led[node], place, Move(each.cell, leaders[each.cell], node))
        for place, each in enumerate(cells)
        if each.cell in leaders
        for node in each.candidates
    ]
    best = max(possible, default=None)
    return best[2] if best is not None and best[0] > 1 else None
