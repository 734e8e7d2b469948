"""x-max-length, x-max-length-bytes and x-overflow, over a socket and in the process."""

from __future__ import annotations

import pika
import pytest
from pika.exceptions import NackError

import leveret
from tests.support.peers import NetworkPeer, Peer, Refused, inside, refused

pytestmark = pytest.mark.broker(clock=leveret.FrozenClock)


def ready(peer: Peer, queue: str) -> list[bytes]:
    taken = []
    while (got := peer.get(queue)) is not None:
        taken.append(got.body)
    return taken


def publish_all(peer: Peer, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        peer.publish("", queue, body)


def is_refused(peer: Peer, queue: str, body: bytes) -> bool:
    """Whether the publisher was told no."""
    try:
        peer.publish("", queue, body)
    except (NackError, Refused):
        return True
    return False


@pytest.mark.feature("S0-24")
def test_the_oldest_go_when_there_are_too_many(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-max-length": 2})
    publish_all(peer, "q", b"a", b"b", b"c")
    assert peer.count("q") == 2
    assert ready(peer, "q") == [b"b", b"c"]


@pytest.mark.feature("S0-24")
def test_they_go_to_the_dead_letters(peer: Peer) -> None:
    peer.declare_queue("dead")
    arguments = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer.declare_queue("q", arguments=arguments)
    publish_all(peer, "q", b"a", b"b", b"c")
    assert ready(peer, "dead") == [b"a", b"b"]


def test_bytes_are_limited(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-max-length-bytes": 10})
    publish_all(peer, "q", b"12345", b"67890", b"x")
    assert ready(peer, "q") == [b"67890", b"x"]


def test_a_full_queue_refuses(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert [is_refused(peer, "q", body) for body in (b"a", b"b")] == [False, True]
    assert ready(peer, "q") == [b"a"]
    assert not is_refused(peer, "q", b"c")


def test_a_refused_message_may_be_a_dead_letter(peer: Peer) -> None:
    peer.declare_queue("dead")
    peer.declare_queue(
        "q",
        arguments={
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    assert [is_refused(peer, "q", body) for body in (b"a", b"b")] == [False, True]
    assert [ready(peer, queue) for queue in ("q", "dead")] == [[b"a"], [b"b"]]


def test_a_consumer_keeps_a_small_queue_open(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    inbox = peer.consume("q", auto_ack=True)
    bodies = [b"%d" % number for number in range(50)]
    assert not any(is_refused(peer, "q", body) for body in bodies)
    assert inbox.bodies(50) == bodies


def test_a_pipeline_of_publishes_is_answered_one_by_one(network: NetworkPeer, leveret_broker: leveret.Broker) -> None:
    """Sent in one go, without waiting for answers."""
    network.declare_queue("q", arguments={"x-max-length": 10, "x-overflow": "reject-publish"})
    channel = network.connection.channel()
    for number in range(100):
        channel.basic_publish("", "q", b"%d" % number, pika.BasicProperties())
    channel.close()
    assert ready(network, "q") == [b"%d" % number for number in range(10)]


@pytest.mark.feature("S1-26")
def test_older_messages_of_a_slow_subscriber_are_discarded(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("q", arguments={"x-pending-message-limit": 10})
    publish_all(peer, "q", *[b"%d" % number for number in range(25)])
    assert ready(peer, "q") == [b"%d" % number for number in range(15, 25)]
    assert inside(leveret_broker, "q").counters.dropped == 15


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-max-length", -1),
        ("x-max-length", "5"),
        ("x-max-length-bytes", -1),
        ("x-overflow", "sideways"),
        ("x-overflow", 5),
        ("x-delivery-limit", -2),
        ("x-consumer-timeout", 0),
        ("x-retry-delays", [-1]),
        ("x-dead-letter-strategy", "none"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(peer: Peer, name: str, value: object) -> None:
    with refused(406, name, str(value if not isinstance(value, list) else value[0])):
        peer.declare_queue("q", arguments={name: value})


def test_a_limit_is_kept_over_a_change_of_what_waits(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """Nacked, expired and fresh ones together."""
    peer.declare_queue("q", arguments={"x-max-length": 2})
    peer.publish("", "q", b"a")
    peer.publish("", "q", b"short", expiration="1000")
    held = peer.get("q", auto_ack=False)
    assert held is not None
    peer.publish("", "q", b"b")
    assert peer.count("q") == 2
    leveret_broker.clock.advance(1)
    peer.nack(held.tag)
    assert ready(peer, "q") == [b"a", b"b"]
