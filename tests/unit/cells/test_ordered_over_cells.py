"""Ordered resizing of an exchange whose shards live in several cells."""

from __future__ import annotations

from collections import defaultdict

import pytest

from leveret.sharding.cell_slots import CellSlots
from leveret.sharding.slot_gate import SlotGate
from leveret.sharding.slots import slot_of
from leveret.wire.methods import BasicAck, ConfirmSelect, ExchangeDeclare, ExchangeDelete, QueueDelete
from tests.support.cell_cluster import CellCluster, CellHarness
from tests.support.cell_wires import QueueWire
from tests.support.peer_pair import Client, Content

KEYS = [f"key {number}" for number in range(60)]


def policy(cells: CellCluster, number: int, **more: object) -> None:
    definition: dict[str, object] = {"shards-per-node": number, "ordered-resize": True, **more}
    cells[0].broker.policies.set("/", "shards", pattern="^orders$", definition=definition, apply_to="exchanges")
    cells.rest()


@pytest.fixture
def cells() -> CellCluster:
    cells = CellCluster(3)
    cells[1].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    policy(cells, 1)
    return cells


def slots(cell: CellHarness) -> CellSlots:
    found = cell.sharding.find("/", "orders")
    assert found is not None
    assert isinstance(found.slots, CellSlots)
    return found.slots


def are_settled(cells: CellCluster) -> bool:
    return all(slots(cell).is_settled for cell in cells.cells)


class Traffic:
    """Publishes numbered messages of each key, and checks the order in which consumers get them."""

    def __init__(self, cells: CellCluster) -> None:
        self.cells = cells
        self.sent: dict[str, int] = defaultdict(int)
        self.got: dict[str, int] = defaultdict(int)
        self.violations: list[str] = []
        self.publishers: dict[str, Client] = {}
        self.consumers: list[Client] = []

    def publish(self, cell: CellHarness, *keys: str) -> None:
        client = self.publishers.get(cell.cell)
        if client is None:
            client = self.publishers[cell.cell] = cell.client()
            client.ask(ConfirmSelect())
        parts = []
        for key in keys:
            self.sent[key] += 1
            parts.append(client.published("orders", key, b"%s/%d" % (key.encode(), self.sent[key])))
        client.feed(b"".join(parts))

    def confirms(self, cell: CellHarness) -> int:
        acks = [each for each in self.publishers[cell.cell].heard() if isinstance(each, BasicAck)]
        return max([ack.delivery_tag for ack in acks], default=0)

    def consume(self, cell: CellHarness) -> Client:
        client = cell.client()
        client.consume("orders")
        self.consumers.append(client)
        return client

    def take(self) -> int:
        """What the consumers have received, acked."""
        number = 0
        for client in self.consumers:
            for each in client.heard():
                if isinstance(each, Content):
                    key, count = each.body.decode().split("/")
                    if int(count) != self.got[key] + 1:
                        self.violations.append(f"{key}: {count} after {self.got[key]}")
                    self.got[key] = int(count)
                    client.ack(each.tag)
                    number += 1
        self.cells.rest()
        return number

    def take_all(self) -> None:
        while self.take():
            pass
        self.cells.advance(0.1)
        while self.take():
            pass

    def check(self) -> None:
        assert not self.violations
        assert self.got == self.sent


def test_all_cells_have_the_same_owners_of_slots(cells: CellCluster) -> None:
    policy(cells, 4)
    assert are_settled(cells)
    tables = [slots(cell).table for cell in cells.cells]
    assert tables[0] == tables[1] == tables[2]
    assert len(tables[0].shards) == 12


@pytest.mark.parametrize("home", [0, 1, 2])
def test_messages_of_moved_slots_wait_for_the_old_shard_wherever_they_are_published(
    cells: CellCluster, home: int
) -> None:
    traffic = Traffic(cells)
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    before = [slots(cells[0]).owner(slot_of(key)) for key in KEYS]
    policy(cells, 2)
    after = [slots(cells[0]).owner(slot_of(key)) for key in KEYS]
    assert before != after
    assert not are_settled(cells)
    for cell in cells.cells[home:] + cells.cells[:home]:
        traffic.publish(cell, *KEYS)
    for cell in cells.cells:
        assert traffic.confirms(cell) == 2 * len(KEYS)  # held messages are confirmed
        assert not any(queue.ready for name, queue in cell.vhost.queues.items() if name.endswith("1"))
    for cell in (*cells.cells, *cells.cells):
        traffic.consume(cell)
    traffic.take_all()
    assert are_settled(cells)
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    traffic.take_all()
    traffic.check()


