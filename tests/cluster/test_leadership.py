"""When a leader steps down, by itself or because it must."""

from __future__ import annotations

import asyncio

import pytest

from leveret.cluster import leadership as leadership_module
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine, EngineOptions
from leveret.cluster.leadership import Leadership
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.replication.claims import Claim
from leveret.store.batch import Batch
from leveret.store.stream_log import StreamLog
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog, until
from tests.support.cell_ports import free_ports
from tests.support.nats_servers import NatsServers

CLAIM = Claim(1, 1, 1, "a", "life of a")
HOLDER = LeaseHolder("a", "life of a", 1)
OTHER = LeaseHolder("b", "life of b", 2)


class Deliveries:
    """Of the leader's broker."""

    def __init__(self) -> None:
        self.paused: str | None = None
        self.calls: list[tuple[float, float | None]] = []  # when, and until when; None: paused

    def pause(self, reason: str) -> None:
        self.paused = reason
        self.calls.append((asyncio.get_running_loop().time(), None))

    def resume(self, until: float) -> None:
        self.paused = None
        self.calls.append((asyncio.get_running_loop().time(), until))


class Local:
    """The writer of the leader's journal, which is done at once."""

    def __init__(self, leadership: Leadership) -> None:
        self.finished: list[Batch] = []
        self.given_up: str | None = None
        self._replicator = leadership.replicator
        self._replicator.start(self, StreamLog())

    def submit(self, batch: Batch) -> None:
        asyncio.get_running_loop().call_soon(self._replicator.written, batch)

    def submit_later(self) -> None:
        pass

    def wait_for_acks(self) -> None:
        pass

    def finish(self, batch: Batch) -> None:
        self.finished.append(batch)

    def give_up(self, reason: str) -> None:
        self.given_up = reason

    def write(self, data: bytes) -> Batch:
        batch = Batch(0)
        batch.write(1, [data])
        self._replicator.submit(batch)
        return batch


async def leadership_of(cell: CellLog, ttl: int = 5) -> tuple[Leadership, Local, Lease]:
    """Of a node that has claimed, and has the lease."""
    member = cell.member("a")
    await until(lambda: member.is_caught_up)
    claim = await cell.claim(member)
    connection, lease = await cell.connect(), Lease(cell.stream, ttl)
    revision = await lease.acquire(connection, HOLDER)
    assert revision is not None
    leadership = Leadership(Engine(cell.options, "a"), cell.stream, claim, lease, revision, Deliveries())
    return leadership, Local(leadership), lease


