"""Writes of the broker itself to an exchange that is resized in order: dead letters and committed rows."""

from __future__ import annotations

import pytest

from leveret.sharding.slot_gate import SlotGate
from leveret.sharding.slots import slot_of
from leveret.wire.methods import ExchangeDeclare, ExchangeDelete
from tests.support.cell_cluster import CellCluster, CellHarness, cut_queues
from tests.unit.cells.test_ordered_over_cells import KEYS, Traffic, hold_wires, policy, slots


@pytest.fixture
def cells() -> CellCluster:
    cells = CellCluster(3)
    cells[1].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    policy(cells, 1)
    return cells


def in_shards(cells: CellCluster, body: bytes) -> int:
    """How often the shards have this message."""
    found = 0
    for cell in cells.cells:
        client = cell.client()
        for name in [name for name, queue in cell.vhost.queues.items() if name.startswith("shard") and not queue.home]:
            while (got := client.get(name, no_ack=True)) is not None:
                found += got.body == body
    return found


def key_at_gate(here: CellHarness, *, old: str, new: str) -> str:
    """A key whose messages wait at a gate of this cell while it moves from a shard to another."""
    for key in KEYS:
        table, (destination,) = slots(here).table, slots(here).reach(key)
        gate = here.vhost.hidden.get(destination.name)
        moves = (table.leaving().get(slot_of(key)), table.owners[slot_of(key)])
        if isinstance(gate, SlotGate) and gate.is_closed and moves == (old, new):
            return key
    raise AssertionError("no such key")


def test_a_dead_letter_is_not_lost_when_its_gate_is_gone_and_its_shard_away(cells: CellCluster) -> None:
    first, here = cells[0], cells[1]
    hold_wires(cells, here, held=True)
    Traffic(cells).publish(here, *KEYS)  # to the old shards, and stuck on the way
    policy(cells, 2)
    key = key_at_gate(here, old="sharding: orders - c3 - 0", new="sharding: orders - c1 - 1")
    gate = slots(here).reach(key)[0].name
    client = here.client()
    client.declare("q", durable=True, arguments={"x-dead-letter-exchange": "orders", "x-dead-letter-routing-key": key})
    client.publish("q", b"dead", delivery_mode=2)
    got = client.get("q")
    assert got is not None
    client.nack(got.tag, requeue=False)
    cut_queues(cells, here, first)
    hold_wires(cells, here, held=False)  # the gate opens, and the shard is away
    cells.advance(15)
    assert gate not in here.vhost.hidden
    assert in_shards(cells, b"dead") == 0
    cells.connect_queues(here, first)
    cells.connect_queues(first, here)
    cells.advance(5)
    assert in_shards(cells, b"dead") == 1
    assert here.queue("q").bytes == 0


def test_a_dead_letter_is_dropped_when_its_gate_and_its_exchange_are_gone(cells: CellCluster) -> None:
    """As one to a queue of another cell that is deleted meanwhile."""
    first, here = cells[0], cells[1]
    hold_wires(cells, here, held=True)
    Traffic(cells).publish(here, *KEYS)
    policy(cells, 2)
    key = key_at_gate(here, old="sharding: orders - c3 - 0", new="sharding: orders - c1 - 1")
    client = here.client()
    client.declare("q", durable=True, arguments={"x-dead-letter-exchange": "orders", "x-dead-letter-routing-key": key})
    client.publish("q", b"dead", delivery_mode=2)
    got = client.get("q")
    assert got is not None
    client.nack(got.tag, requeue=False)
    cut_queues(cells, here, first)
    hold_wires(cells, here, held=False)
    first.client().ask(ExchangeDelete("orders"))
    assert here.queue("q").bytes > 0
    cells.advance(15)
    assert here.queue("q").bytes == 0
