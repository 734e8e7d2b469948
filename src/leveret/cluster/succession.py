"""Which node leads next, and why: what a standby concludes from the lease and the watch, and whom a leader chooses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from leveret.cluster.leader_watch import LeaderWatch, StandbyReport
from leveret.cluster.lease import HeldLease
from leveret.cluster.status import (
    FOUNDED,
    HAND_OVER,
    LEASE_EXPIRED,
    NODE_STOPPED,
    PROCESS_ENDED,
    RESTARTED,
    UNRESPONSIVE,
    TakeOver,
)
from leveret.errors import ClusterError
from leveret.replication.claims import Claim

SUCCESSOR_SECONDS = 3.0  # for the node that a leader hands over to, before others try
UNFIT_SECONDS = 10.0  # for the other nodes, when the disk of this one has failed
MOST_BEHIND = 1000  # batches: a node that is further behind is no successor


class _Detected(NamedTuple):
    """When this node first found that it may lead, and why (cluster/status.py)."""

    reason: str
    at: float


class _Released(NamedTuple):
    """When this node first saw that a lease was released in favour of another node."""

    revision: int
    at: float


class Succession:
    """All times are those of the loop."""

    def __init__(self, node: str, life: str, watch: LeaderWatch) -> None:
        self._node = node
        self._life = life
        self._watch = watch
        self._stepped_down_at = -SUCCESSOR_SECONDS
        self._unfit_until = 0.0
        self._released = _Released(0, 0.0)
        self._detected: _Detected | None = None

    def may_lead(self, held: HeldLease | None, epoch: int, now: float) -> bool:
        """``held``: the lease as it was read now; ``epoch``: that of the log."""
        reason = self._reason(held, epoch, now)
        if reason is None:
            self._detected = None
        elif self._detected is None:
            self._detected = _Detected(reason, now)
        return reason is not None

    def _reason(self, held: HeldLease | None, epoch: int, now: float) -> str | None:
        """None while another node leads, or has the right to go first."""
        if now < self._unfit_until:
            return None
        if held is None:
            return LEASE_EXPIRED if epoch else FOUNDED
        holder = held.holder
        if not holder.is_released:
            if holder.node == self._node:
                return RESTARTED  # a former life of this node has ended: it had the same data directory
            if not self._watch.is_dead(held):
                return None
            return PROCESS_ENDED if self._watch.has_ended(holder.life) else UNRESPONSIVE
        reason = HAND_OVER if holder.successor else NODE_STOPPED
        if holder.successor in ("", self._node):
            is_first = holder.life != self._life or now - self._stepped_down_at > SUCCESSOR_SECONDS
            return reason if is_first else None
        if self._released.revision != held.revision:
            self._released = _Released(held.revision, now)
        return reason if now - self._released.at > SUCCESSOR_SECONDS else None

    def taken_over(self, claim: Claim, now: float) -> TakeOver:
        """This node leads."""
        detected, self._detected = self._detected, None
        assert detected is not None
        return TakeOver(claim.epoch, claim.node, time.time(), detected.reason, now - detected.at)

    def stepped_down(self, now: float, *, is_unfit: bool = False) -> None:
        """Others go first. ``is_unfit``: it would fail again, as its disk is full or broken."""
        self._stepped_down_at = now
        if is_unfit:
            self._unfit_until = now + UNFIT_SECONDS


def choose_successor(reports: Mapping[str, StandbyReport], batch: int, node: str, now: float) -> str:
    """``node``, or without one the standby that is most advanced; ``batch`` is the last one of the leader. Raises
    ClusterError if there is none."""
    able = {
        name: report.position.batch
        for name, report in reports.items()
        if now - report.at < SUCCESSOR_SECONDS and batch - report.position.batch <= MOST_BEHIND
    }
    if node and node not in able:
        raise ClusterError(
            f"node {node!r} cannot take over: it is not connected to the leader, or too far behind. Nodes that can: "
            f"{', '.join(sorted(able)) or 'none'}"
        )
    if not able:
        raise ClusterError("no standby is connected and up to date: start another node of the cell first")
    return node or max(able, key=lambda name: able[name])
