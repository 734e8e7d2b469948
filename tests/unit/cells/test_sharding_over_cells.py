"""Sharded exchanges over cells: each cell has its shards, publishers reach all, consumers those of their cell."""

from __future__ import annotations

import pytest

from leveret.broker.super_streams import all_partitions_of, partitions_of
from leveret.errors import PreconditionFailed
from leveret.queues.declared_queue import DeclaredQueue
from leveret.wire.fields import Table
from leveret.wire.methods import BasicCancel, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk, ExchangeDeclare
from tests.support.cell_cluster import CellCluster
from tests.support.cell_wires import QueueWire
from tests.support.passed_connections import Passing
from tests.support.peer_pair import Client, Content

POLICY = {"shards-per-node": 2, "routing-key": "1234"}


@pytest.fixture
def cells() -> CellCluster:
    cells = CellCluster(3)
    cells[1].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    policies = cells[0].broker.policies
    policies.set("/", "shards", pattern="^orders$", definition=POLICY, apply_to="exchanges", priority=0)
    cells.rest()
    return cells


def shards() -> list[str]:
    return [f"sharding: orders - c{cell} - {index}" for cell in (1, 2, 3) for index in (0, 1)]


def publish(client: Client, *keys: str) -> None:
    client.feed(b"".join(client.published("orders", key, key.encode()) for key in keys))


@pytest.mark.feature("S2-02", "S2-04")
def test_each_cell_has_its_own_shards_and_knows_those_of_the_others(cells: CellCluster) -> None:
    for place, cell in enumerate(cells.cells, 1):
        assert sorted(cell.vhost.queues) == shards()
        here = [name for name, queue in cell.vhost.queues.items() if queue.home is None]
        assert sorted(here) == [f"sharding: orders - c{place} - {index}" for index in (0, 1)]
        assert len(cell.vhost.bindings.of_source("orders")) == 6


def test_every_cell_sees_the_shards_of_all_in_one_order_even_if_a_cell_is_away(cells: CellCluster) -> None:
    cells.cut(cells[0], cells[2])
    for cell in cells.cells:
        assert [queue.name for queue in cell.vhost.pools["orders"].everywhere()] == shards()


def test_a_super_stream_has_the_partitions_of_all_cells(cells: CellCluster) -> None:
    with pytest.raises(PreconditionFailed, match="orders - c1 - 0' is not a stream"):
        all_partitions_of(cells[0].vhost, "orders")
    cells[1].client().ask(ExchangeDeclare("events", "x-modulus-hash", durable=True))
    definition = {"shards-per-node": 1, "shard-queue-type": "stream"}
    cells[0].broker.policies.set(
        "/", "streams", pattern="^events$", definition=definition, apply_to="exchanges", priority=0
    )
    cells.rest()
    for place, cell in enumerate(cells.cells, 1):
        found = [queue.name for queue in all_partitions_of(cell.vhost, "events")]
        assert found == [f"sharding: events - c{n} - 0" for n in (1, 2, 3)]
        assert [queue.name for queue in partitions_of(cell.vhost, "events")] == [f"sharding: events - c{place} - 0"]


@pytest.mark.feature("S2-05", "S2-08")
def test_messages_reach_all_shards_and_a_key_the_same_one_from_each_cell(cells: CellCluster) -> None:
    keys = [f"key {number}" for number in range(120)]
    where: dict[str, set[str]] = {}
    for cell in cells.cells:
        publish(cell.client(), *keys)
    for cell in cells.cells:
        for name, queue in cell.vhost.queues.items():
            if queue.home is None:
                client = cell.client()
                client.consume(name, no_ack=True)
                for body in client.bodies():
                    where.setdefault(body.decode(), set()).add(name)
    assert {len(found) for found in where.values()} == {1}
    assert set().union(*where.values()) == set(shards())
    assert len(where) == 120


def consumers(cells: CellCluster) -> dict[str, int]:
    """Of each shard, in its home."""
    queues = [queue for cell in cells.cells for queue in cell.vhost.queues.values() if queue.home is None]
    return {queue.name: len(queue.consumers) for queue in queues if len(queue.consumers)}


def consumed(client: Client) -> list[DeclaredQueue]:
    """The queues that the client consumes from, in its cell."""
    queues = client.session.vhost.queues.values()
    return [queue for queue in queues if any(each.channel.connection is client.session for each in queue.consumers)]  # type: ignore[attr-defined]


EVERYTHING: Table = {"x-shard-all": True}


@pytest.mark.feature("S2-14", "S2-18")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_consumers_of_the_pseudo_queue_use_the_shards_of_their_cell_evenly(cells: CellCluster, place: int) -> None:
    clients = [cells[place].client() for _ in range(4)]
    for client in clients:
        client.consume("orders")
    counts = {name: len(queue.consumers) for name, queue in cells[place].vhost.queues.items() if queue.home is None}
    assert counts == {f"sharding: orders - c{place + 1} - {index}": 2 for index in (0, 1)}


