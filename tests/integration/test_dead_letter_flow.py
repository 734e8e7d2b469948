"""Dead letters, delivery limits, retries and ack timeouts as clients meet them, over a socket and in the process."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import leveret
from tests.integration.conftest import NewPeer
from tests.support.peers import Got, Peer, inside

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


pytestmark = pytest.mark.broker(clock=leveret.FrozenClock)


def headers_of(got: Got | None) -> Mapping[str, object]:
    assert got is not None
    headers = got.properties.get("headers", {})
    assert isinstance(headers, dict)
    return headers


def refuse(peer: Peer, queue: str, *, requeue: bool = False) -> Got:
    got = peer.get(queue, auto_ack=False)
    assert got is not None
    peer.nack(got.tag, requeue=requeue)
    return got


@pytest.mark.feature("S1-12", "S4-76")
def test_what_is_refused_goes_to_the_dead_letters_with_its_story(peer: Peer) -> None:
    peer.declare_exchange("dlx", "fanout")
    peer.declare_queue("dead")
    peer.bind("dead", "dlx")
    peer.declare_queue("q", arguments={"x-dead-letter-exchange": "dlx"})
    peer.publish("", "q", b"m", headers={"mine": "yes"})
    refuse(peer, "q")
    letter = peer.get("dead")
    assert letter is not None
    assert (letter.body, letter.exchange, letter.key) == (b"m", "dlx", "q")
    headers = headers_of(letter)
    assert (headers["mine"], headers["x-first-death-reason"]) == ("yes", "rejected")
    (death,) = headers["x-death"]  # type: ignore[misc]
    assert {name: death[name] for name in ("count", "reason", "queue", "exchange", "routing-keys")} == {
        "count": 1,
        "reason": "rejected",
        "queue": "q",
        "exchange": "",
        "routing-keys": ["q"],
    }


@pytest.mark.feature("S0-22", "S0-25")
def test_what_expires_goes_there_too(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("dead")
    peer.declare_queue("q", arguments={"x-message-ttl": 1000, **TO_DEAD})
    peer.declare_queue("zero", arguments={"x-message-ttl": 0, **TO_DEAD})
    peer.publish("", "zero", b"at once")
    peer.publish("", "q", b"later")
    assert peer.count("dead") == 1
    leveret_broker.clock.advance(1)
    assert [peer.get("dead").body for _ in range(2)] == [b"at once", b"later"]  # type: ignore[union-attr]


def test_a_ladder_of_queues_makes_a_delay(peer: Peer, leveret_broker: leveret.Broker) -> None:
    """The usual retry with RabbitMQ: a queue that nobody consumes sends back what is old enough."""
    peer.declare_queue("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "later"})
    arguments = {"x-message-ttl": 5000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    peer.declare_queue("later", arguments=arguments)
    peer.publish("", "work", b"m")
    for round_ in range(1, 4):
        refuse(peer, "work")
        assert peer.count("work") == 0
        leveret_broker.clock.advance(5)
        assert peer.count("work") == 1
        inside_it = peer.get("work", auto_ack=False)
        deaths = headers_of(inside_it)["x-death"]
        assert [(each["queue"], each["count"]) for each in deaths] == [("later", round_), ("work", round_)]  # type: ignore[attr-defined]
        assert inside_it is not None
        peer.nack(inside_it.tag)


@pytest.mark.feature("S1-20", "S1-21", "S1-27")
def test_poison_is_given_up(peer: Peer) -> None:
    """After six redeliveries it lies in ActiveMQ.DLQ, from which it can be consumed."""
    peer.declare_queue("q", arguments={"x-dead-letter-strategy": "shared"})
    peer.publish("", "q", b"poison", delivery_mode=2)
    for _ in range(7):
        refuse(peer, "q", requeue=True)
    assert peer.get("q") is None
    assert peer.consume("ActiveMQ.DLQ", auto_ack=True).bodies(1) == [b"poison"]


def test_the_count_of_deliveries_is_told(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-delivery-limit": 5})
    peer.publish("", "q", b"m")
    told = [headers_of(refuse(peer, "q", requeue=True)).get("x-delivery-count") for _ in range(3)]
    assert told == [None, 1, 2]


def test_a_consumer_is_told_the_count(peer: Peer) -> None:
    peer.declare_queue("q", arguments={"x-delivery-limit": 5})
    inbox = peer.consume("q")
    peer.publish("", "q", b"m")
    told = []
    for _ in range(3):
        (got,) = inbox.take()
        told.append(headers_of(got).get("x-delivery-count"))
        peer.nack(got.tag)
    assert told == [None, 1, 2]


@pytest.mark.feature("S1-14")
def test_a_retry_comes_when_its_time_has_come(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("dead")
    peer.declare_queue("q", arguments={"x-retry-delays": [1000, 5000], **TO_DEAD})
    inbox = peer.consume("q")
    peer.publish("", "q", b"m")
    for delay in (1, 5):
        (got,) = inbox.take()
        peer.nack(got.tag)
        leveret_broker.clock.advance(delay - 0.1)
        assert inbox.rest() == []
        leveret_broker.clock.advance(0.1)
    (got,) = inbox.take()
    peer.nack(got.tag)
    assert headers_of(peer.get("dead"))["x-first-death-reason"] == "delivery_limit"


@pytest.mark.feature("S1-15")
def test_one_of_several_is_refused_and_no_other(peer: Peer) -> None:
    """Individual answers, whatever else is held."""
    peer.declare_queue("dead")
    peer.declare_queue("q", arguments=TO_DEAD)
    for body in (b"a", b"b", b"c"):
        peer.publish("", "q", body)
    held = [peer.get("q", auto_ack=False) for _ in range(3)]
    assert held[1] is not None
    peer.nack(held[1].tag, requeue=False)
    assert [peer.count("q"), peer.count("dead")] == [0, 1]
    assert peer.get("dead").body == b"b"  # type: ignore[union-attr]


@pytest.mark.feature("S1-17")
def test_what_is_too_old_when_it_comes_back_has_expired(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("dead")
    peer.declare_queue("q", arguments=TO_DEAD)
    peer.publish("", "q", b"m", expiration="1000")
    got = peer.get("q", auto_ack=False)
    leveret_broker.clock.advance(2)
    assert got is not None
    peer.nack(got.tag)
    assert headers_of(peer.get("dead"))["x-first-death-reason"] == "expired"


@pytest.mark.feature("S4-53")
def test_a_message_that_is_never_answered_goes_back(
    peer: Peer, new_peer: NewPeer, leveret_broker: leveret.Broker
) -> None:
    """Its channel lives, the late answer is ignored, and another consumer has it."""
    peer.declare_queue("q", arguments={"x-consumer-timeout": 10_000})
    stuck = peer.consume("q", prefetch=1)
    peer.publish("", "q", b"m")
    (got,) = stuck.take()
    other = new_peer()
    peer.cancel(stuck.tag)
    inbox = other.consume("q")
    leveret_broker.clock.advance(10)
    (again,) = inbox.take()
    assert (again.body, again.redelivered) == (b"m", True)
    peer.ack(got.tag)
    assert inside(leveret_broker, "q").unacked == 1
    other.ack(again.tag)
    assert inside(leveret_broker, "q").unacked == 0
    peer.publish("", "q", b"the channel lives")
    assert inbox.bodies(1) == [b"the channel lives"]


@pytest.mark.feature("S4-53")
def test_by_policy_of_the_queue_it_goes_to_the_dead_letters(peer: Peer, leveret_broker: leveret.Broker) -> None:
    peer.declare_queue("dead")
    peer.declare_queue("q", arguments={"x-consumer-timeout": 10_000, "x-delivery-limit": 0, **TO_DEAD})
    peer.publish("", "q", b"m")
    assert peer.get("q", auto_ack=False) is not None
    leveret_broker.clock.advance(10)
    assert [peer.count("q"), peer.count("dead")] == [0, 1]


def test_a_thousand_dead_letters_keep_their_order(peer: Peer) -> None:
    peer.declare_queue("dead")
    peer.declare_queue("q", arguments={"x-max-length": 0, **TO_DEAD})
    inbox = peer.consume("dead", auto_ack=True)
    bodies = [b"%d" % number for number in range(1000)]
    for body in bodies:
        peer.publish("", "q", body)
    assert inbox.bodies(1000) == bodies
