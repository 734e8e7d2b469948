"""Connections that move from one cell to another, as sockets: two cells in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from leveret.broker.broker import Broker
from leveret.config import Settings
from leveret.queues.declared_queue import DeclaredQueue
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.cells_in_process import CellsInProcess
from tests.support.raw_client import RawClient, eventually

SETTINGS = Settings(amqp_port=0, stomp_port=None, http_port=None, shutdown_timeout=2.0, login_failure_delay=0.0)


@pytest.fixture(scope="module")
def cells() -> Iterator[CellsInProcess]:
    with CellsInProcess(SETTINGS) as running:
        with RawClient.open(running.url("c1")) as client:
            for queue in ("first", "second"):  # one in each cell, so that there are links
                client.call(QueueDeclare(queue), QueueDeclareOk)
        yield running


def declare(cells: CellsInProcess, client: RawClient, name: str) -> str:
    """Queues, until one of them lives in the second cell."""
    vhost = cells.broker("c1").vhost("/")
    for number in range(2):
        queue = f"{name}-{number}"
        client.send(QueueDeclare(queue, durable=True, nowait=True))
        client.call(ConfirmSelect(), ConfirmSelectOk)
        if cells.call(lambda queue=queue: vhost.queues[queue].home is not None):  # type: ignore[misc]
            return queue
    raise AssertionError("all queues live in the first cell")


def publish(client: RawClient, queue: str) -> None:
    client.publish("", queue, b"hello")


def publish_to_an_exchange(client: RawClient, queue: str) -> None:
    exchange = f"to {queue}"
    client.call(ExchangeDeclare(exchange, "fanout"), ExchangeDeclareOk)
    client.call(QueueBind(queue, exchange), QueueBindOk)
    client.publish(exchange, "", b"hello")


def consume(client: RawClient, queue: str) -> None:
    client.send(BasicConsume(queue, "tag"))


@pytest.mark.parametrize("use", [publish, publish_to_an_exchange, consume])
def test_what_a_client_has_just_declared_is_known_in_the_cell_that_it_moves_to(
    cells: CellsInProcess, use: Callable[[RawClient, str], None]
) -> None:
    """Its socket gets there before the definitions do, which come from the first cell."""
    with RawClient.open(cells.url("c1")) as client:
        with cells.definitions_held("c2"):
            queue = declare(cells, client, use.__name__)
            use(client, queue)
            eventually(lambda: not cells.connections("c1"))
        if use is consume:
            client.expect(BasicConsumeOk)
        else:
            client.expect(BasicAck)
            assert client.call(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count == 1
        assert len(cells.connections("c2")) == 1


def test_a_consumer_of_a_pseudo_queue_moves_to_the_cell_with_an_idle_shard(cells: CellsInProcess) -> None:
    brokers = [cells.broker(cell) for cell in ("c1", "c2")]

    def shard() -> None:
        definition = {"shards-per-node": 1, "ordered-resize": True}
        brokers[0].policies.set("/", "shards", "^orders$", definition, apply_to="exchanges")
        brokers[0].vhost("/").declare_exchange("orders", "x-modulus-hash")
        brokers[0].wake()

    def bound() -> list[int]:
        return [len(broker.vhost("/").bindings.of_source("orders")) for broker in brokers]

    cells.call(shard)
    eventually(lambda: cells.call(bound) == [2, 2])
    with RawClient.open(cells.url("c1")) as first, RawClient.open(cells.url("c1")) as second:
        for client in (first, second):
            client.send(BasicConsume("orders", "tag", no_ack=True))
            client.send(ConfirmSelect())  # behind it in the same read
            client.expect(BasicConsumeOk)
            client.expect(ConfirmSelectOk)
        for number in range(100):
            second.publish("orders", f"key {number}", b"hello")
        first.expect_content()
        assert sorted(len(cells.connections(cell)) for cell in ("c1", "c2")) == [1, 1]
        assert cells.call(lambda: [len(shard_of(broker).consumers) for broker in brokers]) == [1, 1]


def shard_of(broker: Broker) -> DeclaredQueue:
    (shard,) = broker.vhost("/").pools["orders"].local()
    return shard
