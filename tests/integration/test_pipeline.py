"""The path of a message through the broker, as clients and counters show it: FEATURES section 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import pika
import pytest

import leveret
from tests.compat.waiting import pump
from tests.integration.conftest import NewPeer
from tests.support.peers import LocalPeer, NetworkPeer, Peer, inside
from tests.support.remote_queues import ManualLog, make_remote


class Told(NamedTuple):
    """What an exchange and a queue have counted."""

    published: int
    routed: int
    unroutable: int


def told_by(broker: leveret.Broker, exchange: str) -> Told:
    def read() -> Told:
        counters = broker.node.broker.vhost("/").counters_of(exchange)
        return Told(counters.published, counters.routed, counters.unroutable)

    return broker.call(read)


class Publisher:
    """A channel in confirm mode that notes every return, ack and nack in the order they came."""

    def __init__(self, peer: NetworkPeer) -> None:
        self.peer = peer
        self.heard: list[tuple[str, object]] = []
        self.channel: Any = peer.connection.channel()
        impl = self.channel._impl
        impl.confirm_delivery(self._verdict)
        impl.add_on_return_callback(lambda *args: self.heard.append(("return", args[3])))
        peer.connection.process_data_events(0)

    def _verdict(self, frame: Any) -> None:
        self.heard.append((frame.method.NAME.removeprefix("Basic.").lower(), frame.method.delivery_tag))

    def publish(self, exchange: str, key: str, body: bytes = b"m", mandatory: bool = False) -> None:
        self.channel._impl.basic_publish(exchange, key, body, None, mandatory)

    def hears(self, number: int) -> list[tuple[str, object]]:
        pump(self.peer.connection, lambda: len(self.heard) >= number)
        self.peer._settle()
        return self.heard


# ---- straight to a consumer


@pytest.mark.feature("S0-16", "S0-20")
def test_a_ready_consumer_gets_a_message_straight_and_it_goes_no_further(
    peer: Peer, leveret_broker: leveret.Broker
) -> None:
    """The queue's observers never see it ready, and it is not enqueued besides."""
    peer.declare_queue("q")
    inbox = peer.consume("q")
    seen: list[tuple[int, int]] = []

    def watch() -> None:
        queue = leveret_broker.node.broker.vhost("/").queue("q")
        queue.observers.append(lambda queue: seen.append((queue.ready, queue.unacked)))

    leveret_broker.call(watch)
    peer.publish("", "q", b"straight")
    (got,) = inbox.take()
    assert all(ready == 0 for ready, _ in seen)
    assert (0, 1) in seen
    assert peer.count("q") == 0
    peer.ack(got.tag)
    assert inbox.rest() == []
    queue = inside(leveret_broker, "q")
    assert (queue.counters.received, queue.counters.delivered, queue.counters.acked) == (1, 1, 1)


