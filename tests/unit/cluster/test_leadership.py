"""When a leader pauses its deliveries and when it steps down, by the time for which the engine has not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from leveret.cluster.cell_stream import CellStream, Founding, LogFacts
from leveret.cluster.engine import EngineUnavailable
from leveret.cluster.leadership import Leadership
from leveret.cluster.lease import HeldLease, Lease, LeaseHolder
from leveret.replication.claims import Claim, Position
from leveret.store.batch import Batch
from leveret.store.stream_log import StreamLog

CLAIM = Claim(1, 1, 1, "a", "life of a")
OTHER = LeaseHolder("b", "life of b", 2)
STREAM = CellStream.of("cell")


class FakeConnection:
    async def close(self) -> None:
        pass


class FakeEngine:
    async def connect(self) -> FakeConnection:
        return FakeConnection()


class FakeLease(Lease):
    """Answers after ``seconds`` of the test's time, unless ``is_lost``."""

    def __init__(self, clock: ManualTime) -> None:
        super().__init__(STREAM)
        self.clock = clock
        self.seconds = 0.0
        self.is_lost = False
        self.held: HeldLease | None = None
        self.late = 0  # renewals that were sent, and are not stored yet

    async def acquire(self, connection: object, holder: LeaseHolder) -> int | None:
        self.clock.now += self.seconds
        return None if self.is_lost else 1

    async def renew(self, connection: object, holder: LeaseHolder, revision: int) -> int | None:
        return await self.acquire(connection, holder)

    async def read(self, connection: object) -> HeldLease | None:
        return self.held

    async def release(self, connection: object, holder: LeaseHolder, revision: int, successor: str = "") -> bool:
        assert self.held is not None
        if self.late:  # a renewal is stored
            self.held, self.late = self.held._replace(revision=self.held.revision + 1), self.late - 1
        if revision != self.held.revision:
            return False
        self.held = HeldLease(holder._replace(is_released=True, successor=successor), revision + 1)
        return True


class ManualTime:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeDeliveries:
    def __init__(self) -> None:
        self.until: float | None = None
        self.reason: str | None = None

    def pause(self, reason: str) -> None:
        self.until, self.reason = None, reason

    def resume(self, until: float) -> None:
        self.until, self.reason = until, None


class Cell(NamedTuple):
    leadership: Leadership
    lease: FakeLease
    deliveries: FakeDeliveries
    clock: ManualTime

    def look(self) -> float | str | None:
        """The time until which messages are delivered, None during a pause, or whether the leader stepped down."""
        self.leadership.look(self.clock.now)
        if self.leadership.replicator.is_stopped:
            return "stepped down"
        assert (self.deliveries.reason is None) != (self.deliveries.until is None)
        return self.deliveries.until

    def write(self) -> None:
        batch = Batch(0)
        batch.write(1, [b"data"])
        self.leadership.replicator.submit(batch)


class NoWriter:
    def submit(self, batch: Batch) -> None:
        pass

    def give_up(self, reason: str) -> None:
        pass


def play(story: Callable[[Cell], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock, deliveries = ManualTime(), FakeDeliveries()
        lease = FakeLease(clock)
        with monkeypatch.context() as patches:
            patches.setattr(asyncio.get_running_loop(), "time", clock)
            leadership = Leadership(FakeEngine(), STREAM, CLAIM, lease, 1, deliveries)  # type: ignore[arg-type]
            leadership.replicator.start(NoWriter(), StreamLog())  # type: ignore[arg-type]
            await story(Cell(leadership, lease, deliveries, clock))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("seconds", "found"),
    [(0.0, 103.0), (2.9, 103.0), (3.0, None), (11.9, None), (12.1, "stepped down")],
)
@pytest.mark.parametrize("writes", [True, False])
def test_silence_of_the_engine(
    monkeypatch: pytest.MonkeyPatch, seconds: float, found: float | str | None, writes: bool
) -> None:
    async def story(cell: Cell) -> None:
        if writes:
            cell.write()
        cell.clock.now += seconds
        assert cell.look() == found

    play(story, monkeypatch)


def test_renewals_are_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cell: Cell) -> None:
        for _ in range(20):
            cell.clock.now += cell.lease.renew_every
            await cell.leadership.renew()
            assert cell.look() == cell.clock.now + 3.0

    play(story, monkeypatch)


