"""The state of a cell as the leader sees it: members, servers of the engine, the log, and take-overs. No IO.

A standby's lag is derived from samples of the leader's own position: how many bytes it has appended behind the
standby's position, and how long ago it was at that position itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LEADER, STANDBY, DOWN = "leader", "standby", "down"
MOST_SAMPLES = 512
MOST_TAKE_OVERS = 50
UP_TO_DATE_SECONDS = 5.0
OTHERS_NEEDED = 2  # members besides this one, so that the cell survives one more failure after this node has stopped

# Reasons of a take-over.
FOUNDED = "founded"
LEASE_EXPIRED = "lease expired"
PROCESS_ENDED = "leader's process ended"
UNRESPONSIVE = "leader unresponsive"
HAND_OVER = "hand-over"
NODE_STOPPED = "node stopped"
RESTARTED = "restarted"


class Lag(NamedTuple):
    """``seconds``: the age of the oldest record that the standby does not have."""

    records: int
    bytes: int
    seconds: float


class MemberStatus(NamedTuple):
    """``role``: down if the member has no link to the leader. A member with a link that reports nothing is not
    connected. ``epoch``, ``batch`` and lag are None for a member that never reported to this leader; otherwise they are
    from its last report, at ``last_seen`` (wall time). ``problem``: why it is not connected, as far as is known."""

    node: str
    role: str
    host: str
    port: int
    endpoints: Mapping[str, str]
    version: str
    is_connected: bool
    epoch: int | None = None
    batch: int | None = None
    lag_records: int | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    last_seen: float | None = None
    problem: str = ""

    @property
    def is_up_to_date(self) -> bool:
        return self.is_connected and self.lag_seconds is not None and self.lag_seconds <= UP_TO_DATE_SECONDS


class EngineServer(NamedTuple):
    """``is_current`` and ``lag`` (operations) are those of the server's copy of the log. ``url``: its monitoring
    address, empty if it has not been read."""

    name: str
    url: str
    version: str
    is_reachable: bool
    is_leader: bool
    is_current: bool
    lag: int


class LogStatus(NamedTuple):
    """The sequences of the first and last record, and the size of the ring."""

    first: int
    last: int
    bytes: int
    max_bytes: int
    replicas: int


class TakeOver(NamedTuple):
    """``at``: wall time. ``seconds``: from the detection that there is no leader until this node led."""

    epoch: int
    node: str
    at: float
    reason: str
    seconds: float


class ClusterStatus(NamedTuple):
    """``is_answering``: whether the engine stores what is appended. ``take_overs``: the newest first; ``totals``
    counts all, by reason."""

    cell: str
    leader: str
    epoch: int
    leader_since: float
    is_answering: bool
    members: tuple[MemberStatus, ...] = ()
    engine: tuple[EngineServer, ...] = ()
    log: LogStatus | None = None
    take_overs: tuple[TakeOver, ...] = ()
    totals: Mapping[str, int] = {}

    def member(self, node: str) -> MemberStatus | None:
        return next((each for each in self.members if each.node == node), None)

    def why_critical(self, node: str) -> str | None:
        """Why the cell would not survive another failure after ``node`` has stopped; None if it would."""
        others = [each.node for each in self.members if each.node != node and each.is_up_to_date]
        if len(others) < OTHERS_NEEDED:
            found = f"only one other member ({others[0]})" if others else "no other member"
            return (
                f"{found} of the cell '{self.cell}' is connected and up to date, two are needed: start the other "
                "nodes, or wait until they have caught up"
            )
        return self._why_engine_critical()

    def _why_engine_critical(self) -> str | None:
        if not self.is_answering:
            return "the engine does not answer: check the NATS servers"
        lost = [each.name for each in self.engine if not (each.is_reachable and each.is_current)]
        majority = len(self.engine) // 2 + 1
        if lost and len(self.engine) - len(lost) - 1 < majority:
            return (
                f"not all servers of the engine are up to date ({', '.join(lost)}), and it stops when it loses another "
                "one: start the missing ones first"
            )
        return None


class _Sample(NamedTuple):
    sequence: int
    bytes: int
    at: float


class LagSamples:
    """Where the leader's log ended, and when. Bounded: the older half is thinned out, so that the first sample stays
    and precision is lost with age. ``at`` is a time of any steady clock."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._samples: list[_Sample] = []
        self._most = most

    def add(self, sequence: int, size: int, at: float) -> None:
        """``size``: all bytes appended so far by this leader."""
        samples = self._samples
        if len(samples) > 1 and samples[-1].sequence == samples[-2].sequence == sequence:
            samples.pop()  # an idle time has a sample at its begin and one at its end
        samples.append(_Sample(sequence, size, at))
        if len(samples) > self._most:
            half = len(samples) // 2
            self._samples = samples[:half:2] + samples[half:]

    def lag(self, sequence: int, at: float, record_size: float = 0.0) -> Lag:
        """Of a standby that had read up to ``sequence`` at the time ``at``. Records from before the first sample count
        as ``record_size`` bytes each, and as old as that sample."""
        if not self._samples:
            return Lag(0, 0, 0.0)
        end, first = self._end(at), self._samples[0]
        if sequence >= end.sequence:
            return Lag(0, 0, 0.0)
        if sequence < first.sequence:
            size = end.bytes - first.bytes + (first.sequence - sequence) * record_size
            return Lag(end.sequence - sequence, round(size), max(at - first.at, 0.0))
        place = max(n for n, sample in enumerate(self._samples) if sample.sequence <= sequence)
        before, behind = self._samples[place : place + 2]
        share = (sequence - before.sequence) / (behind.sequence - before.sequence)
        size = end.bytes - before.bytes - share * (behind.bytes - before.bytes)
        return Lag(end.sequence - sequence, max(round(size), 0), max(at - before.at, 0.0))

    def _end(self, at: float) -> _Sample:
        """Where the log ended at this time, which is between two samples: a report is as old as its last beat."""
        before = behind = self._samples[-1]
        for sample in reversed(self._samples):
            before = sample
            if sample.at <= at:
                break
            behind = sample
        if behind.at <= before.at:
            return before
        share = min(max((at - before.at) / (behind.at - before.at), 0.0), 1.0)
        sequence = before.sequence + int(share * (behind.sequence - before.sequence))
        return _Sample(sequence, before.bytes + round(share * (behind.bytes - before.bytes)), at)
