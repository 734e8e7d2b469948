"""What a leader knows about its cell between two reads of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from leveret.cluster.cell_member import CellMember, Identity
from leveret.cluster.cell_stream import NANOSECONDS, CellStream
from leveret.cluster.engine import Engine, EngineOptions
from leveret.cluster.engine_checks import ServerFacts
from leveret.cluster.leader_watch import StandbyReport
from leveret.cluster.link import Peer
from leveret.cluster.members import Member
from leveret.cluster.status import (
    ClusterStatus,
    MemberStatus,
)
from leveret.cluster.status_collector import StatusCollector
from leveret.replication.claims import Position

STREAM = CellStream.of("orders")
OWN = Member("a", "a.example", 25672, "life of a", "1.0")
SECONDS = NANOSECONDS


class FakeLeadership:
    """At record 100, with a mean of 500 bytes for each."""

    def __init__(self) -> None:
        self.position = Position(100, 4, 90)
        self.granted_bytes = 0
        self.answered_at = asyncio.get_running_loop().time()


class LeadingMember(CellMember):
    def __init__(self, folder: Path) -> None:
        super().__init__(engine(), STREAM, folder, Identity("a", "life of a"), _no_node)
        self.fake = FakeLeadership()
        self.leadership = self.fake  # type: ignore[assignment]

    def reported(self, node: str, sequence: int, *, seconds_ago: float = 0.0, links: int = 1) -> None:
        at = asyncio.get_running_loop().time() - seconds_ago
        self.beats.reports[node] = StandbyReport(Position(sequence, 4, sequence - 10), at)
        self.beats.links[node] = links


def _no_node() -> Any:
    raise AssertionError("no broker is started")


def engine() -> Engine:
    return Engine(EngineOptions(("nats://s1:4222", "nats://s2:4222", "nats://s3:4222")), "a")


def collector_of(member: LeadingMember, *others: str) -> StatusCollector:
    made = StatusCollector(engine(), STREAM, member, OWN, Peer("orders", "a", b"secret"))
    made._known_members = [OWN, *(Member(name, f"{name}.example", 25672, "", "1.0") for name in others)]
    return made


def stream_info(*replicas: dict[str, Any]) -> dict[str, Any]:
    return {
        "config": {"max_bytes": 1 << 20, "num_replicas": 3},
        "state": {"first_seq": 1, "last_seq": 100, "bytes": 50_000, "messages": 100},
        "cluster": {"leader": "s1", "replicas": list(replicas)},
    }


def run(story: Callable[[LeadingMember], Awaitable[None]], folder: Path) -> None:
    async def begin() -> None:
        await story(LeadingMember(folder))

    asyncio.run(begin())


def found(status: ClusterStatus, node: str) -> MemberStatus:
    member = status.member(node)
    assert member is not None
    return member


def test_members_are_up_behind_silent_or_down(tmp_path: Path) -> None:
    async def story(member: LeadingMember) -> None:
        collector = collector_of(member, "b", "c", "d", "e")
        collector._info = stream_info()
        collector.status()  # takes a sample
        member.reported("b", 100)
        member.reported("c", 90, seconds_ago=4.0)
        member.reported("d", 80, links=0)
        status = collector.status()
        assert [each.node for each in status.members] == ["a", "b", "c", "d", "e"]
        assert (found(status, "a").role, found(status, "a").lag_records) == ("leader", 0)
        b, c, d, e = (found(status, name) for name in "bcde")
        assert (b.role, b.is_connected, b.lag_records, b.is_up_to_date) == ("standby", True, 0, True)
        assert (c.role, c.is_connected, c.lag_records, c.lag_bytes) == ("standby", False, 10, 5000)
        assert (d.role, d.is_connected, d.lag_records, d.batch) == ("down", False, 20, 70)
        assert (e.role, e.is_connected, e.lag_records, e.last_seen) == ("down", False, None, None)
        assert c.last_seen is not None
        assert b.last_seen is not None
        assert 3.5 < b.last_seen - c.last_seen < 10.0

    run(story, tmp_path)


def test_lag_grows_with_what_the_leader_appends(tmp_path: Path) -> None:
    async def story(member: LeadingMember) -> None:
        collector = collector_of(member, "b")
        collector.status()
        member.reported("b", 100, seconds_ago=-1.0)  # in the time of the next sample
        member.fake.position, member.fake.granted_bytes = Position(110, 4, 95), 7000
        collector._samples.add(110, 7000, asyncio.get_running_loop().time() + 1.0)
        b = found(collector.status(), "b")
        assert (b.lag_records, b.lag_bytes) == (10, 7000)
        assert b.lag_seconds is not None
        assert 0.9 < b.lag_seconds < 10.0

    run(story, tmp_path)


def test_an_engine_that_owes_answers_is_not_answering(tmp_path: Path) -> None:
    async def story(member: LeadingMember) -> None:
        collector = collector_of(member)
        assert collector.status().is_answering
        member.fake.answered_at -= 3.5
        assert not collector.status().is_answering

    run(story, tmp_path)


def test_servers_are_those_of_the_stream_with_what_their_monitoring_tells(tmp_path: Path) -> None:
    async def story(member: LeadingMember) -> None:
        collector = collector_of(member)
        facts = ServerFacts("http://s1:8222", "ID", (2, 14, 6), "c", True, True, 1 << 20, "s1")
        collector._facts = {facts.url: facts}
        collector._info = stream_info(
            {"name": "s2", "current": False, "active": 1 * SECONDS, "lag": 9},
            {"name": "s3", "current": True, "active": 6 * SECONDS},
            {"name": "s4", "current": True, "active": 0, "offline": True},
        )
        status = collector.status()
        assert [tuple(each) for each in status.engine] == [
            ("s1", "http://s1:8222", "2.14.6", True, True, True, 0),
            ("s2", "", "", True, False, False, 9),
            ("s3", "", "", False, False, True, 0),
            ("s4", "", "", False, False, True, 0),
        ]
        assert status.log is not None
        assert (status.log.last, status.log.bytes, status.log.max_bytes) == (100, 50_000, 1 << 20)
        collector._info, collector._silent = None, {facts.url}
        status = collector.status()
        assert [(each.name, each.is_reachable, each.is_leader) for each in status.engine] == [("s1", False, False)]
        assert status.log is None

    run(story, tmp_path)
