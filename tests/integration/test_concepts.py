"""The ideas of the broker, the same over the network and in the process: concepts and rules of the virtual host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pika
import pytest

import leveret
from leveret.broker.local import Delivered
from leveret.wire.properties import Properties
from tests.support.peers import LocalPeer, NetworkPeer, Peer, refused

# ---- the calls


@pytest.mark.feature("S4-04", "S4-05")
def test_the_nine_core_calls_work_alike_over_the_network_and_in_process(peer: Peer) -> None:
    """Declare and delete of queue and exchange, bind and unbind, publish, consume and ack."""
    peer.declare_exchange("orders", "direct", durable=True)
    assert peer.declare_queue("paid", durable=True) == "paid"
    peer.bind("paid", "orders", "pay")
    inbox = peer.consume("paid", tag="clerk")
    assert inbox.tag == "clerk"
    assert peer.publish("orders", "pay", b"42")
    (got,) = inbox.take()
    assert (got.body, got.exchange, got.key, got.redelivered, got.tag) == (b"42", "orders", "pay", False, 1)
    peer.ack(got.tag)
    peer.unbind("paid", "orders", "pay")
    assert not peer.publish("orders", "pay", b"nobody")
    peer.cancel("clerk")
    assert peer.delete_queue("paid") == 0
    peer.delete_exchange("orders")
    with refused(404, "no queue 'paid' in vhost '/'"):
        peer.count("paid")
    with refused(404, "no exchange 'orders' in vhost '/'"):
        peer.publish("orders", "pay")


@pytest.mark.feature("S4-04")
def test_what_is_made_in_process_is_seen_over_the_network_and_the_reverse(
    network: NetworkPeer, local: LocalPeer
) -> None:
    """One broker behind both ways."""
    local.declare_exchange("news", "topic")
    network.declare_queue("sports")
    local.bind("sports", "news", "sports.#")
    network.publish("news", "sports.tennis", b"from afar")
    local.publish("news", "sports.golf", b"from within")
    assert [local.get("sports").body, network.get("sports").body] == [b"from afar", b"from within"]  # type: ignore[union-attr]
    network.delete_queue("sports")
    with refused(404):
        local.count("sports")


@pytest.mark.feature("S4-05")
def test_many_channels_of_one_connection_are_independent(network: NetworkPeer) -> None:
    """Delivery tags are per channel, and an error in one leaves the others alone."""
    channels = [network.connection.channel() for _ in range(20)]
    queues = [channel.queue_declare("", exclusive=True).method.queue for channel in channels]
    for channel, queue in zip(channels, queues, strict=True):
        channel.basic_publish("", queue, queue.encode())
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channels[0].queue_declare("missing", passive=True)
    assert [channel.is_open for channel in channels] == [False] + [True] * 19
    for channel, queue in zip(channels[1:], queues[1:], strict=True):
        method, _, body = channel.basic_get(queue)
        assert (method.delivery_tag, body) == (1, queue.encode())
        channel.basic_ack(1)


@pytest.mark.feature("S4-05")
def test_a_connection_and_its_channels_open_and_close_in_order(leveret_broker: leveret.Broker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url))
    channel = connection.channel()
    channel.close()
    assert not channel.is_open
    assert connection.channel(5).channel_number == 5
    connection.close()
    assert connection.is_closed


# ---- many to many


@pytest.mark.feature("S4-01")
def test_many_producers_and_many_consumers_share_the_work(leveret_broker: leveret.Broker) -> None:
    """Every message is consumed once, by one of them, whoever sent it."""
    local = leveret_broker.vhost()
    local.declare_queue("work")
    done: SimpleQueue[tuple[int, bytes]] = SimpleQueue()

    def consumer(number: int) -> Callable[[Delivered], None]:
        def work(delivered: Delivered) -> None:
            local.ack(delivered.delivery_tag)
            done.put((number, delivered.body))

        return work

    for number in range(4):
        local.consume("work", consumer(number), prefetch=1)

    def produce(number: int) -> None:
        with pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for item in range(25):
                channel.basic_publish("", "work", f"{number}-{item}".encode())

    producers = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    results = [done.get(timeout=10) for _ in range(100)]
    expected = [f"{number}-{item}".encode() for number in range(4) for item in range(25)]
    assert sorted(body for _, body in results) == sorted(expected)
    assert {number for number, _ in results} == {0, 1, 2, 3}


@pytest.mark.feature("S4-03", "S4-08")
def test_an_exchange_feeds_many_queues_and_a_queue_is_fed_by_many_exchanges(peer: Peer) -> None:
    """The binding carries exchange, queue, key and arguments."""
    for exchange, kind in (("one", "direct"), ("two", "fanout")):
        peer.declare_exchange(exchange, kind)
    for queue in ("a", "b"):
        peer.declare_queue(queue)
        peer.bind(queue, "one", "k")
        peer.bind(queue, "two")
    assert peer.publish("one", "k", b"1")
    assert peer.publish("two", "whatever", b"2")
    for queue in ("a", "b"):
        assert [peer.get(queue).body, peer.get(queue).body] == [b"1", b"2"]  # type: ignore[union-attr]


# ---- what a message is

ALL_PROPERTIES: dict[str, object] = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "headers": {"tries": 3, "deep": {"list": [1, "two", None, True]}, "raw": b"\x00\xff".hex()},
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "mine-1",
    "type": "order",
    "user_id": "guest",
    "app_id": "shop",
    "cluster_id": "east",
}


@pytest.mark.feature("S4-09")
def test_every_property_and_any_bytes_travel_unchanged(peer: Peer) -> None:
    """Properties, both delivery modes, and a body of any bytes."""
    peer.declare_queue("q")
    body = bytes(range(256)) * 3000  # several frames
    peer.publish("", "q", body, **ALL_PROPERTIES)
    peer.publish("", "q", b"", delivery_mode=1)
    got = peer.get("q")
    assert got is not None
    assert (got.body, got.properties) == (body, ALL_PROPERTIES)
    assert peer.get("q").properties == {"delivery_mode": 1}  # type: ignore[union-attr]


@pytest.mark.feature("S4-11")
def test_a_message_without_properties_still_comes_with_properties(peer: Peer) -> None:
    """There are properties, and none of them is set."""
    peer.declare_queue("q")
    peer.publish("", "q", b"bare")
    got = peer.get("q")
    assert got is not None
    assert (got.body, got.properties) == (b"bare", {})


@pytest.mark.feature("S4-11")
def test_properties_are_an_object_even_when_none_were_published(leveret_broker: leveret.Broker) -> None:
    local = leveret_broker.vhost()
    local.declare_queue("q")
    local.publish("", "q", b"bare")
    delivered = local.get("q")
    assert delivered is not None
    assert delivered.properties == Properties()


@pytest.mark.feature("S4-10")
def test_each_message_has_an_id_of_the_broker_beside_the_applications(
    leveret_broker: leveret.Broker, network: NetworkPeer
) -> None:
    """Two messages with one message_id are told apart; the application's id is not touched, nor made up."""
    local = leveret_broker.vhost()
    local.declare_queue("q")
    for _ in range(2):
        network.publish("", "q", b"", message_id="same")
        local.publish("", "q", b"", Properties(message_id="same"))
    network.publish("", "q", b"")
    got = [delivered for _ in range(5) if (delivered := local.get("q")) is not None]
    assert len({delivered.id for delivered in got}) == 5
    assert [delivered.properties.message_id for delivered in got] == ["same"] * 4 + [None]
    local.nack(got[0].delivery_tag)
    again = local.get("q")
    assert again is not None
    assert (again.id, again.redelivered) == (got[0].id, True)