def test_renewals_do_not_hide_that_the_log_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cell: Cell) -> None:
        cell.write()
        found = []
        for _ in range(13):
            cell.clock.now += 1.0
            await cell.leadership.renew()
            found.append(cell.look())
        assert found == [103.0, 103.0, *[None] * 10, "stepped down"]

    play(story, monkeypatch)


def test_an_answer_counts_from_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that was stopped between the two finds the answer when it continues."""

    async def story(cell: Cell) -> None:
        cell.lease.seconds = 4.0
        await cell.leadership.renew()
        assert cell.look() is None
        cell.lease.seconds = 0.5
        await cell.leadership.renew()
        assert cell.look() == 104.0 + 3.0

    play(story, monkeypatch)


@pytest.mark.parametrize(
    ("holder", "found"),
    [(None, "stepped down"), (OTHER, "stepped down"), (LeaseHolder("a", "life of a", 1), 103.0)],
    ids=["over", "of another node", "renewed late"],
)
def test_a_lease_with_another_revision(
    monkeypatch: pytest.MonkeyPatch, holder: LeaseHolder | None, found: float | str
) -> None:
    async def story(cell: Cell) -> None:
        cell.lease.is_lost = True
        cell.lease.held = None if holder is None else HeldLease(holder, 7)
        if found == "stepped down":
            await cell.leadership.renew()
        else:
            with pytest.raises(EngineUnavailable, match="stored late"):
                await cell.leadership.renew()
        assert cell.look() == found

    play(story, monkeypatch)


@pytest.mark.parametrize(("revision", "late"), [(1, 0), (2, 0), (1, 1), (2, 1)])
def test_a_lease_is_released_although_a_renewal_was_under_way(
    monkeypatch: pytest.MonkeyPatch, revision: int, late: int
) -> None:
    """The task that renews it is cancelled, and does not learn the revision."""

    async def story(cell: Cell) -> None:
        cell.lease.held, cell.lease.late = HeldLease(LeaseHolder("a", "life of a", 1), revision), late
        await cell.leadership.release("b")
        assert cell.lease.held.holder.is_released
        assert cell.lease.held.holder.successor == "b"

    play(story, monkeypatch)


def test_the_lease_of_another_node_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cell: Cell) -> None:
        cell.lease.held = HeldLease(OTHER, 1)
        await cell.leadership.release()
        assert cell.lease.held == HeldLease(OTHER, 1)

    play(story, monkeypatch)


class GrowingLog:
    """A log to which the leader appends while it is read. ``lacks``: records that the engine has lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.last = 50
        self.lacks = 0
        monkeypatch.setattr("leveret.cluster.leadership.read_log", self._read)
        monkeypatch.setattr(Leadership, "position", property(lambda _: Position(self.last, 1, self.last)))

    async def _read(self, connection: object, stream: CellStream) -> LogFacts:
        found = LogFacts(stream, 1, self.last - self.lacks, Founding())
        self.last += 10
        return found


def test_a_log_that_grows_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cell: Cell) -> None:
        GrowingLog(monkeypatch)
        await cell.leadership.renew()
        for _ in range(3):
            await cell.leadership.look_at_log()
        assert not cell.leadership.replicator.is_stopped

    play(story, monkeypatch)


def test_a_leader_steps_down_when_the_log_was_found_to_be_lost_twice_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cell: Cell) -> None:
        log = GrowingLog(monkeypatch)
        await cell.leadership.renew()
        for lacks in (1, 0, 1):
            log.lacks = lacks
            await cell.leadership.look_at_log()
            assert not cell.leadership.replicator.is_stopped
        await cell.leadership.look_at_log()
        assert cell.leadership.replicator.is_stopped

    play(story, monkeypatch)
