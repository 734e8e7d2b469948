"""Sharding with real clients: resized in order under load, and the pseudo-queue as pika sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

import leveret
from tests.support.key_order import KeyConsumer, KeyOrder, KeyPublisher

KEYS = 1_000
MESSAGES = 100_000
PUBLISHERS = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[leveret.Broker]:
    settings = leveret.Settings(data_dir=tmp_path, amqp_port=0, http_port=None, stomp_port=None)
    with leveret.Broker(settings) as running:
        yield running


def shard(broker: leveret.Broker, number: int, *, ordered: bool = True) -> None:
    definition = {"shards-per-node": number, "ordered-resize": ordered}
    broker.vhost().set_policy("shards", "^images$", definition, apply_to="exchanges")


def shard_names(broker: leveret.Broker, number: int) -> list[str]:
    return [f"sharding: images - {broker.node.broker.node_name} - {index}" for index in range(number)]


def is_settled(broker: leveret.Broker) -> bool:
    sharded = broker.node.sharding.find("/", "images")
    assert sharded is not None
    assert sharded.slots is not None
    return broker.call(lambda: sharded.slots.is_settled)  # type: ignore[union-attr]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("everything", "channels", "prefetch"),
    [pytest.param(True, 1, 1000, id="x-shard-all"), pytest.param(False, 16, 100, id="16 consumers")],
)
def test_resized_4_8_2_under_load_without_loss_duplicate_or_inversion(
    broker: leveret.Broker, everything: bool, channels: int, prefetch: int
) -> None:
    """1,000 keys, 100,000 messages, 4 publishers with confirms; consumers ack one by one and send some back.

    First deliveries and acks of each key are in order; each message is acked, and none comes twice.
    """
    broker.vhost().declare_exchange("images", "x-modulus-hash", durable=True)
    shard(broker, 4)
    order = KeyOrder()
    keys = [f"key{number}" for number in range(KEYS)]
    publishers = [
        KeyPublisher(broker.amqp_url, order, keys[first::PUBLISHERS], MESSAGES // PUBLISHERS, first)
        for first in range(PUBLISHERS)
    ]
    consumer = KeyConsumer(
        broker.amqp_url,
        order,
        MESSAGES,
        channels=channels,
        prefetch=prefetch,
        everything=everything,
    )
    milestones = []
    for received, number in ((MESSAGES // 5, 8), (MESSAGES // 2, 2)):
        resized = threading.Event()
        milestones.append((order.reaches(received, until=resized), number, resized))
    for thread in (*publishers, consumer):
        thread.start()
    for reached, number, resized in milestones:
        assert reached.wait(120), order.received
        shard(broker, number)
        assert not is_settled(broker)  # the consumer holds unacknowledged messages of slots that move
        resized.set()
    for thread in (*publishers, consumer):
        thread.join(150)
        assert not thread.is_alive(), f"{order.received} received, missing {list(order.missing().items())[:5]}"
        assert thread.failure is None, thread.failure
    order.assert_kept()
    assert order.received == MESSAGES
    assert order.duplicates == 0
    assert order.requeued > 10
    assert is_settled(broker)
    names = shard_names(broker, 8)
    assert [broker.vhost().message_count(name) for name in names] == [0] * 8
    bound = {binding.destination.name for binding in broker.node.broker.vhost("/").bindings.of_source("images")}
    assert bound == set(names[:2])


@pytest.mark.feature("S2-04", "S2-14", "S2-20", "S2-23")
def test_the_pseudo_queue_as_pika_sees_it(broker: leveret.Broker) -> None:
    broker.vhost().declare_exchange("images", "x-modulus-hash", durable=True)
    shard(broker, 3, ordered=False)
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    assert channel.queue_declare("images", durable=True).method.queue == "images"
    got: list[bytes] = []
    for _ in range(3):
        channel.basic_consume("images", lambda _, __, ___, body: got.append(body), auto_ack=True)
    for number in range(50):
        channel.basic_publish("images", str(number), b"%d" % number)
    while len(got) < 50:
        connection.process_data_events(1)
    assert sorted(got, key=int) == [b"%d" % number for number in range(50)]
    with pytest.raises(ChannelClosedByBroker, match=r"queue\.purge is not possible on pseudo-queue 'images'"):
        channel.queue_purge("images")
    connection.close()


@pytest.mark.feature("S2-02", "S2-27")
def test_a_node_that_starts_again_has_its_shards(tmp_path: Path) -> None:
    settings = leveret.Settings(data_dir=tmp_path, amqp_port=0, http_port=None, stomp_port=None)
    with leveret.Broker(settings) as broker:
        broker.vhost().declare_exchange("images", "x-modulus-hash", durable=True)
        shard(broker, 2, ordered=False)
        names = shard_names(broker, 3)
    with leveret.Broker(settings) as broker:
        assert set(names[:2]) <= set(broker.node.broker.vhost("/").queues)
        shard(broker, 3, ordered=False)
        assert set(names) <= set(broker.node.broker.vhost("/").queues)