def test_a_smaller_number_drains_the_shards_that_go(cells: CellCluster) -> None:
    policy(cells, 3)
    traffic = Traffic(cells)
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    policy(cells, 1)
    assert len(slots(cells[1]).draining) == 6
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    traffic.consume(cells[2])
    traffic.consume(cells[1])
    traffic.consume(cells[0])
    traffic.take_all()
    traffic.check()
    assert are_settled(cells)
    assert len(cells[2].vhost.bindings.of_source("orders")) == 3


def test_a_second_resize_before_anything_has_moved_changes_where_messages_go(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    for number in (2, 3, 1, 4):
        for cell in cells.cells:
            traffic.publish(cell, *KEYS)
        policy(cells, number)
    for _ in range(4):
        for cell in cells.cells:
            traffic.consume(cell)
    traffic.take_all()
    traffic.check()
    assert are_settled(cells)
    assert len(slots(cells[0]).table.shards) == 12


def hold_wires(cells: CellCluster, here: CellHarness, held: bool) -> None:
    for wire in cells.wires:
        if isinstance(wire, QueueWire) and wire.here is here:
            wire.is_held = held
    cells.rest()


def test_publishes_on_their_way_to_the_old_shard_are_not_overtaken(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    traffic.publish(cells[1], "warm up", *KEYS)
    for _ in range(2):
        for cell in cells.cells:
            traffic.consume(cell)
    traffic.take_all()
    hold_wires(cells, cells[1], held=True)
    traffic.publish(cells[1], *KEYS)  # to the old shards, and stuck on the way
    policy(cells, 2)
    traffic.take_all()
    traffic.publish(cells[1], *KEYS)
    traffic.take_all()
    traffic.publish(cells[1], *KEYS)
    hold_wires(cells, cells[1], held=False)
    traffic.take_all()
    traffic.check()
    assert are_settled(cells)


def test_without_gates_they_would_be_overtaken(cells: CellCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the test above can fail."""
    monkeypatch.setattr(SlotGate, "close", lambda gate: None)
    with pytest.raises(AssertionError):
        test_publishes_on_their_way_to_the_old_shard_are_not_overtaken(cells)


def test_what_waits_at_a_closed_gate_counts_as_memory_and_against_the_flow_control(cells: CellCluster) -> None:
    size, sent, here = 1 << 20, 20, cells[1]
    hold_wires(cells, here, held=True)
    Traffic(cells).publish(here, *KEYS)  # to the old shards, and stuck on the way
    policy(cells, 2)
    closed = {name for name, gate in here.vhost.hidden.items() if isinstance(gate, SlotGate) and gate.is_closed}
    key = next(key for key in KEYS if slots(here).reach(key)[0].name in closed)
    client, before = here.client(), here.broker.gauge.used
    client.ask(ConfirmSelect())
    for _ in range(sent):
        client.feed(client.published("orders", key, bytes(size)))
    arrived = sent - len(client.socket.held)
    assert 7 <= arrived <= 9
    assert here.broker.gauge.used - before >= arrived * size
    hold_wires(cells, here, held=False)
    cells.advance(1)
    assert not client.socket.held
    assert max(each.delivery_tag for each in client.heard() if isinstance(each, BasicAck)) == sent
    held = sum(queue.bytes for queue in here.vhost.queues.values() if queue.home is None)
    assert here.broker.gauge.used - held < before


def test_a_cell_that_is_away_gets_the_table_when_it_is_back(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    traffic.publish(cells[0], *KEYS)
    cells.cut(cells[0], cells[2])
    policy(cells, 2)
    traffic.publish(cells[1], *KEYS)
    assert not are_settled(cells)
    cells.connect_definitions(cells[2])
    cells.connect_queues(cells[0], cells[2])
    cells.connect_queues(cells[2], cells[0])
    cells.rest()
    for _ in range(2):
        for cell in cells.cells:
            traffic.consume(cell)
    traffic.take_all()
    traffic.publish(cells[2], *KEYS)
    traffic.take_all()
    traffic.check()
    assert are_settled(cells)
    assert len(slots(cells[0]).table.shards) == 6


def test_a_cell_that_leaves_is_drained_in_order(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    cells[0].sharding.membership.leave("c3")
    cells.rest()
    for cell in cells.cells:
        assert len(cell.vhost.bindings.of_source("orders")) == 2
        traffic.publish(cell, *KEYS)
    assert not cells[0].sharding.is_settled("c3")
    for cell in cells.cells:
        traffic.consume(cell)
    traffic.take_all()
    traffic.check()
    assert cells[0].sharding.is_settled("c3")
    assert are_settled(cells)
    policy(cells, 2)
    traffic.take_all()
    assert are_settled(cells)
    assert not any(" c3 " in shard for shard in slots(cells[0]).table.shards)
    cells[0].sharding.membership.rejoin("c3")
    cells.rest()
    traffic.take_all()
    assert len(slots(cells[0]).table.shards) == 6


def test_a_cell_that_leaves_and_is_gone_is_not_waited_for(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    traffic.publish(cells[0], *KEYS)
    cells.cut(cells[0], cells[2])
    cells.cut(cells[1], cells[2])
    cells[0].sharding.membership.parted("c3")
    cells[0].sharding.membership.leave("c3")
    cells.rest()
    rest = cells.cells[:2]
    traffic.consume(cells[0])
    traffic.consume(cells[1])
    while traffic.take():
        pass
    assert all(slots(cell).is_settled for cell in rest)
    client = cells[1].client()
    client.ask(ConfirmSelect())
    client.feed(b"".join(client.published("orders", key, b"new/1") for key in KEYS))
    assert max(ack.delivery_tag for ack in client.heard() if isinstance(ack, BasicAck)) == len(KEYS)


def test_only_the_first_cell_takes_another_one_out(cells: CellCluster) -> None:
    with pytest.raises(ValueError, match="only the first cell"):
        cells[1].sharding.membership.leave("c3")


@pytest.mark.parametrize("ending", ["policy", "exchange"])
def test_held_messages_reach_shards_when_the_order_is_no_longer_wanted(cells: CellCluster, ending: str) -> None:
    traffic = Traffic(cells)
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    policy(cells, 2)
    for cell in cells.cells:
        traffic.publish(cell, *KEYS)
    if ending == "policy":
        cells[0].broker.policies.delete("/", "shards")
    else:
        cells[2].client().ask(ExchangeDelete("orders"))
    cells.rest()
    total = sum(queue.ready for cell in cells.cells for queue in cell.vhost.queues.values() if queue.home is None)
    assert total == 6 * len(KEYS)
    for cell in cells.cells:
        assert not any(queue.ready for name, queue in cell.vhost.internal.queues.items() if "received" not in name)
        assert not [name for name in cell.vhost.internal.queues if "held" in name]
        assert not cell.vhost.gates
        assert not cell.vhost.hidden


def test_a_deleted_old_shard_holds_nothing_back(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    traffic.publish(cells[0], *KEYS)
    policy(cells, 2)
    for place, cell in enumerate(cells.cells, 1):
        cell.client().ask(QueueDelete(f"sharding: orders - c{place} - 0"))
    cells.rest()
    cells.advance(0.1)
    assert all(not slots(cell).table.records for cell in cells.cells)


def test_messages_for_the_shard_itself_are_not_held(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    traffic.publish(cells[0], *KEYS)
    shard = "sharding: orders - c1 - 0"
    before = cells[0].queue(shard).ready
    policy(cells, 2)
    cells[2].client().publish(shard, b"direct")
    cells.rest()
    assert cells[0].queue(shard).ready == before + 1


def test_a_cell_that_the_cluster_is_started_without_is_not_waited_for(cells: CellCluster) -> None:
    traffic = Traffic(cells)
    traffic.publish(cells[0], *KEYS)
    policy(cells, 2)
    assert slots(cells[0]).table.cells == {"c1", "c2", "c3"}
    cells.cut(cells[0], cells[2])
    first = cells[0].sharding
    first.membership.parted("c3")
    first.membership.cells = {"c1": "c1", "c2": "c2"}
    found = first.find("/", "orders")
    assert found is not None
    found.stop()
    cells[0].vhost.parameters.put("sharding", "orders", slots(cells[1]).table.as_json())  # as after a restart
    found.follow(found.plan)
    assert slots(cells[0]).table.cells == {"c1", "c2"}
    assert {record.home for record in slots(cells[0]).table.records.values()} <= {"c1", "c2"}
