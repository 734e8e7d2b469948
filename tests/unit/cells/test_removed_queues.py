"""Queues that their home cell deletes while it cannot reach the first cell."""

from __future__ import annotations

import pytest

from leveret.cells.removed_queues import REMOVED
from leveret.wire.methods import BasicAck, BasicNack, ConfirmSelect, QueueBind, QueueDeclare, QueueDelete, QueueDeleteOk
from tests.support.cell_cluster import CellCluster
from tests.support.cell_wires import DefinitionWire
from tests.support.queue_moves import lives_in, where


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3)


def test_a_publish_to_a_queue_that_is_gone_does_not_delay_others_while_the_first_cell_is_away(
    cells: CellCluster,
) -> None:
    owner = cells[2].client()
    owner.declare("gone", durable=True)
    owner.declare("q", durable=True)
    cells.isolate(cells[0])
    assert owner.ask(QueueDelete("gone")) == QueueDeleteOk(0)
    late, other = cells[1].client(), cells[1].client()
    for client, queue in ((late, "gone"), (other, "q")):
        client.ask(ConfirmSelect())
        client.publish(queue, b"x")
    assert other.heard() == [BasicAck(1)]
    assert late.heard() == [BasicNack(1, requeue=False)]


def test_a_publish_that_waits_for_the_first_cell_is_answered_when_that_is_lost(cells: CellCluster) -> None:
    """Its queue may have been declared just now; the first cell does not answer any more."""
    owner = cells[2].client()
    owner.declare("gone", durable=True)
    owner.declare("q", durable=True)
    with cells.definitions_held(1), cells.definitions_held(2):
        owner.ask(QueueDelete("gone"))
        late, other = cells[1].client(), cells[1].client()
        for client, queue in ((late, "gone"), (other, "q")):
            client.ask(ConfirmSelect())
            client.publish(queue, b"x")
        assert other.heard() == []
        cells.isolate(cells[0])
    assert other.heard() == [BasicAck(1)]
    assert late.heard() == [BasicNack(1, requeue=False)]


@pytest.mark.parametrize("place", [0, 2])
def test_a_queue_that_is_deleted_while_the_first_cell_is_away_stays_deleted(cells: CellCluster, place: int) -> None:
    """``place``: the cell that is isolated."""
    owner = cells[2].client()
    owner.declare("q", durable=True)
    owner.ask(QueueBind("q", "amq.fanout", ""))
    cells.isolate(cells[place])
    assert owner.ask(QueueDelete("q")) == QueueDeleteOk(0)
    cells.reconnect(cells[place])
    assert where(cells, "q") == ["-"] * 3
    assert not any(cell.vhost.bindings.of_source("amq.fanout") for cell in cells.cells)
    assert cells[2].vhost.parameters.names(REMOVED) == []
    owner.declare("q", durable=True)
    assert lives_in(cells, 2)
    cells.isolate(cells[2])
    cells.reconnect(cells[2])
    assert lives_in(cells, 2)


def test_a_deletion_that_the_first_cell_has_not_stored_is_reported_again(cells: CellCluster) -> None:
    """The connection is lost before the report has arrived."""
    owner = cells[2].client()
    owner.declare("q", durable=True)
    with cells.definitions_held(2):
        owner.ask(QueueDelete("q"))
        cells.isolate(cells[2])
    cells.reconnect(cells[2])
    assert where(cells, "q") == ["-"] * 3
    assert cells[2].vhost.parameters.names(REMOVED) == []


def test_a_deletion_is_reported_after_a_crash_of_the_cell() -> None:
    cells = CellCluster(3, has_disks=True)
    owner = cells[2].client()
    for name in ("q", "kept"):
        owner.declare(name, durable=True)
    cells.isolate(cells[2])
    owner.ask(QueueDelete("q"))
    cells.crash(2)
    cells.rest()
    assert where(cells, "q") == ["-"] * 3
    assert lives_in(cells, 2, "kept")
    cells.crash(0, 1, 2)
    assert where(cells, "q") == ["-"] * 3
    assert cells[2].vhost.parameters.names(REMOVED) == []


def test_a_queue_that_is_declared_again_after_its_deletion_stays(cells: CellCluster) -> None:
    """As a dead-letter queue that the next dead letter makes."""
    owner = cells[2].client()
    owner.declare("q", durable=True)
    cells.isolate(cells[2])
    owner.ask(QueueDelete("q"))
    cells[2].vhost.declare_queue("q", durable=True)
    cells[2].client().publish("q", b"kept")
    cells.reconnect(cells[2])
    assert lives_in(cells, 2)
    assert cells[0].client().get("q", no_ack=True).body == b"kept"  # type: ignore[union-attr]


def test_a_queue_that_is_declared_again_before_its_deletion_is_known_keeps_its_messages(cells: CellCluster) -> None:
    owner = cells[2].client()
    owner.declare("q", durable=True)
    with cells.definitions_held(2):
        owner.ask(QueueDelete("q"))
        cells[2].vhost.declare_queue("q", durable=True)
        cells[2].client().publish("q", b"kept")
    assert lives_in(cells, 2)
    assert cells[0].client().get("q", no_ack=True).body == b"kept"  # type: ignore[union-attr]


def test_a_queue_that_is_made_and_deleted_before_the_first_cell_knows_it_is_gone(cells: CellCluster) -> None:
    with cells.definitions_held(2):
        queue = cells[2].vhost.declare_queue("q", durable=True)
        cells[2].vhost.remove_queue(queue)
    assert where(cells, "q") == ["-"] * 3
    assert cells[2].vhost.parameters.names(REMOVED) == []


def test_the_queues_of_a_deleted_virtual_host_are_not_remembered(cells: CellCluster) -> None:
    cells[0].broker.add_vhost("v")
    cells.rest()
    vhost = cells[2].broker.vhost("v")
    vhost.declare_queue("q", durable=True)
    cells.rest()
    cells[0].broker.delete_vhost("v")
    cells.rest()
    assert vhost.parameters.names(REMOVED) == []


def test_a_queue_that_its_home_does_not_know_yet_is_not_deleted_elsewhere_only(cells: CellCluster) -> None:
    """The home has lost the first cell just after a client of it has declared the queue."""
    (wire,) = (each for each in cells.wires if isinstance(each, DefinitionWire) and each.other is cells[2])
    with cells.definitions_held(2):
        cells[2].client().send(QueueDeclare("q", durable=True))
        assert cells[0].service is not None
        cells[0].service.handle("c3", wire.to_first.popleft(), lambda _: None)
        cells.cut(cells[0], cells[2])
    assert where(cells, "q") == ["RemoteQueue", "RemoteQueue", "-"]
    client = cells[1].client()
    client.send(QueueDelete("q"))
    code, text = client.error()
    assert (code, "the first cell" in text) == (406, True)
    cells.connect_definitions(cells[2])
    cells.rest()
    assert lives_in(cells, 2)
    assert cells[1].client().ask(QueueDelete("q")) == QueueDeleteOk(0)
    assert where(cells, "q") == ["-"] * 3