@pytest.mark.feature("S0-20")
def test_without_a_ready_consumer_a_message_is_enqueued(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """The other branch; a consumer whose prefetch is used up is not ready."""
    peer.declare_queue("q")
    inbox = peer.consume("q", prefetch=1)
    for body in (b"1", b"2"):
        peer.publish("", "q", body)
    (first,) = inbox.take()
    assert (peer.count("q"), inside(leveret_broker, "q").unacked) == (1, 1)
    peer.ack(first.tag)
    assert inbox.bodies(1) == [b"2"]


@pytest.mark.feature("S0-01")
def test_a_queue_that_vanished_is_skipped(peer: Peer) -> None:
    """The others on the route get the message."""
    for queue in ("a", "b"):
        peer.declare_queue(queue)
        peer.bind(queue, "amq.fanout")
    assert peer.publish("amq.fanout", "")
    peer.delete_queue("a")
    assert peer.publish("amq.fanout", "")
    assert peer.count("b") == 2
    peer.delete_queue("b")
    assert not peer.publish("amq.fanout", "")


# ---- mandatory and confirms


@pytest.mark.feature("S0-08", "S0-10", "S0-13", "S4-74")
def test_unroutable_is_returned_if_mandatory_and_confirmed_after_that(network: NetworkPeer) -> None:
    """Return, then ack; without mandatory only the ack."""
    publisher = Publisher(network)
    publisher.publish("", "nobody", b"back to me", mandatory=True)
    publisher.publish("", "nobody", b"dropped")
    assert publisher.hears(3) == [("return", b"back to me"), ("ack", 1), ("ack", 2)]


@pytest.mark.feature("S0-12", "S4-74")
def test_transient_messages_and_queues_are_confirmed_at_once(network: NetworkPeer) -> None:
    """Every publish has its number, and each is confirmed once."""
    network.declare_queue("q")
    publisher = Publisher(network)
    for number in range(100):
        publisher.publish("", "q", str(number).encode(), mandatory=True)
    pump(network.connection, lambda: ("ack", 100) in publisher.heard)  # the last one may cover those before it
    assert {kind for kind, _ in publisher.heard} == {"ack"}
    tags = [tag for _, tag in publisher.heard]
    assert len(set(tags)) == len(tags)
    assert network.count("q") == 100


def slow_queue(broker: leveret.Broker, name: str, copies: int = 1) -> ManualLog:
    """Make the queue one that answers later, when its log is told to."""
    return broker.call(lambda: make_remote(broker.node.broker.vhost("/"), name, copies))


@pytest.mark.feature("S0-09")
def test_a_mandatory_message_whose_queues_die_first_is_returned(
    network: NetworkPeer, leveret_broker: leveret.Broker, local: LocalPeer
) -> None:
    """All of them; then it is confirmed, since nothing is owed any more."""
    for name in ("a", "b"):
        network.declare_queue(name)
        network.bind(name, "amq.fanout")
        slow_queue(leveret_broker, name)
    publisher = Publisher(network)
    publisher.publish("amq.fanout", "", b"nobody's", mandatory=True)
    network._settle()
    local.delete_queue("a")
    network._settle()
    assert publisher.heard == [], "one queue may still take it"
    local.delete_queue("b")
    assert publisher.hears(2) == [("return", b"nobody's"), ("ack", 1)]


@pytest.mark.feature("S0-07", "S0-09")
def test_a_mandatory_message_that_one_queue_received_is_not_returned(
    network: NetworkPeer, leveret_broker: leveret.Broker, local: LocalPeer
) -> None:
    """The channel has forgotten it by then."""
    for name in ("a", "b"):
        network.declare_queue(name)
        network.bind(name, "amq.fanout")
    log, _ = slow_queue(leveret_broker, "a"), slow_queue(leveret_broker, "b")
    publisher = Publisher(network)
    publisher.publish("amq.fanout", "", mandatory=True)
    network._settle()
    leveret_broker.call(log.let_in)
    local.delete_queue("b")
    assert publisher.hears(1) == [("nack", 1)], "owed to two, arrived at one"
    assert local.count("a") == 1


@pytest.mark.feature("S0-26", "S0-27")
def test_a_dying_queue_settles_what_it_owed(
    network: NetworkPeer, leveret_broker: leveret.Broker, local: LocalPeer
) -> None:
    """A nack for what never arrived, and the publisher is not held up."""
    network.declare_queue("q")
    slow_queue(leveret_broker, "q")
    publisher = Publisher(network)
    publisher.publish("", "q")
    network._settle()
    assert publisher.heard == []
    local.delete_queue("q")
    assert publisher.hears(1) == [("nack", 1)]


@pytest.mark.feature("S0-14", "S4-74")
def test_a_message_is_confirmed_once_every_queue_has_it(
    network: NetworkPeer, leveret_broker: leveret.Broker, local: LocalPeer
) -> None:
    """The slowest of three decides, a replica among them."""
    for name in ("quick", "slow", "replicated"):
        network.declare_queue(name)
        network.bind(name, "amq.fanout")
    slow, replicated = slow_queue(leveret_broker, "slow"), slow_queue(leveret_broker, "replicated", copies=2)
    publisher = Publisher(network)
    publisher.publish("amq.fanout", "")
    network._settle()
    leveret_broker.call(slow.let_in)
    leveret_broker.call(lambda: (replicated.receive(), replicated.grant(copy=0)))
    network._settle()
    assert (local.count("quick"), local.count("slow"), publisher.heard) == (1, 1, [])
    leveret_broker.call(replicated.grant)
    assert publisher.hears(1) == [("ack", 1)]


# ---- statistics


@pytest.mark.feature("S0-28")
def test_exchanges_and_queues_count_every_publish(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """In, routed, unroutable per exchange; received, delivered, acked and more per queue."""
    peer.declare_exchange("x", "direct")
    for name in ("a", "b"):
        peer.declare_queue(name)
        peer.bind(name, "x", "both")
    peer.bind("a", "x", "one")
    for key in ("both", "one", "one", "none"):
        peer.publish("x", key)
    assert told_by(leveret_broker, "x") == Told(published=4, routed=3, unroutable=1)
    assert [inside(leveret_broker, name).counters.received for name in ("a", "b")] == [3, 1]
    held = peer.get("a", auto_ack=False)
    assert held is not None
    peer.nack(held.tag)
    peer.get("a")
    inbox = peer.consume("a")
    for got in inbox.take(2):
        peer.nack(got.tag, requeue=False)
    counters = inside(leveret_broker, "a").counters
    assert (counters.got, counters.requeued, counters.redelivered) == (2, 1, 1)
    assert (counters.delivered, counters.delivered_no_ack, counters.dropped, counters.acked) == (2, 0, 2, 0)
    peer.purge_queue("b")
    assert inside(leveret_broker, "b").counters.purged == 1


@pytest.mark.feature("S0-28")
def test_the_memory_that_messages_hold_is_counted_and_given_back(
    new_peer: NewPeer, leveret_broker: leveret.Broker
) -> None:
    """By ack, purge, delete and expiry; nothing drifts."""

    def held() -> int:
        return leveret_broker.call(lambda: leveret_broker.node.broker.gauge.used)

    peer = new_peer()
    for name in ("acked", "purged", "deleted", "expired", "refused"):
        peer.declare_queue(name)
        for _ in range(5):
            peer.publish("", name, bytes(1000), **({"expiration": "1000"} if name == "expired" else {}))
    assert held() > 25_000
    for got in peer.consume("acked").take(5):
        peer.ack(got.tag)
    for got in peer.consume("refused").take(5):
        peer.nack(got.tag, requeue=False)
    peer.purge_queue("purged")
    peer.delete_queue("deleted")
    leveret_broker.clock.advance(1)
    assert peer.count("expired") == 0
    assert held() == 0


@pytest.mark.feature("S0-19")
def test_observers_of_a_queue_hear_of_every_change(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Empty, not empty, consumers."""
    peer.declare_queue("q")
    seen: list[tuple[int, int]] = []

    def watch() -> None:
        queue = leveret_broker.node.broker.vhost("/").queue("q")
        queue.observers.append(lambda queue: seen.append((queue.ready, len(queue.consumers))))

    leveret_broker.call(watch)
    peer.publish("", "q")
    inbox = peer.consume("q")
    inbox.take()
    peer.cancel(inbox.tag)
    order = [state for place, state in enumerate(seen) if place == 0 or seen[place - 1] != state]
    assert order == [(1, 0), (0, 1), (0, 0)]


@pytest.mark.feature("S0-01")
def test_order_holds_from_one_publisher_to_one_consumer_whatever_the_path(leveret_broker: leveret.Broker) -> None:
    """Small and large, with and without properties, in one stream."""
    peer = NetworkPeer(leveret_broker.amqp_url)
    inbox = peer.consume(peer.declare_queue("q"), auto_ack=True)
    shapes: list[tuple[int, pika.BasicProperties | None]] = [
        (1, None),
        (200_000, None),
        (0, pika.BasicProperties(delivery_mode=2)),
        (10, pika.BasicProperties(headers={"CC": []})),
        (10, pika.BasicProperties(expiration="60000", priority=3)),
        (10, pika.BasicProperties(user_id="guest", message_id="m")),
    ]
    for number in range(120):
        size, properties = shapes[number % len(shapes)]
        peer.channel.basic_publish("", "q", b"%d:" % number + bytes(size), properties)
    numbers = [int(body.partition(b":")[0]) for body in inbox.bodies(120)]
    assert numbers == list(range(120))
    peer.close()


@pytest.mark.parametrize("kind", ["transient", "persistent"])
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.feature("S4-09", "S4-74")
def test_persistent_and_transient_messages_go_through_every_kind_of_queue(peer: Peer, kind: str, durable: bool) -> None:
    """In memory all four are alike; pika's publish waits for the confirm."""
    peer.declare_queue("q", durable=durable)
    assert peer.publish("", "q", b"m", delivery_mode=2 if kind == "persistent" else 1)
    got = peer.get("q")
    assert got is not None
    assert got.properties == {"delivery_mode": 2 if kind == "persistent" else 1}
