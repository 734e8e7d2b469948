"""The lease of a cell's leader in the engine's bucket."""

from __future__ import annotations

from leveret.cluster.lease import HeldLease, Lease, LeaseHolder
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog
from tests.support.nats_servers import NatsServers

ANN = LeaseHolder("ann", "ann 1", 3)
BOB = LeaseHolder("bob", "bob 1", 4)


def test_a_lease_has_one_holder(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection, lease = await cell.connect(), Lease(cell.stream)
        assert await lease.read(connection) is None
        revision = await lease.acquire(connection, ANN)
        assert revision is not None
        assert await lease.acquire(connection, BOB) is None
        assert await lease.read(connection) == HeldLease(ANN, revision)
        renewed = await lease.renew(connection, ANN._replace(epoch=5), revision)
        assert renewed is not None
        assert await lease.read(connection) == HeldLease(ANN._replace(epoch=5), renewed)
        assert await lease.renew(connection, ANN, revision) is None  # an old revision

    play(servers, story)


def test_a_holder_whose_request_was_not_answered_finds_its_lease(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection, lease = await cell.connect(), Lease(cell.stream)
        first = await lease.acquire(connection, ANN)
        second = await lease.acquire(connection, ANN)
        assert first is not None
        assert second is not None
        assert second > first

    play(servers, story)


def test_a_restarted_node_does_not_have_the_lease_of_its_former_run(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection, lease = await cell.connect(), Lease(cell.stream)
        await lease.acquire(connection, ANN)
        assert await lease.acquire(connection, ANN._replace(life="ann 2")) is None

    play(servers, story)


def test_a_released_lease_can_be_acquired_at_once(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection, lease = await cell.connect(), Lease(cell.stream)
        revision = await lease.acquire(connection, ANN)
        assert revision is not None
        assert await lease.release(connection, ANN, revision)
        assert not await lease.release(connection, ANN, revision)
        assert await lease.acquire(connection, BOB) is not None

    play(servers, story)


def test_a_lease_that_is_not_renewed_is_over(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection, lease = await cell.connect(), Lease(cell.stream, ttl=1)
        revision = await lease.acquire(connection, ANN)
        assert revision is not None
        held: HeldLease | None = HeldLease(ANN, revision)
        while held is not None:  # the test's own time limit ends this
            held = await lease.read(connection)
        assert await lease.renew(connection, ANN, revision) is None
        assert await lease.acquire(connection, BOB) is not None

    play(servers, story)
