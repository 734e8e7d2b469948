"""Two cells make the same dead-letter queue by themselves: they end with one, which has all messages."""

from __future__ import annotations

import pytest

from tests.support.cell_cluster import CellCluster, StoredCell
from tests.support.peer_pair import Client
from tests.support.queue_moves import lives_in, move, where

DLQ = "ActiveMQ.DLQ"
SHARED = {"x-dead-letter-strategy": "shared"}


def source(cells: CellCluster, place: int) -> Client:
    client = cells[place].client()
    client.declare(f"source{place}", durable=True, arguments=SHARED)
    return client


def dead_letter(client: Client, place: int, *bodies: bytes) -> None:
    client.publish(f"source{place}", *bodies, delivery_mode=2)
    for _ in bodies:
        got = client.get(f"source{place}")
        assert got is not None
        client.nack(got.tag, requeue=False)


def taken(cells: CellCluster, place: int = 0) -> list[bytes]:
    client, found = cells[place].client(), []
    while (got := client.get(DLQ, no_ack=True)) is not None:
        found.append(got.body)
    return found


def split(cells: CellCluster) -> tuple[Client, Client]:
    """The first cell is away; the other two make the queue. It is kept in cell 1, which connects first."""
    clients = source(cells, 1), source(cells, 2)
    cells.isolate(cells[0])
    dead_letter(clients[0], 1, b"a", b"b")
    dead_letter(clients[1], 2, b"c", b"d")
    assert where(cells, DLQ) == ["-", "ClassicQueue", "ClassicQueue"]
    return clients


def test_cells_that_make_the_queue_at_once_end_with_one() -> None:
    cells = CellCluster(3)
    clients = source(cells, 1), source(cells, 2)
    with cells.definitions_held(1), cells.definitions_held(2):
        dead_letter(clients[0], 1, b"a")
        dead_letter(clients[1], 2, b"b")
    home = 1 if lives_in(cells, 1, DLQ) else 2
    assert lives_in(cells, home, DLQ)
    for place in (1, 2):
        dead_letter(clients[place - 1], place, b"later")
    assert sorted(taken(cells)) == [b"a", b"b", b"later", b"later"]
    assert not any(cell.vhost.internal.queues for cell in cells.cells)


def test_the_first_cell_keeps_its_queue() -> None:
    cells = CellCluster(3)
    clients = source(cells, 0), source(cells, 2)
    with cells.definitions_held(2):
        dead_letter(clients[0], 0, b"a")
        dead_letter(clients[1], 2, b"b")
    assert lives_in(cells, 0, DLQ)
    assert sorted(taken(cells, 2)) == [b"a", b"b"]


def test_a_queue_that_was_made_twice_while_the_first_cell_was_away_is_merged() -> None:
    cells = CellCluster(3)
    split(cells)
    cells.reconnect(cells[0])
    assert lives_in(cells, 1, DLQ)
    assert taken(cells) == [b"a", b"b", b"c", b"d"]
    assert not any(cell.vhost.internal.queues for cell in cells.cells)
    move(cells, 2, DLQ)
    assert lives_in(cells, 2, DLQ)


def test_consumers_settle_what_they_hold_and_go_on_at_the_other_queue() -> None:
    cells = CellCluster(3)
    clients = split(cells)
    client = cells[2].client()
    client.qos(1)
    client.consume(DLQ)
    assert client.bodies() == [b"c"]
    cells.reconnect(cells[0])
    cells.advance(1)
    assert client.bodies() == []
    dead_letter(clients[1], 2, b"e")
    client.ack(1)
    cells.advance(1)
    assert lives_in(cells, 1, DLQ)
    seen = []
    for tag in range(2, 6):
        seen += client.bodies()
        client.ack(tag)
    assert seen == [b"a", b"b", b"d", b"e"]
    assert taken(cells) == []


def test_messages_that_a_consumer_does_not_settle_are_taken_back() -> None:
    cells = CellCluster(3)
    split(cells)
    client = cells[2].client()
    assert client.get(DLQ) is not None
    cells.reconnect(cells[0])
    cells.advance(10)
    assert lives_in(cells, 1, DLQ)
    assert sorted(taken(cells)) == [b"a", b"b", b"c", b"d"]


def test_messages_wait_while_the_other_cell_cannot_be_reached() -> None:
    cells = CellCluster(3)
    split(cells)
    cells.cut(cells[1], cells[2])
    cells.reconnect(cells[0])
    cells.advance(60)
    assert lives_in(cells, 1, DLQ)
    assert cells[1].queue(DLQ).ready == 2
    cells.connect_queues(cells[2], cells[1])
    cells.advance(120)
    assert taken(cells) == [b"a", b"b", b"c", b"d"]
    assert not any(cell.vhost.internal.queues for cell in cells.cells)


@pytest.mark.parametrize("frames", range(0, 24, 2))
@pytest.mark.parametrize("crashed", [(2,), (0, 1, 2)])
def test_a_crash_loses_no_message(crashed: tuple[int, ...], frames: int) -> None:
    cells = CellCluster(3, has_disks=True)
    split(cells)
    cells.frames_left = frames
    cells.reconnect(cells[0])
    cells.frames_left = None
    cells.crash(*crashed)
    cells.advance(20)
    assert lives_in(cells, 1, DLQ) or lives_in(cells, 2, DLQ)
    assert set(taken(cells)) == {b"a", b"b", b"c", b"d"}
    cells.crash(0, 1, 2)
    for cell in cells.cells:
        assert isinstance(cell, StoredCell)
        names = [row.name for row in cell.store.look()[0].queues]
        assert sorted(names) == [DLQ, "source1", "source2"]


def test_a_queue_that_is_split_and_deleted_is_gone() -> None:
    cells = CellCluster(3)
    split(cells)
    holder = cells[2].client()
    assert holder.get(DLQ) is not None
    cells.reconnect(cells[0])
    cells[1].vhost.delete_queue(DLQ)
    cells.advance(10)
    assert where(cells, DLQ) == ["-"] * 3
