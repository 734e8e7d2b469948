"""A cell is taken out of service: its queues move, its shards drain."""

from __future__ import annotations

import pytest

from leveret.broker.vhost_cells import place_vhost
from leveret.cells.cell_removal import CellRemovals
from leveret.errors import AmqpError
from leveret.wire.methods import ExchangeDeclare
from tests.support.cell_cluster import CellCluster
from tests.support.queue_moves import bodies, client_bodies

POLICY = {"shards-per-node": 1, "routing-key": "1234"}


class Removal:
    def __init__(self, number: int = 3, *, stops_cells: bool = True) -> None:
        self.cells = cells = CellCluster(number)
        self.stopped: list[str] = []
        moves = cells[0].queue_moves
        assert moves is not None
        first = cells[0]
        self.is_settled = True
        remove = self.stopped.append if stops_cells else None
        self.removals = CellRemovals(first.broker, "c1", moves, first.sharding.membership, self._is_settled, remove)

    def _is_settled(self, cell: str) -> bool:
        return self.is_settled and self.cells[0].sharding.is_settled(cell)

    def row(self, name: str) -> tuple[str, int, list[str]]:
        (found,) = [state for state in self.removals.states() if state.name == name]
        return found.state, found.queues, found.waiting

    def homes(self) -> dict[str, str]:
        moves = self.cells[0].queue_moves
        assert moves is not None
        return {name: moves.home(queue) for name, queue in self.cells[0].vhost.queues.items()}


@pytest.fixture
def removal() -> Removal:
    return Removal()


def test_its_queues_move_to_the_other_cells_then_it_is_stopped(removal: Removal) -> None:
    cells = removal.cells
    owner = cells[2].client()
    for number in range(4):
        owner.declare(f"q{number}", durable=True)
        owner.publish(f"q{number}", *bodies(10))
    assert removal.row("c3") == ("running", 4, [])
    removal.removals.begin("c3")
    assert removal.row("c3") == ("leaving", 4, [])
    cells.advance(12)
    assert removal.row("c3") == ("removed", 0, [])
    assert removal.stopped == ["c3"]
    assert sorted(removal.homes().values()) == ["c1", "c1", "c2", "c2"]
    assert all(client_bodies(cells, f"q{number}") == bodies(10) for number in range(4))


def test_new_queues_are_declared_elsewhere(removal: Removal) -> None:
    cells = removal.cells
    removal.removals.begin("c3")
    cells.rest()
    client = cells[2].client()
    client.declare("new", durable=True)
    assert removal.homes() == {"new": "c1"}
    client.publish("new", b"hello")
    assert cells[0].queue("new").ready == 1


def test_a_shard_gets_no_more_messages_and_stays_until_it_is_empty(removal: Removal) -> None:
    cells = removal.cells
    cells[0].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    cells[0].broker.policies.set("/", "shards", pattern="^orders$", definition=POLICY, apply_to="exchanges", priority=0)
    cells.rest()
    publisher, keys = cells[1].client(), [f"key {number}" for number in range(60)]
    publisher.feed(b"".join(publisher.published("orders", key, key.encode()) for key in keys))
    shard = "sharding: orders - c3 - 0"
    left = cells[2].queue(shard).ready
    assert left > 0
    assert cells[2].first is not None
    cells[2].first.report_counts()
    cells.rest()
    removal.removals.begin("c3")
    cells.advance(6)
    publisher.feed(b"".join(publisher.published("orders", key, key.encode()) for key in keys))
    assert cells[2].queue(shard).ready == left
    assert sum(cell.queue(f"sharding: orders - {cell.cell} - 0").ready for cell in cells.cells) == 120
    policies = cells[0].broker.policies
    policies.set(
        "/", "shards", pattern="^orders$", definition=POLICY | {"shards-per-node": 2}, apply_to="exchanges", priority=0
    )
    cells.advance(2)
    assert sorted(name for name in cells[2].vhost.queues if "c3" in name) == [shard]
    state, queues, (waiting,) = removal.row("c3")
    assert (state, queues) == ("leaving", 1)
    assert f"shard '{shard}' has {left} messages" in waiting
    consumer = cells[2].client()
    consumer.consume(shard, no_ack=True)
    assert len(consumer.bodies()) == left
    cells[2].first.report_counts()
    cells.advance(4)
    assert removal.stopped == ["c3"]


