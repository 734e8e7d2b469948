"""How a member takes over and steps down, with an engine and a broker that are not real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leveret.cluster import cell_member
from leveret.cluster.cell_member import CellMember, ClaimLost, Identity
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import EngineOptions, EngineUnavailable
from leveret.cluster.leader_watch import StandbyReport
from leveret.cluster.lease import HeldLease, Lease, LeaseHolder
from leveret.errors import ClusterError
from leveret.replication.claims import Claim, Position
from leveret.replication.journal_replicator import JournalReplicator

STREAM = CellStream.of("orders")
CLAIM = Claim(5, 100, 90, "a", "life of a")
OTHER = LeaseHolder("b", "life of b", 6)


class FakeConnection:
    server, url, max_payload = "", "nats://fake", 1 << 20

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def new_inbox(self) -> str:
        return "inbox"

    async def request(self, subject: str, body: object = None, seconds: float = 2.0) -> object:
        raise EngineUnavailable("no leader")

    async def receive(self, subject: str, call: object) -> None:
        pass

    async def close(self) -> None:
        pass


class FakeEngine:
    options = EngineOptions(())

    async def connect(self) -> FakeConnection:
        return FakeConnection()


class MemoryLease(Lease):
    def __init__(self) -> None:
        super().__init__(STREAM)
        self.held: HeldLease | None = None
        self.renewals = 0
        self.writing: asyncio.Event | None = None  # set by a renewal, which then swallows a cancellation, as nats-py

    async def read(self, connection: object) -> HeldLease | None:
        return self.held

    async def _write(self, connection: object, holder: LeaseHolder, revision: int) -> int | None:
        if revision != (0 if self.held is None else self.held.revision):
            return None
        self.renewals += not holder.is_released
        if self.writing is not None and not holder.is_released:
            self.writing.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            await asyncio.sleep(0.3)
        self.held = HeldLease(holder, revision + 1)
        return revision + 1


class FakeMembers:
    async def follow(self, connection: object, log: str) -> None:
        pass


class FakeBroker:
    """``stop`` fails, as it does when a port of this node is used by another process meanwhile."""

    checkpoint = 0
    takes_checkpoints = False
    fails = False
    may_start: asyncio.Event | None = None  # at once without it

    def take_checkpoint(self) -> bool:
        return self.takes_checkpoints

    async def start(self, replicator: JournalReplicator) -> None:
        if self.may_start is not None:
            await self.may_start.wait()

    async def stop(self) -> None:
        if self.fails:
            raise ClusterError("the port is in use")

    def pause(self, reason: str) -> None:
        pass

    def resume(self, until: float) -> None:
        pass


class FakeStandby:
    has_base, is_caught_up, may_claim, behind = False, True, True, 0

    def __init__(self) -> None:
        self.won: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()
        self.position = Position(99, 4, 89)


class Member(CellMember):
    def __init__(self, folder: Path) -> None:
        self.broker = FakeBroker()
        super().__init__(FakeEngine(), STREAM, folder, Identity("a", "life of a"), lambda: self.broker)  # type: ignore[arg-type]
        self.lease = self._lease = MemoryLease()
        self._members = FakeMembers()  # type: ignore[assignment]

    async def lead(self) -> None:
        self.lease.held = HeldLease(LeaseHolder("a", "life of a", 5), 1)
        self._succession.may_lead(None, 4, 0.0)
        await self._lead(CLAIM, 1)

    async def look(self, standby: FakeStandby) -> Any:
        return await self._look(FakeConnection(), standby)  # type: ignore[arg-type]


def play(story: Callable[[Member], Awaitable[None]], folder: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await story(Member(folder))

    asyncio.run(run())


def test_a_leader_that_stops_releases_its_lease(tmp_path: Path) -> None:
    async def story(member: Member) -> None:
        leading = asyncio.create_task(member.lead())
        await member.leads.wait()
        member.stop()
        await leading
        assert member.lease.held is not None
        assert member.lease.held.holder.is_released

    play(story, tmp_path)


def test_a_leader_whose_broker_does_not_stop_releases_its_lease(tmp_path: Path) -> None:
    """Otherwise it would renew the lease for ever, and no node would lead."""

    async def story(member: Member) -> None:
        member.broker.fails = True
        leading = asyncio.create_task(member.lead())
        await member.leads.wait()
        member.stop()
        with pytest.raises(ClusterError, match="the port is in use"):
            await leading
        assert member.lease.held is not None
        assert member.lease.held.holder.is_released
        assert member.leadership is None

    play(story, tmp_path)


def test_a_renewal_that_is_not_cancelled_at_once_is_the_last(tmp_path: Path) -> None:
    """Otherwise this node would keep the lease and never lead."""

    async def story(member: Member) -> None:
        member.lease.writing = asyncio.Event()
        leading = asyncio.create_task(member.lead())
        await member.lease.writing.wait()
        member.stop()
        await leading
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert member.lease.held is not None
        assert member.lease.held.holder.is_released

    play(story, tmp_path)


def test_a_second_hand_over_is_refused(tmp_path: Path) -> None:
    async def story(member: Member) -> None:
        leading = asyncio.create_task(member.lead())
        await member.leads.wait()
        report = StandbyReport(Position(100, 5, 89), asyncio.get_running_loop().time())
        member.beats.reports |= {"b": report, "c": report}
        assert await member.hand_over("b") == "b"
        with pytest.raises(ClusterError, match="handing over to 'b' already"):
            await member.hand_over("c")
        await leading
        assert member.lease.held is not None
        assert member.lease.held.holder.successor == "b"

    play(story, tmp_path)


def test_a_node_that_is_taking_over_hands_over_when_it_leads(tmp_path: Path) -> None:
    """The other cells see it as the leader before its ports are open."""

    async def story(member: Member) -> None:
        member.broker.may_start = asyncio.Event()
        leading = asyncio.create_task(member.lead())
        member.beats.reports["b"] = StandbyReport(Position(100, 5, 89), asyncio.get_running_loop().time())
        handing = asyncio.create_task(member.hand_over("b"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert member.leadership is not None
        assert not handing.done()
        member.broker.may_start.set()
        assert await handing == "b"
        await leading

    play(story, tmp_path)


def test_a_node_that_does_not_lead_refuses_to_hand_over(tmp_path: Path) -> None:
    async def story(member: Member) -> None:
        with pytest.raises(ClusterError, match="this node does not lead"):
            await member.hand_over("b")

    play(story, tmp_path)


def test_a_leader_hands_over_when_the_successor_has_a_new_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_member, "LOOK_FOR_CHECKPOINT", 0.0)

    async def story(member: Member) -> None:
        member.broker.takes_checkpoints, member.broker.checkpoint = True, 7
        leading = asyncio.create_task(member.lead())
        await member.leads.wait()
        report = StandbyReport(Position(100, 5, 89), asyncio.get_running_loop().time(), checkpoint=7)
        member.beats.reports["b"] = report
        await member.hand_over("b")
        for written, copied in ((7, 7), (9, 7)):
            member.broker.checkpoint = written
            member.beats.reports["b"] = report._replace(checkpoint=copied)
            for _ in range(20):
                await asyncio.sleep(0)
            assert member.leads.is_set()
        member.beats.reports["b"] = report._replace(checkpoint=9)
        await leading
        assert member.lease.held is not None
        assert member.lease.held.holder.successor == "b"

    play(story, tmp_path)


def test_a_claim_that_is_stored_late_counts_if_no_other_follows(tmp_path: Path) -> None:
    """Without another claim: that would end the epoch of the first."""

    async def story(member: Member) -> None:
        standby = FakeStandby()
        standby.won.set_result(CLAIM)
        standby.position = Position(100, 5, 89)
        won = await member.look(standby)
        assert won == (CLAIM, 1)

    play(story, tmp_path)


def test_a_claim_that_is_stored_late_and_was_overtaken_is_lost(tmp_path: Path) -> None:
    """Nothing is applied after an own claim: the member would neither lead nor follow."""

    async def story(member: Member) -> None:
        standby = FakeStandby()
        standby.won.set_result(CLAIM)
        standby.position = Position(120, 6, 89)
        member.lease.held = HeldLease(OTHER, 3)
        with pytest.raises(ClaimLost):
            await member.look(standby)
        member.watch.close()

    play(story, tmp_path)


def test_a_member_that_cannot_claim_lets_others_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may read the log from a server that is behind."""

    async def refused(*arguments: object) -> bool:
        return False

    monkeypatch.setattr(cell_member, "append_claim", refused)
    monkeypatch.setattr(cell_member, "CLAIM_SECONDS", 0.01)

    async def story(member: Member) -> None:
        with pytest.raises(EngineUnavailable, match="not in the log"):
            await member.look(FakeStandby())
        assert member.lease.held is not None
        assert member.lease.held.holder.is_released
        assert await member.look(FakeStandby()) is None  # for a while

    play(story, tmp_path)
