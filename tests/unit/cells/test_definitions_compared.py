"""What a cell that was away takes over when it connects again."""

from __future__ import annotations

import pytest

from leveret.broker.plugins import find_plugin
from leveret.cells.shared_definitions import snapshot
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.wire.methods import ExchangeDeclare, ExchangeDelete, QueueBind, QueueBindOk, QueueUnbind, QueueUnbindOk
from tests.support.cell_cluster import CellCluster
from tests.support.cell_wires import DefinitionWire
from tests.support.queue_moves import LONG, begin, lives_in

BOUND = Binding("amq.fanout", Destination("queue", "q"), "")


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3)


def are_equal(cells: CellCluster) -> bool:
    first, *others = [set(map(repr, snapshot(cell.broker, cell.cell))) for cell in cells.cells]
    return all(other == first for other in others)


@pytest.mark.parametrize("durable", [True, False])
def test_a_binding_that_is_removed_while_the_cell_of_its_queue_is_away_stays_removed(
    cells: CellCluster, durable: bool
) -> None:
    client = cells[2].client()
    client.declare("q", durable=durable)
    assert client.ask(QueueBind("q", "amq.fanout", "")) == QueueBindOk()
    cells.isolate(cells[2])
    assert cells[1].client().ask(QueueUnbind("q", "amq.fanout", "")) == QueueUnbindOk()
    cells.reconnect(cells[2])
    assert not any(cell.vhost.bindings.of_source("amq.fanout") for cell in cells.cells)
    assert lives_in(cells, 2)


def test_an_exchange_that_is_replaced_by_an_equal_one_while_a_cell_is_away_has_no_old_bindings(
    cells: CellCluster,
) -> None:
    client = cells[2].client()
    client.declare("q", durable=True)
    client.ask(ExchangeDeclare("e", "fanout", durable=True))
    client.ask(QueueBind("q", "e", ""))
    cells.isolate(cells[2])
    other = cells[1].client()
    other.ask(ExchangeDelete("e"))
    other.ask(ExchangeDeclare("e", "fanout", durable=True))
    cells.reconnect(cells[2])
    assert not any(cell.vhost.bindings.of_source("e") for cell in cells.cells)


def test_bindings_are_reported_again_if_the_connection_was_lost_during_the_report(cells: CellCluster) -> None:
    client = cells[2].client()
    client.declare("q")
    client.ask(QueueBind("q", "amq.fanout", ""))
    cells.isolate(cells[2])
    cells[0].vhost.remove_queue(cells[0].vhost.queues["q"])  # as if the first cell had been restarted
    cells.connect_definitions(cells[2])
    wire = cells.wires[-1]
    assert isinstance(wire, DefinitionWire)
    while not wire.to_first:
        wire.carry()
    wire.carry()  # the queue is reported, and not its binding
    assert "q" in cells[0].vhost.queues
    assert BOUND not in cells[0].vhost.bindings
    cells.isolate(cells[2])
    cells.reconnect(cells[2])
    assert all(BOUND in cell.vhost.bindings for cell in cells.cells)


def test_exchanges_and_policies_of_a_plugin_that_was_disabled_later_are_taken_over(cells: CellCluster) -> None:
    cells.isolate(cells[2])
    first = cells[0].broker
    cells[1].client().ask(ExchangeDeclare("e", "x-consistent-hash", durable=True))
    first.policies.set("/", "p", pattern="^x$", definition={"shards-per-node": 2}, apply_to="exchanges")
    for plugin in ("consistent_hash_exchange", "sharding"):
        first.plugins.disable(find_plugin(plugin))
    cells.reconnect(cells[2])
    assert "e" in cells[2].vhost.exchanges
    assert are_equal(cells)
    cells.isolate(cells[2])
    for plugin in ("consistent_hash_exchange", "sharding"):
        first.plugins.enable(find_plugin(plugin))
    cells[1].client().ask(ExchangeDeclare("later", "x-consistent-hash", durable=True))
    first.policies.set("/", "p", pattern="^x$", definition={"shards-per-node": 3}, apply_to="exchanges")
    for plugin in ("consistent_hash_exchange", "sharding"):
        first.plugins.disable(find_plugin(plugin))
    cells.reconnect(cells[2])
    assert "later" in cells[2].vhost.exchanges
    assert are_equal(cells)


@pytest.mark.parametrize("frames", [9, 11, 13])
def test_a_queue_that_moves_is_not_deleted_in_its_cell_only(cells: CellCluster, frames: int) -> None:
    """As the HTTP API deletes it: without asking another cell."""
    cells[1].client().declare("q", durable=True)
    move = begin(cells, 2)
    cells.frames_left = frames
    cells.rest()
    with pytest.raises(PreconditionFailed, match="is in another cell: delete it over AMQP"):
        cells[1].vhost.delete_queue("q")
    cells.frames_left = None
    cells.advance(LONG)
    assert move.is_over
    assert lives_in(cells, 2)