def test_shards_stay_while_messages_are_on_their_way_to_them(removal: Removal) -> None:
    cells = removal.cells
    cells[0].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    cells[0].broker.policies.set("/", "shards", pattern="^orders$", definition=POLICY, apply_to="exchanges", priority=0)
    cells.rest()
    removal.is_settled = False
    removal.removals.begin("c3")
    cells.advance(6)
    assert removal.row("c3") == ("leaving", 1, ["messages of ordered exchanges or of Spark are on their way to it"])
    removal.is_settled = True
    cells.advance(6)
    assert removal.row("c3") == ("removed", 0, [])


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_cell_that_comes_back_gets_its_shards_bound(removal: Removal, is_ordered: bool) -> None:
    """Its empty shard has moved to another cell, and stays there."""
    cells = removal.cells
    policy = POLICY | {"ordered-resize": is_ordered}
    cells[0].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    cells[0].broker.policies.set("/", "shards", pattern="^orders$", definition=policy, apply_to="exchanges", priority=0)
    cells.rest()
    removal.removals.begin("c3")
    cells.advance(6)
    assert removal.stopped == ["c3"]
    assert all(len(cell.vhost.bindings.of_source("orders")) == 2 for cell in cells.cells)
    for place in (0, 1):
        cells.cut(cells[place], cells[2])
    cells[0].sharding.membership.rejoin("c3")
    cells.connect_definitions(cells[2])
    for place in (0, 1):
        cells.connect_queues(cells[place], cells[2])
        cells.connect_queues(cells[2], cells[place])
    cells.advance(1)
    assert [len(cell.vhost.bindings.of_source("orders")) for cell in cells.cells] == [3, 3, 3]


def test_a_virtual_host_of_the_cell_holds_the_removal_up(removal: Removal) -> None:
    broker = removal.cells[0].broker
    place_vhost(broker, broker.add_vhost("v"), "c3")
    removal.removals.begin("c3")
    removal.cells.advance(4)
    waiting = ["vhost 'v' lives there: delete it, or cancel the removal"]
    assert removal.row("c3") == ("leaving", 0, waiting)
    broker.delete_vhost("v")
    removal.cells.advance(4)
    assert removal.stopped == ["c3"]


def test_cells_that_are_no_processes_of_the_first_stay_until_they_are_stopped() -> None:
    removal = Removal(stops_cells=False)
    removal.cells[2].client().declare("q", durable=True)
    removal.removals.begin("c3")
    removal.cells.advance(4)
    waiting = ["stop its nodes, remove their directories cells/c3, and start all with fewer --cells"]
    assert removal.row("c3") == ("drained", 0, waiting)
    assert removal.homes() == {"q": "c1"}
    removal.removals.cancel("c3")
    assert removal.row("c3") == ("running", 0, [])


def test_a_stream_holds_the_removal_up(removal: Removal) -> None:
    cells = removal.cells
    cells[2].client().declare("events", durable=True, arguments={"x-queue-type": "stream"})
    removal.removals.begin("c3")
    cells.advance(4)
    assert removal.row("c3") == (
        "leaving",
        1,
        ["stream 'events' cannot be moved: delete it, or cancel the removal"],
    )
    removal.removals.cancel("c3")
    assert removal.row("c3")[0] == "running"


def test_the_first_cell_and_unknown_ones_are_refused(removal: Removal) -> None:
    for name, reason in (("c1", "is the first"), ("c9", "no cell 'c9' is connected")):
        with pytest.raises(AmqpError, match=reason):
            removal.removals.begin(name)
    with pytest.raises(AmqpError, match="does not leave"):
        removal.removals.cancel("c2")


def test_the_plan_leaves_out_shards_streams_and_exclusive_queues(removal: Removal) -> None:
    owner = removal.cells[0].client()
    owner.declare("own", exclusive=True)
    owner.declare("events", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(3):
        owner.declare(f"q{number}", durable=True)
    assert {move.queue for move in removal.removals.plan()} <= {"q0", "q1", "q2"}
    assert len(removal.removals.plan()) == 2
    assert removal.removals.plan("other") == []