@pytest.mark.feature("S2-14")
@pytest.mark.parametrize("ordered", [False, True])
def test_connections_move_to_a_cell_with_idle_shards_until_there_is_none(cells: CellCluster, ordered: bool) -> None:
    policy = POLICY | {"ordered-resize": ordered}
    cells[0].broker.policies.set("/", "shards", "^orders$", policy, apply_to="exchanges")
    for here in cells.cells:
        others = {cell.cell: cell for cell in cells.cells if cell is not here}
        here.broker.cells.mover = Passing(here, **others)
    clients = [cells[1].client() for _ in range(7)]
    for number, client in enumerate(clients):
        client.send(BasicConsume("orders", f"tag {number}"))
        cells.rest()
        assert client.heard() == [BasicConsumeOk(f"tag {number}")]
    assert [client.harness for client in clients[:2]] == [cells[1]] * 2
    assert sorted(consumers(cells).values()) == [1, 1, 1, 1, 1, 2]
    assert all(queue.home is None for client in clients for queue in consumed(client))
    publish(cells[0].client(), *[f"key {number}" for number in range(60)])
    assert sum(len(client.bodies()) for client in clients) == 60


@pytest.mark.parametrize("reason", ["has published", "cells are away", "other shards are in use"])
def test_consumers_that_cannot_move_to_an_idle_shard_stay(cells: CellCluster, reason: str) -> None:
    passing = cells[1].broker.cells.mover = Passing(cells[1], c1=cells[0], c3=cells[2])
    for client in (cells[1].client(), cells[1].client()):
        client.consume("orders")
    if reason == "other shards are in use":
        for place in (0, 2):
            for index in (0, 1):
                cells[place].client().consume(f"sharding: orders - c{place + 1} - {index}")
    elif reason == "cells are away":
        for place in (0, 2):
            cells.cut(cells[1], cells[place])
    late = cells[1].client()
    if reason == "has published":
        late.publish("nowhere", b"1")
    late.send(BasicConsume("orders", "tag"), BasicQos(0, 1))
    cells.rest()
    assert [type(what) for what in late.heard()] == [BasicConsumeOk, BasicQosOk]
    assert passing.moved == []
    (queue,) = consumed(late)
    assert (queue.home, len(queue.consumers)) == (None, 2)


@pytest.mark.feature("S2-16")
def test_a_consumer_of_all_shards_gets_messages_of_all_cells(cells: CellCluster) -> None:
    client = cells[2].client()
    client.consume("orders", no_ack=True, arguments={"x-shard-all": True})
    keys = [f"key {number}" for number in range(60)]
    publish(cells[0].client(), *keys)
    cells.rest()
    assert sorted(client.bodies()) == sorted(key.encode() for key in keys)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_exclusive_consumer_of_all_shards_gets_all_or_none(cells: CellCluster, place: int) -> None:
    taken = "sharding: orders - c1 - 1"
    owner = cells[0].client()
    owner.consume(taken, exclusive=True)
    client = cells[place].client()
    client.send(BasicConsume("orders", "tag", exclusive=True, arguments=EVERYTHING))
    code, text = client.error()
    assert (code, taken in text) == (403, True)
    assert consumers(cells) == {taken: 1}
    owner.vanish()
    client.open_channel(2)
    client.send(BasicConsume("orders", "tag", exclusive=True, arguments=EVERYTHING), channel=2)
    assert client.heard(2) == [BasicConsumeOk("tag")]
    assert consumers(cells) == dict.fromkeys(shards(), 1)


def test_a_consumer_of_all_shards_gets_messages_when_all_cells_have_accepted_it(cells: CellCluster) -> None:
    keys = [f"key {number}" for number in range(60)]
    publish(cells[0].client(), *keys)
    wires = [wire for wire in cells.wires if isinstance(wire, QueueWire) and wire.there is cells[2]]
    client = cells[0].client()
    for wire in wires:
        wire.is_held = True
    client.send(BasicConsume("orders", "tag", no_ack=True, arguments=EVERYTHING))
    assert client.heard() == []
    for wire in wires:
        wire.is_held = False
    cells.rest()
    answer, *deliveries = client.heard()
    assert answer == BasicConsumeOk("tag")
    assert sorted(each.body.decode() for each in deliveries if isinstance(each, Content)) == sorted(keys)


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_consumer_of_all_shards_that_has_lost_one_to_another_is_cancelled_if_it_is_exclusive(
    cells: CellCluster, exclusive: bool
) -> None:
    client = cells[1].client()
    client.consume("orders", exclusive=exclusive, arguments=EVERYTHING)
    cells.cut(cells[1], cells[2])
    cells[2].client().consume("sharding: orders - c3 - 0", exclusive=True)
    cells.connect_queues(cells[1], cells[2])
    cells[1].turn()
    assert client.heard() == ([BasicCancel("tag", nowait=True)] if exclusive else [])
    expected = {"sharding: orders - c3 - 0"} if exclusive else {*shards()}
    assert consumers(cells).keys() == expected