def test_batches_are_finished_when_the_engine_has_them(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, local, _ = await leadership_of(cell)
        running = asyncio.create_task(leadership.run())
        batches = [local.write(b"%d" % n) for n in range(30)]
        await until(lambda: local.finished[-1:] == batches[-1:])
        assert [batch for batch in local.finished if batch not in batches] == []
        assert len(await cell.all_batches()) <= 30  # packed while the engine was busy
        applied = leadership.replicator.applied
        assert applied is not None
        assert applied.position.batch == len(await cell.all_batches())
        leadership.step_down("enough")
        assert await running == "enough"

    play(servers, story)


def test_a_leader_steps_down_when_another_node_has_claimed(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, local, _ = await leadership_of(cell)
        running = asyncio.create_task(leadership.run())
        await cell.lead("b")
        local.write(b"late")
        assert "epoch 2 was claimed by another node" in await running
        assert local.finished == []
        assert local.given_up is not None

    play(servers, story)


def test_a_leader_keeps_its_lease_and_steps_down_when_it_is_lost(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, _, lease = await leadership_of(cell, ttl=4)
        connection = await cell.connect()
        held = await lease.read(connection)
        running = asyncio.create_task(leadership.run())
        assert held is not None
        first = held.revision
        while held is not None and held.revision < first + 17:  # renewed for longer than it lives
            held = await lease.read(connection)
        assert held is not None
        assert held.holder == HOLDER
        while True:  # as if this node had been stopped for a while
            held = await lease.read(connection)
            assert held is not None
            if await lease.renew(connection, OTHER, held.revision) is not None:
                break
        assert await running == "another node has the lease"

    play(servers, story)


def test_a_leader_goes_on_when_an_earlier_renewal_is_stored_late(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, _, lease = await leadership_of(cell)
        connection = await cell.connect()
        running = asyncio.create_task(leadership.run())
        late = None
        while late is None:  # until it is stored between two renewals
            held = await lease.read(connection)
            assert held is not None
            late = await lease.renew(connection, HOLDER, held.revision)
        while held is not None and held.revision < late + 3 and not running.done():
            held = await lease.read(connection)
        assert not running.done()
        leadership.step_down("enough")
        assert await running == "enough"

    play(servers, story)


def test_a_leader_steps_down_when_its_disk_fails(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, local, _ = await leadership_of(cell)
        running = asyncio.create_task(leadership.run())
        leadership.replicator.failed(OSError(28, "No space left on device"))
        local.write(b"late")
        assert await running == "the disk of this node failed (No space left on device)"
        assert local.finished == []

    play(servers, story)


def test_a_leader_steps_down_after_an_internal_error(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, local, _ = await leadership_of(cell)

        def fail(batch: Batch) -> None:
            raise ValueError("broken")

        local.finish = fail  # type: ignore[method-assign]
        running = asyncio.create_task(leadership.run())
        local.submit = lambda batch: leadership.replicator.written(batch)  # type: ignore[method-assign]
        local.write(b"one")
        assert await running == "internal error (ValueError('broken'))"

    play(servers, story)


def test_a_leader_releases_its_lease(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leadership, _, lease = await leadership_of(cell)
        await leadership.release()
        assert await lease.acquire(await cell.connect(), OTHER) is not None

    play(servers, story)


@pytest.mark.parametrize("has_written", [False, True])
def test_a_leader_without_the_engine_steps_down_before_its_lease_is_over(has_written: bool) -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        engine, stream = Engine(EngineOptions((f"nats://127.0.0.1:{port}",)), "a"), CellStream.of("gone")
        lease, deliveries = Lease(stream, 1), Deliveries()
        leadership = Leadership(engine, stream, CLAIM, lease, 1, deliveries)
        local = Local(leadership)
        begun = asyncio.get_running_loop().time()
        running = asyncio.create_task(leadership.run())
        if has_written:
            local.write(b"never granted")
        assert "the engine has not answered for 1 seconds" in await running
        assert asyncio.get_running_loop().time() - begun >= lease.step_down_after
        assert local.finished == []
        assert deliveries.paused == "the replicated log does not answer"
        ends = [until for _, until in deliveries.calls if until is not None]
        assert max(ends) < begun + lease.pause_after + 0.1
        assert all(when >= max(ends) for when, until in deliveries.calls if until is None)

    asyncio.run(story())


def test_an_idle_leader_steps_down_when_the_log_is_deleted(
    servers: NatsServers, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_module, "CHECK_LOG_EVERY", 0.1)

    async def story(cell: CellLog) -> None:
        leadership, _, _ = await leadership_of(cell)
        running = asyncio.create_task(leadership.run())
        connection = await cell.connect()
        await connection.request(f"$JS.API.STREAM.DELETE.{cell.stream.name}")
        assert "is not in the engine any more" in await asyncio.wait_for(running, 10)

    play(servers, story)


def test_a_leader_that_appends_while_the_log_is_checked_goes_on(
    servers: NatsServers, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership_module, "CHECK_LOG_EVERY", 0.001)
    monkeypatch.setattr(leadership_module, "LOOK_EVERY", 0.001)

    async def story(cell: CellLog) -> None:
        leadership, local, _ = await leadership_of(cell)
        running = asyncio.create_task(leadership.run())
        for n in range(150):
            batch = local.write(b"%d" % n)
            await until(lambda batch=batch: running.done() or batch in local.finished[-1:])
        assert not running.done(), running.result()
        leadership.step_down("enough")
        await running

    play(servers, story)
