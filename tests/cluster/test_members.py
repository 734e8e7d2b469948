"""The members of a cell and its secret, in the bucket of real servers."""

from __future__ import annotations

from leveret.cluster import bucket
from leveret.cluster.members import SECRET_SIZE, Member, Members
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog
from tests.support.nats_servers import NatsServers

ANN = Member("leveret@ann.example", "ann.example", 25672, "life 1", "1.0", {"amqp": "amqp://ann.example:5672"})
BOB = Member("bob", "10.0.0.2", 25672, "life 2", "1.0")


def test_members_enter_change_and_are_removed(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        members, connection = Members(cell.stream), await cell.connect()
        assert await members.all(connection) == []
        await members.enter(connection, BOB)
        await members.enter(connection, ANN)
        assert await members.all(connection) == [BOB, ANN]
        assert await members.find(connection, ANN.node) == ANN
        moved = Member(BOB.node, "10.0.0.3", 1, "life 3", "1.1")
        await members.enter(connection, moved)
        await members.remove(connection, ANN.node)
        assert await members.all(connection) == [moved]
        assert await members.find(connection, ANN.node) is None

    play(servers, story)


def test_the_first_node_makes_the_secret(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        members, connection = Members(cell.stream), await cell.connect()
        secret = await members.secret(connection)
        assert len(secret) == SECRET_SIZE
        assert await members.secret(await cell.connect()) == secret

    play(servers, story)


def test_a_key_is_written_only_at_the_expected_revision(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection, key = await cell.connect(), f"{cell.stream.cell}.key"
        first = await bucket.write(connection, key, b"one", revision=0)
        assert first is not None
        assert await bucket.write(connection, key, b"two", revision=0) is None
        second = await bucket.write(connection, key, b"two", revision=first)
        assert second is not None
        assert await bucket.read(connection, key) == (b"two", second)
        await bucket.delete(connection, key)
        assert await bucket.read(connection, key) is None

    play(servers, story)
