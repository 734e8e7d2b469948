"""Connections are lost and cells crash at every step of a move: the queue is in one cell, with all its messages."""

from __future__ import annotations

import pytest

from leveret.cells.queue_moves import DONE, FAILED
from leveret.wire.methods import QueueDelete
from tests.support.cell_cluster import CellCluster, StoredCell
from tests.support.peer_pair import Content
from tests.support.queue_moves import LONG, begin, bodies, client_bodies, contents, lives_in, move, where


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3)


def holders(cells: CellCluster) -> list[int]:
    """The cells that have messages of the queue."""
    return [place for place, cell in enumerate(cells.cells) if cell.vhost.queues["q"].backlog is not None]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("frames", range(30))
@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (0, 2)])
def test_connections_that_are_lost_leave_the_queue_in_one_cell(
    cells: CellCluster, one: int, other: int, frames: int, durable: bool
) -> None:
    owner = cells[1].client()
    owner.declare("q", durable=durable)
    owner.publish("q", *bodies(40), delivery_mode=2)
    started = begin(cells, 2)
    cells.frames_left = frames
    cells.rest()
    cells.advance(0.1)
    cells.frames_left = None
    cells.cut(cells[one], cells[other])
    if one == 0:
        cells.connect_definitions(cells[other])
    cells.connect_queues(cells[one], cells[other])
    cells.connect_queues(cells[other], cells[one])
    cells.advance(LONG)
    assert started.is_over
    assert holders(cells) == [2 if started.state == DONE else 1]
    cells[0].client().publish("q", b"last but one")
    cells[2].client().publish("q", b"last")
    assert client_bodies(cells, "q") == [*bodies(40), b"last but one", b"last"]
    move(cells, 0)
    assert lives_in(cells, 0)


def test_a_cell_that_was_away_follows_the_queue_with_its_consumers(cells: CellCluster) -> None:
    cells[0].client().declare("q", durable=True)
    consumer = cells[2].client()
    consumer.consume("q", no_ack=True)
    cells.cut(cells[0], cells[2])
    move(cells, 1)
    cells.connect_definitions(cells[2])
    cells.rest()
    assert lives_in(cells, 1)
    cells[1].client().publish("q", b"hello")
    (delivered,) = consumer.heard()
    assert isinstance(delivered, Content)


def test_there_are_moves_that_a_lost_connection_stops_and_others() -> None:
    """The test above is about both."""
    states = set()
    for frames in (2, 25):
        cells = CellCluster(3)
        cells[1].client().declare("q", durable=True)
        started = begin(cells, 2)
        cells.frames_left = frames
        cells.rest()
        cells.frames_left = None
        cells.cut(cells[1], cells[2])
        cells.advance(LONG)
        states.add(started.state)
    assert states == {DONE, FAILED}


@pytest.mark.parametrize("frames", range(36))
@pytest.mark.parametrize("crashed", [(1,), (2,), (0, 1, 2)])
def test_a_crash_leaves_the_queue_in_one_cell(crashed: tuple[int, ...], frames: int) -> None:
    cells = CellCluster(3, has_disks=True)
    owner = cells[1].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(40), delivery_mode=2)
    begin(cells, 2)
    cells.frames_left = frames
    cells.rest()
    cells.advance(0.1)
    cells.frames_left = None
    cells.crash(*crashed)
    cells.advance(LONG)
    (home,) = holders(cells)
    assert home in (1, 2)
    assert cells[0].queue_moves is not None
    assert cells[0].queue_moves.home(cells[0].vhost.queues["q"]) == f"c{home + 1}"
    assert not any(cell.vhost.internal.queues for cell in cells.cells)
    cells[0].client().publish("q", b"last", delivery_mode=2)
    assert client_bodies(cells, "q") == [*bodies(40), b"last"]
    move(cells, 0)
    assert lives_in(cells, 0)
    cells.crash(0, 1, 2)
    assert lives_in(cells, 0)
    for cell in cells.cells:
        assert isinstance(cell, StoredCell)
        assert [row.name for row in cell.store.look()[0].queues] == ["q"]


def test_messages_that_are_on_disk_only_are_moved_with_their_marks() -> None:
    cells = CellCluster(3, has_disks=True)
    owner = cells[1].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(2_500), delivery_mode=2)
    owner.qos(20)
    owner.consume("q")
    cells.crash(1)
    assert cells[1].queue("q").lane.paged == 2_500
    cells[1].client().publish("q", b"last", delivery_mode=2)
    move(cells, 2)
    assert cells[1].vhost.queues["q"].home is not None
    cells.crash(2)
    client = cells[0].client()
    client.consume("q", no_ack=True)
    got = contents(client)
    assert [each.body for each in got] == [*bodies(2_500), b"last"]
    assert all(each.redelivered for each in got[:20])  # as after a crash without a move


@pytest.mark.parametrize("frames", range(12))
def test_a_move_that_has_failed_in_the_first_cell_only_leaves_the_queue_where_it_is(
    cells: CellCluster, frames: int
) -> None:
    """The loss of a former connection was noticed late."""
    owner = cells[1].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(40))
    started = begin(cells, 2)
    cells.frames_left = frames
    cells.rest()
    assert cells[0].queue_moves is not None
    cells[0].queue_moves.left("c2")
    cells.frames_left = None
    cells.advance(LONG)
    assert (started.state, lives_in(cells, 1), lives_in(cells, 2)) in [(FAILED, True, False), (DONE, False, True)]
    assert client_bodies(cells, "q") == bodies(40)


def test_a_queue_that_is_deleted_in_its_new_cell_before_the_former_one_knows_that_it_has_moved_is_gone(
    cells: CellCluster,
) -> None:
    owner = cells[1].client()
    owner.declare("q", durable=True)
    owner.publish("q", *bodies(5))
    begin(cells, 2)
    while cells[2].vhost.queues["q"].home is not None:
        cells.frames_left = 1
        cells.rest()
        cells.advance(0.05)
    cells.frames_left = None
    cells.cut(cells[0], cells[1])
    cells[2].client().ask(QueueDelete("q"))
    cells.connect_definitions(cells[1])
    cells.advance(LONG)
    assert where(cells, "q") == ["-"] * 3
    assert cells[0].client().declare("q", durable=True).message_count == 0
