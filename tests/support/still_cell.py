"""A cell that only exists for the HTTP API of a broker: its state is a value of the test."""

from __future__ import annotations

from leveret import Broker
from leveret.cluster.cell_summary import CellSummary, summary_of
from leveret.cluster.status import (
    DOWN,
    LEADER,
    STANDBY,
    ClusterStatus,
    EngineServer,
    LogStatus,
    MemberStatus,
    TakeOver,
)
from leveret.errors import ClusterError

SINCE = 1_700_000_000.0


class StillCell:
    """The ClusterView of api/cluster_view.py. ``b`` is a standby, ``c`` is down; ``asked`` has the hand-overs.
    ``leads_after_hand_over``: the node that leads then, after one more look at the old state."""

    def __init__(self, broker: Broker) -> None:
        self.now = status_of(broker.node.broker.node_name)
        self.asked: list[str] = []
        self.leads_after_hand_over = ""
        self.others: list[CellSummary] = []  # of other cells
        self.moved: list[tuple[str, str]] = []
        self._next: ClusterStatus | None = None
        assert broker.node._api is not None
        broker.node._api.cluster = self

    def status(self) -> ClusterStatus:
        shown, self.now = self.now, self._next or self.now
        self._next = None
        return shown

    async def hand_over(self, node: str) -> str:
        if node not in ("", "b"):
            raise ClusterError(f"node {node!r} cannot take over: it is not connected to the leader")
        self.asked.append(node)
        if self.leads_after_hand_over:
            self._next = self.now._replace(leader=self.leads_after_hand_over, epoch=self.now.epoch + 1)
        return "b"

    async def cells(self) -> list[CellSummary]:
        return [summary_of(self.now), *self.others]

    async def hand_over_cell(self, cell: str, node: str) -> str:
        if cell == self.now.cell:
            return await self.hand_over(node)
        if cell == "stuck":
            raise ClusterError("no standby is connected and up to date")
        self.moved.append((cell, node))
        self.others = [
            each._replace(leader=node or "b", epoch=each.epoch + 1) if each.cell == cell else each
            for each in self.others
        ]
        return node or "b"


def status_of(leader: str) -> ClusterStatus:
    """With the leader ``leader``."""
    endpoints = {"amqp": "amqp://b.example:5672"}
    members = (
        MemberStatus(leader, LEADER, "a.example", 25673, {}, "1.0", True, 4, 100, 0, 0, 0.0, SINCE + 60),
        MemberStatus("b", STANDBY, "b.example", 25673, endpoints, "1.0", True, 4, 98, 2, 4096, 0.25, SINCE + 60),
        MemberStatus("c", DOWN, "c.example", 25673, {}, "0.9", False, problem="its disk is full"),
    )
    servers = (
        EngineServer("s1", "http://s1:8222", "2.14.6", True, True, True, 0),
        EngineServer("s2", "http://s2:8222", "2.14.6", True, False, True, 0),
        EngineServer("s3", "", "", False, False, False, 7),
    )
    take_overs = (
        TakeOver(4, leader, SINCE, "leader's process ended", 0.61),
        TakeOver(1, "c", SINCE - 3600, "founded", 0.2),
    )
    totals = {"founded": 1, "leader's process ended": 3}
    log = LogStatus(1, 100, 1 << 20, 1 << 30, 3)
    return ClusterStatus("orders", leader, 4, SINCE, True, members, servers, log, take_overs, totals)
