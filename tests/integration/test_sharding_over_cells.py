"""Sharding over real processes: ``leveret serve --cells 3``, clients in each cell."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from tests.support.cell_clients import clients_by_cell, until
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.command_line import Cli
from tests.support.sharded_cells import (
    CELLS,
    NODES,
    Cluster,
    OwnCells,
    await_resized,
    consume_for_a_while,
    consume_rapidly,
    consumers,
    running,
    shards_of,
)

PERSISTENT = pika.BasicProperties(delivery_mode=2)
KEYS = [f"key{number}" for number in range(120)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("cells")) as cluster:
        yield cluster


# ---- the shards


@pytest.mark.feature("S2-01", "S2-02", "S2-03", "S2-04")
@pytest.mark.parametrize(
    ("exchange", "definition", "key"),
    [("plain", {}, ""), ("keyed", {"routing_key": "1234"}, "1234"), ("ordered", {"ordered_resize": True}, "")],
)
def test_the_policy_makes_shards_in_each_cell(
    cluster: Cluster, exchange: str, definition: dict[str, object], key: str
) -> None:
    shards = cluster.shard(exchange, **definition)
    assert cluster.bindings(exchange) == dict.fromkeys(shards, key)
    listed = cluster.api.get("queues/%2F")[1]
    assert sorted(row["name"] for row in listed if f" {exchange} " in row["name"]) == sorted(shards)


@pytest.mark.feature("S2-05", "S2-06", "S2-07", "S2-08")
@pytest.mark.parametrize("ordered", [False, True])
def test_a_key_reaches_the_same_shard_from_each_cell(cluster: Cluster, ordered: bool) -> None:
    exchange = f"stable-{ordered}"
    shards = cluster.shard(exchange, routing_key="1234", ordered_resize=ordered)
    if ordered:
        await_resized(cluster, exchange)
    for client in cluster.clients.values():
        publisher = client.publisher()
        for key in KEYS:
            publisher.basic_publish(exchange, key, key.encode(), mandatory=True)
    found = {shard: Counter(cluster.bodies(shard, "c3")) for shard in shards}
    assert all(found.values())
    assert sum(found.values(), Counter()) == Counter({key.encode(): 3 for key in KEYS})
    assert {count for counts in found.values() for count in counts.values()} == {3}


@pytest.mark.feature("S2-09")
@pytest.mark.parametrize(
    ("kind", "key", "arrive"),
    [
        ("x-consistent-hash", "any", 1),
        ("x-random", "any", 1),
        ("direct", "1234", 6),
        ("direct", "other", 0),
        ("fanout", "any", 6),
    ],
)
def test_other_types_of_exchanges(cluster: Cluster, kind: str, key: str, arrive: int) -> None:
    exchange = f"{kind}-{key}"
    weight = {} if kind == "x-consistent-hash" else {"routing_key": "1234"}
    shards = cluster.shard(exchange, kind, **weight)
    for client in cluster.clients.values():
        client.publisher().basic_publish(exchange, key, b"message")
    assert sum(len(cluster.bodies(shard, "c1")) for shard in shards) == 3 * arrive


@pytest.mark.feature("S2-10")
def test_consistent_hash_over_queues_of_all_cells(cluster: Cluster) -> None:
    cluster.clients["c1"].channel.exchange_declare("parts", "x-consistent-hash", durable=True)
    for cell, client in cluster.clients.items():
        client.channel.queue_declare(f"part {cell}", durable=True)
        client.channel.queue_bind(f"part {cell}", "parts", "1")
    for client in cluster.clients.values():
        publisher = client.publisher()
        for key in KEYS:
            publisher.basic_publish("parts", key, key.encode(), mandatory=True)
    found = [Counter(cluster.bodies(f"part {cell}", "c2")) for cell in CELLS]
    assert all(found)
    assert {count for counts in found for count in counts.values()} == {3}
    assert sum(map(len, found)) == len(KEYS)


# ---- cells that come and go


@pytest.mark.feature("S2-11", "S2-12")
@pytest.mark.parametrize("ordered", [False, True])
def test_a_cell_that_is_added_gets_shards_and_old_messages_stay(tmp_path: Path, ordered: bool) -> None:
    with running(tmp_path, cells=2) as cluster:
        cluster.clients["c1"].channel.exchange_declare("orders", "x-modulus-hash", durable=True)
        shards = cluster.policy("orders", 2, cells=2, ordered_resize=ordered)
        if ordered:  # otherwise, messages wait for older ones in the shards that their slots have left
            await_resized(cluster, "orders")
        publisher = cluster.clients["c2"].publisher()
        for key in KEYS:
            publisher.basic_publish("orders", key, key.encode(), PERSISTENT, mandatory=True)
        before = {shard: cluster.declared(shard).message_count for shard in shards}
        cluster.broker.terminate()
        assert cluster.broker.exit_code(20) == 0
    with running(tmp_path) as cluster:
        until(lambda: len(cluster.bindings("orders")) == 6)
        assert {shard: cluster.declared(shard).message_count for shard in shards} == before
        assert sum(before.values()) == len(KEYS)
        for shard in shards:
            cluster.bodies(shard, "c3")
        if ordered:
            await_resized(cluster, "orders")
        publisher = cluster.clients["c1"].publisher()
        for key in KEYS:
            publisher.basic_publish("orders", key, key.encode(), PERSISTENT, mandatory=True)
        assert all(cluster.declared(shard, "c3").message_count for shard in shards_of("orders", 2))


@pytest.mark.feature("S2-11")
def test_a_cell_that_was_down_while_the_policy_changed_gets_its_shards(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        cluster.shard("orders", number=1)
        kill_cell(cell_processes(cluster.broker)[-1])
        policy = {"pattern": "^orders$", "definition": {"shards-per-node": 3}, "apply-to": "exchanges"}
        assert cluster.api.put("policies/%2F/orders", policy)[0] == 204
        until(lambda: "cell is ready again" in cluster.broker.log())
        until(lambda: sorted(cluster.bindings("orders")) == sorted(shards_of("orders", 3)))


@pytest.mark.feature("S2-13")
def test_a_cell_that_leaves_is_taken_out_of_the_bindings(tmp_path: Path) -> None:
    """Publishers with confirms and mandatory find out about each message that raced with it."""
    own = OwnCells(tmp_path)
    try:
        url = own.cells.endpoints["amqp"]
        with clients_by_cell(url, *CELLS) as clients:
            clients["c3"].channel.exchange_declare("orders", "x-modulus-hash", durable=True)
            vhost = own.cells.node.broker.vhost("/")
            own.call(
                lambda: own.cells.node.broker.policies.set(
                    "/",
                    "orders",
                    pattern="^orders$",
                    definition={"shards-per-node": 2},
                    apply_to="exchanges",
                    priority=0,
                )
            )
            until(lambda: len(vhost.bindings.of_source("orders")) == 6)
            confirmed = refused = 0
            publisher = clients["c2"].publisher()
            for number in range(400):
                if number == 100:
                    own.call(lambda: own.cells.node.sharding.membership.leave("c3"))
                try:
                    publisher.basic_publish("orders", f"key{number}", b"message", PERSISTENT, mandatory=True)
                    confirmed += 1
                except (NackError, UnroutableError):
                    refused += 1
            assert len(vhost.bindings.of_source("orders")) == 4
            counts = [
                clients["c1"].channel.queue_declare(shard, passive=True).method for shard in shards_of("orders", 2)
            ]
            assert confirmed == sum(count.message_count for count in counts)
            assert confirmed + refused == 400
            gone = [count.message_count for count in counts[4:]]
            publisher = clients["c3"].publisher()  # also the cell that has left publishes to the others only
            for key in KEYS:
                publisher.basic_publish("orders", key, b"message", PERSISTENT, mandatory=True)
            later = [
                clients["c1"].channel.queue_declare(shard, passive=True).method for shard in shards_of("orders", 2)
            ]
            assert [count.message_count for count in later[4:]] == gone
    finally:
        own.stop()


# ---- consumers


@pytest.mark.feature("S2-14", "S2-18")
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_consumers_are_spread_evenly_over_the_shards_of_their_cell(cluster: Cluster, cell: str, ordered: bool) -> None:
    exchange = f"even-{cell}-{ordered}"
    shards = cluster.shard(exchange, number=3, ordered_resize=ordered)
    node = NODES[CELLS.index(cell)]
    with consumers(cluster, cell, 3) as clients:
        threads = [threading.Thread(target=consume_rapidly, args=(client, exchange)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts = {shard: cluster.declared(shard).consumer_count for shard in shards}
        local = [count for shard, count in counts.items() if f" {node} " in shard]
        assert sum(counts.values()) == sum(local) == 21
        assert max(local) - min(local) <= 1


@pytest.mark.feature("S2-15")
@pytest.mark.parametrize("cell", CELLS)
def test_get_reads_from_the_local_shard_with_the_fewest_consumers(cluster: Cluster, cell: str) -> None:
    exchange = f"get-{cell}"
    cluster.shard(exchange, "fanout")
    client = cluster.clients[cell]
    node = NODES[CELLS.index(cell)]
    with consumers(cluster, cell, 1) as (consumer,):
        consumer.channel.basic_consume(f"sharding: {exchange} - {node} - 0", lambda *_: None)
        client.publisher().basic_publish(exchange, "", b"message")
        assert client.channel.basic_get(exchange, auto_ack=True)[2] == b"message"
        assert client.channel.basic_get(exchange, auto_ack=True)[2] is None
    assert cluster.declared(f"sharding: {exchange} - {node} - 1").message_count == 0
    others = [shard for shard in shards_of(exchange, 2) if f" {node} " not in shard]
    assert [cluster.declared(shard).message_count for shard in others] == [1] * 4


@pytest.mark.feature("S2-16", "S2-17")
@pytest.mark.parametrize("cell", CELLS)
def test_one_consumer_of_all_shards(cluster: Cluster, cell: str) -> None:
    """It gets everything, and the messages of each key in their order."""
    exchange = f"all-{cell}"
    cluster.shard(exchange)
    for client in cluster.clients.values():
        publisher = client.publisher()
        for key in KEYS[:30]:
            publisher.basic_publish(exchange, key, f"{client.cell} {key}".encode())
    got = [body.decode() for body in consume_for_a_while(cluster, cell, exchange, 90, **{"x-shard-all": True})]
    assert sorted(got) == sorted(f"{each} {key}" for each in CELLS for key in KEYS[:30])
    for key in KEYS[:30]:
        assert [body.split()[0] for body in got if body.endswith(f" {key}")] == list(cluster.clients)


@pytest.mark.feature("S2-16")
def test_by_default_a_consumer_gets_one_shard(cluster: Cluster) -> None:
    cluster.shard("one", "fanout")
    cluster.clients["c1"].publisher().basic_publish("one", "", b"message")
    for cell in CELLS:
        assert consume_for_a_while(cluster, cell, "one", 1) == [b"message"]
    assert sum(cluster.declared(shard).message_count for shard in shards_of("one", 2)) == 3


# ---- the pseudo-queue


@pytest.mark.feature("S2-19", "S2-20", "S2-25")
@pytest.mark.parametrize("cell", CELLS)
def test_declaring_the_pseudo_queue_returns_the_counts_of_the_first_local_shard(cluster: Cluster, cell: str) -> None:
    exchange = f"declared-{cell}"
    cluster.shard(exchange, "fanout")
    for _ in range(3):
        cluster.clients["c1"].publisher().basic_publish(exchange, "", b"message")
    channel = cluster.clients[cell].channel
    declared = channel.queue_declare(exchange, durable=True).method
    assert (declared.queue, declared.message_count) == (exchange, 3)
    listed = [row["name"] for row in cluster.api.get("queues/%2F")[1]]
    assert exchange not in listed


@pytest.mark.feature("S2-21", "S2-22", "S2-23", "S2-24", "S2-26")
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("method", ["bind", "unbind", "purge", "delete"])
def test_the_pseudo_queue_is_not_a_queue(cluster: Cluster, cell: str, method: str) -> None:
    exchange = "refused"
    if not cluster.bindings(exchange) if cluster.api.get("exchanges/%2F/refused")[0] == 200 else True:
        cluster.shard(exchange)
    channel = cluster.clients[cell].connection.channel()
    arguments = (exchange, "amq.direct") if method.endswith("bind") else (exchange,)
    with pytest.raises(ChannelClosedByBroker, match="pseudo-queue") as refused:
        getattr(channel, f"queue_{method}")(*arguments)
    assert refused.value.reply_code == 406


# ---- policies and plugins


@pytest.mark.feature("S2-27")
def test_more_shards_are_added_in_each_cell_and_stay_without_the_policy(cluster: Cluster) -> None:
    cluster.shard("grown", number=1)
    more = cluster.policy("grown", 2)
    assert set(cluster.bindings("grown")) == set(more)
    assert cluster.api.delete("policies/%2F/grown")[0] == 204
    for client in cluster.clients.values():
        client.publisher().basic_publish("grown", "key", b"message", mandatory=True)
    assert sum(len(cluster.bodies(shard, "c2")) for shard in more) == 3
    assert set(cluster.bindings("grown")) == set(more)


@pytest.mark.feature("S2-28")
def test_a_plugin_is_switched_in_all_cells(cluster: Cluster, tmp_path: Path) -> None:
    cli = Cli(cluster.broker.url("http"), tmp_path)

    def is_known(cell: str) -> bool:
        channel = cluster.clients[cell].connection.channel()
        try:
            channel.exchange_declare(f"switched-{cell}", "x-random")
        except ChannelClosedByBroker:
            return False
        channel.exchange_delete(f"switched-{cell}")
        channel.close()
        return True

    assert all(map(is_known, CELLS))
    cli.done("plugins", "disable", "random_exchange")
    try:
        until(lambda: not any(map(is_known, CELLS)))
    finally:
        cli.done("plugins", "enable", "random_exchange")
    until(lambda: all(map(is_known, CELLS)))
