"""Bytes of one member's journal, or of one server's store, are altered or cut off while its process is down."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest

from leveret.store.replica_note import read_note
from tests.support.cell_jobs import publish, queued
from tests.support.cell_load import PARKED
from tests.support.cell_node import Cell, CellNode, until
from tests.support.nats_servers import NatsServers
from tests.support.recorded_publishers import Publisher, Publishers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def cell(own_servers: NatsServers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    made = Cell(tmp_path, own_servers, "".join(filter(str.isalnum, request.node.name))[-40:])
    try:
        made.start()
        yield made
    finally:
        made.end()


def flip(path: Path) -> None:
    """One bit in the first half."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Two thirds."""
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size // 3)


Damage = Callable[[Path], None]


def has_segment(node: CellNode) -> bool:
    """A standby makes the first one when it applies the log."""
    return any((node.data / "journal").glob("*.seg"))


def newest_segment(node: CellNode) -> Path:
    return max((node.data / "journal").glob("*.seg"))


def start_again(node: CellNode, damage: Damage, segment: Path) -> None:
    """After this damage; until it follows."""
    node.kill()
    damage(segment)
    begun = len(node.log())
    node.start()
    until(lambda: "standby of the cell" in node.log()[begun:], 20.0, node.log)


async def publish_until_noted(publisher: Publisher, leader: CellNode, node: CellNode) -> int:
    """Until the node has noted that it has the first messages: it will not apply them again. How many in all."""
    publisher.send(50)
    assert await publisher.take_confirms(50, 20) == 50
    first, sent = newest_segment(leader).stat().st_size, 50
    while (note := read_note(node.data)) is None or note.offset < first:
        publisher.send(1)
        sent += 1
        assert await publisher.take_confirms(sent, 20) == sent
        await asyncio.sleep(0.05)
    return sent


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_member_with_a_damaged_journal_does_not_lose_what_the_others_have(cell: Cell, damage: Damage) -> None:
    async def run() -> None:
        leader = cell.leader()
        damaged, other = cell.standbys()
        async with Publishers(cell) as publishers:
            publisher = await publishers.add(leader)
            confirmed = await publish_until_noted(publisher, leader, damaged)
            await asyncio.to_thread(start_again, damaged, damage, newest_segment(damaged))
            publisher.send(20)
            assert await publisher.take_confirms(confirmed + 20, 20) == confirmed + 20
            other.kill()
            leader.kill()
            damaged.wait_for("this node cannot lead")  # it waits for another one, whose data it copies
            other.start()
            assert await asyncio.to_thread(cell.leader) is other
            await asyncio.to_thread(damaged.wait_for, "data directory was copied")
            other.kill()
            assert await asyncio.to_thread(cell.leader) is damaged
            assert await publishers.violations() == []

    asyncio.run(run())


def test_damage_that_a_leader_finds_when_it_loads_messages_costs_none(cell: Cell) -> None:
    """A take-over does not read segments that a checkpoint covers."""

    async def run() -> None:
        former = cell.leader()
        async with Publishers(cell) as publishers:
            publisher = await publishers.add(former)
            publisher.send(50, 2000)
            assert await publisher.take_confirms(50, 20) == 50
            await asyncio.to_thread(until, lambda: all(map(has_segment, cell.nodes)), 20, cell.logs)
            last = max(newest_segment(node).stem for node in cell.nodes)
            former.kill()
            leader = await asyncio.to_thread(cell.leader)
            damaged = next(node for node in cell.nodes if node not in (former, leader))
            await publish_until_checkpoint(await publishers.add(leader), damaged, last)
            await asyncio.to_thread(start_again, damaged, flip, min((damaged.data / "journal").glob("*.seg")))
            leader.kill()
            await asyncio.to_thread(read, damaged, PARKED)
            await asyncio.to_thread(damaged.wait_for, "this node cannot lead")
            assert " checkpoint=" in damaged.log()  # it has taken over, and has then found the damage
            leader.start()
            assert await publishers.violations() == []
        assert "damaged and lost" not in cell.logs()
        await asyncio.to_thread(damaged.wait_for, "data directory was copied")

    asyncio.run(run())


def test_a_node_without_others_drops_what_is_damaged_and_leads(servers: NatsServers, tmp_path: Path) -> None:
    with Cell(tmp_path, servers, "alone", nodes=1) as cell:
        (node,) = cell.nodes
        node.start()
        cell.leader()
        bodies = publish(node, "a message", 30, size=2000)
        until(lambda: has_noted_all(node), 10.0, node.log)
        node.signal(signal.SIGTERM)
        node.wait()
        spoil(node, bodies[7])
        node.start()
        node.wait_for("this node cannot lead")
        assert queued(cell.leader()) == bodies[:7] + bodies[8:]
        assert "unreadable bytes moved to quarantine" in node.log()


def read(leader: CellNode, queue: str) -> None:
    """What is read shows the damage, and the connection is lost."""
    until(lambda: leader.leads, 60.0, leader.log)
    with suppress(pika.exceptions.AMQPError):
        channel = pika.BlockingConnection(pika.URLParameters(leader.url)).channel()
        while channel.basic_get(queue)[0] is not None:
            pass


def has_noted_all(node: CellNode) -> bool:
    """It will not apply anything again, which would repair it."""
    note = read_note(node.data)
    return note is not None and note.offset == newest_segment(node).stat().st_size


def spoil(node: CellNode, body: bytes) -> None:
    """In the record of the queue, which is in front of that of the stream."""
    for segment in sorted((node.data / "journal").glob("*.seg")):
        if (at := segment.read_bytes().find(body)) >= 0:
            with segment.open("rb+") as file:
                file.seek(at)
                file.write(b"#")
            return
    raise AssertionError("the message is not on disk")


async def publish_until_checkpoint(publisher: Publisher, node: CellNode, last: str) -> None:
    """Until this standby has one of the leader. Those of the former leader are not behind the segment ``last``."""
    sent = 0
    while not [path for path in (node.data / "journal").glob("*.checkpoint") if path.stem > last]:
        publisher.send(1)
        sent += 1
        assert await publisher.take_confirms(sent, 20) == sent
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("damage", [flip, cut])
def test_damage_in_the_store_of_one_server_of_the_engine_is_not_read(
    cell: Cell, own_servers: NatsServers, damage: Damage
) -> None:
    async def run() -> None:
        async with Publishers(cell) as publishers:
            publisher = await publishers.add(cell.leader())
            publisher.send(50)
            assert await publisher.take_confirms(50, 20) == 50
            own_servers.kill(1)
            blocks = list((own_servers.folder / own_servers.name(1)).rglob(f"LEVERET_{cell.name}*/msgs/*.blk"))
            assert blocks
            for block in blocks:
                damage(block)
            own_servers.start(1)
            publisher.send(20)
            assert await publisher.take_confirms(70, 20) == 70
            cell.leader().kill()
            assert await publishers.violations() == []

    asyncio.run(run())
