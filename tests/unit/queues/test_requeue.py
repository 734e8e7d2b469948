"""Messages that come back: delivery limits, x-delivery-count and retries (S1-14, S1-20)."""

from __future__ import annotations

import pytest

from leveret.wire.methods import BasicCancel, BasicRecover, QueueDelete, QueuePurge
from tests.support.peer_pair import Client, Content, Harness

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def client(harness: Harness) -> Client:
    made = harness.client()
    made.declare("dead")
    return made


def count_of(got: Content | None) -> object:
    """What the message says of how often it came back."""
    assert got is not None
    return (got.properties.headers or {}).get("x-delivery-count")


def got(client: Client, queue: str = "q") -> Content:
    found = client.get(queue)
    assert found is not None
    return found


def refuse(client: Client, queue: str = "q") -> Content:
    """Take the first, and give it back."""
    found = got(client, queue)
    client.nack(found.tag)
    return found


def story(client: Client) -> tuple[bytes, object] | None:
    """What lies in ``dead`` first, and the reason of its death."""
    found = client.get("dead", no_ack=True)
    return None if found is None else (found.body, (found.properties.headers or {}).get("x-first-death-reason"))


# ---- delivery limits


def test_a_message_that_came_back_too_often_is_dead(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 2, **DEAD})
    client.publish("q", b"m")
    assert [count_of(refuse(client)) for _ in range(3)] == [None, 1, 2]
    assert client.get("q") is None
    assert story(client) == (b"m", "delivery_limit")
    assert (harness.queue("q").bytes, harness.queue("q").unacked) == (0, 0)


def test_without_a_dead_letter_exchange_it_is_gone(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 0})
    client.publish("q", b"m")
    refuse(client)
    assert (harness.queue("q").ready, harness.queue("q").bytes, harness.queue("q").counters.dropped) == (0, 0, 1)


def test_a_consumer_is_told_the_count_from_the_second_delivery_on(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 5})
    client.consume("q")
    client.publish("q", b"m", headers={"mine": 1}, message_id="id")
    told = []
    for _ in range(3):
        (content,) = [each for each in client.heard() if isinstance(each, Content)]
        told.append(content.properties.headers)
        assert content.properties.message_id == "id"
        client.nack(content.tag)
    assert told == [{"mine": 1}, {"mine": 1, "x-delivery-count": 1}, {"mine": 1, "x-delivery-count": 2}]


def test_a_queue_without_a_limit_tells_no_count(client: Client) -> None:
    client.declare("q")
    client.publish("q", b"m")
    assert [count_of(refuse(client)) for _ in range(30)] == [None] * 30


def test_a_quorum_queue_has_a_limit_of_twenty(client: Client) -> None:
    client.declare("q", durable=True, arguments={"x-queue-type": "quorum", **DEAD})
    client.publish("q", b"m")
    assert [count_of(refuse(client)) for _ in range(21)] == [None, *range(1, 21)]
    assert story(client) == (b"m", "delivery_limit")


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_minus_one_is_no_limit(client: Client, queue_type: str) -> None:
    client.declare("q", durable=True, arguments={"x-queue-type": queue_type, "x-delivery-limit": -1})
    client.publish("q", b"m")
    for _ in range(100):
        refuse(client)
    assert client.count("q") == 1


def test_a_lost_connection_counts(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 1, **DEAD})
    client.publish("q", b"m")
    for expected in (None, 1):
        other = harness.client()
        assert count_of(other.get("q")) == expected
        other.vanish()
    assert story(client) == (b"m", "delivery_limit")


def test_recover_counts(client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 5})
    client.publish("q", b"m")
    got(client)
    client.ask(BasicRecover(True))
    assert count_of(client.get("q")) == 1


def test_each_message_has_its_own_count(client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 1, **DEAD})
    client.publish("q", b"a", b"b")
    refuse(client)
    first, second = got(client), got(client)
    assert [first.body, second.body] == [b"a", b"b"]
    client.nack(second.tag, multiple=True)
    assert story(client) == (b"a", "delivery_limit")
    assert [count_of(client.get("q"))] == [1]


def test_many_that_come_back_together_die_in_order(client: Client) -> None:
    client.declare("q", arguments={"x-delivery-limit": 0, **DEAD})
    bodies = [b"%d" % number for number in range(700)]
    client.consume("q")
    client.publish("q", *bodies)
    client.heard()
    client.nack(0, multiple=True)
    client.send(BasicCancel("tag", nowait=True))
    client.consume("dead", "dead", no_ack=True)
    assert client.bodies() == bodies


def test_a_message_with_malformed_headers_is_given_again_without_its_count(harness: Harness, client: Client) -> None:
    """Tables are not looked into when they come; what cannot be read is passed on as it is."""
    client.declare("q", arguments={"x-delivery-limit": 5})
    frames = client.published("", "q", b"m", headers={"a": "bbbbbbbb"})
    client.feed(frames.replace(b"\x01aS\x00\x00\x00\x08", b"\x01aS\x00\x00\x00\x99"))
    assert harness.queue("q").ready == 1
    taken = harness.queue("q").get(False)
    assert taken is not None
    harness.queue("q").requeue(taken.lane, taken.sequence, [taken.message], taken.delivery_count)
    harness.rest()
    client.consume("q")
    harness.turn()
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (0, 1)
    assert taken.message[0] in bytes(client.socket.written)
    client.socket.written.clear()
    client.ack(1)
    assert harness.queue("q").unacked == 0


# ---- retries


@pytest.mark.feature("S1-14")
def test_a_refused_message_waits_and_comes_back(harness: Harness, client: Client) -> None:
    """Neither ready nor unacked in between."""
    client.declare("q", arguments={"x-retry-delays": [1000, 5000], **DEAD})
    client.publish("q", b"m")
    refuse(client)
    queue = harness.queue("q")
    assert (client.count("q"), queue.ready, queue.unacked, queue.held) == (0, 0, 0, 0)
    harness.advance(0.999)
    assert client.get("q") is None
    harness.advance(0.001)
    again = refuse(client)
    assert (again.body, again.redelivered, count_of(again)) == (b"m", True, 1)
    harness.advance(4.999)
    assert client.get("q") is None
    harness.advance(0.001)
    assert count_of(refuse(client)) == 2
    assert story(client) == (b"m", "delivery_limit")
    assert queue.bytes == 0


def test_a_consumer_gets_it_when_its_time_has_come(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000]})
    client.consume("q")
    client.publish("q", b"m")
    client.heard()
    client.nack(1)
    assert client.heard() == []
    harness.advance(1)
    assert client.bodies() == [b"m"]


def test_it_comes_back_to_its_old_place(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [3000, 1000]})
    client.publish("q", b"a", b"b", b"c")
    refuse(client)
    refuse(client)
    harness.advance(3)
    assert [got(client).body for _ in range(3)] == [b"a", b"b", b"c"]


def test_a_delay_of_zero_is_no_delay(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [0, 0], **DEAD})
    client.publish("q", b"m")
    for expected in (None, 1, 2):
        assert count_of(refuse(client)) == expected
        harness.advance(0)
    assert story(client) == (b"m", "delivery_limit")


@pytest.mark.feature("S1-17")
def test_it_dies_of_its_age_while_it_waits(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [60_000], **DEAD})
    client.publish("q", b"m", expiration="5000")
    refuse(client)
    harness.advance(4.9)
    assert story(client) is None
    harness.advance(0.1)
    assert story(client) == (b"m", "expired")
    harness.advance(60)
    assert (client.count("q"), harness.queue("q").bytes) == (0, 0)


def test_it_dies_of_the_queues_ttl_while_it_waits(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [60_000], "x-message-ttl": 5000, **DEAD})
    client.publish("q", b"m")
    harness.advance(1)
    refuse(client)
    harness.advance(4)
    assert story(client) == (b"m", "expired")


@pytest.mark.feature("S1-12")
def test_a_dead_letter_has_a_refusal_without_requeue_for_its_reason(client: Client) -> None:
    """Poison is not tried again."""
    client.declare("q", arguments={"x-retry-delays": [1000], **DEAD})
    client.publish("q", b"m")
    client.nack(got(client).tag, requeue=False)
    assert story(client) == (b"m", "rejected")


def test_the_delivery_limit_ends_retries_too(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000, 1000, 1000], "x-delivery-limit": 1, **DEAD})
    client.publish("q", b"m")
    refuse(client)
    harness.advance(1)
    refuse(client)
    assert story(client) == (b"m", "delivery_limit")


def test_what_a_lost_consumer_held_comes_back_at_once(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000, 1000]})
    client.publish("q", b"m")
    other = harness.client()
    other.get("q")
    other.vanish()
    assert client.count("q") == 1


def test_an_ack_timeout_is_a_failure_and_waits(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000], "x-consumer-timeout": 10_000})
    client.publish("q", b"m")
    got(client)
    harness.advance(10)
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (0, 0)
    harness.advance(1)
    assert count_of(client.get("q")) == 1


def test_a_queue_that_goes_takes_what_waits_with_it(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000]})
    client.publish("q", b"m")
    refuse(client)
    client.ask(QueueDelete("q"))
    client.declare("q", arguments={"x-retry-delays": [1000]})
    harness.advance(10)
    assert client.count("q") == 0
    assert harness.broker.gauge.used == 0


def test_a_purge_takes_what_is_ready_only(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000]})
    client.publish("q", b"waits", b"ready")
    refuse(client)
    client.ask(QueuePurge("q"))
    harness.advance(1)
    assert [got(client).body, client.get("q")] == [b"waits", None]


def test_many_wait_by_one_timer(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [1000]})
    client.consume("q")
    client.publish("q", *[b"%d" % number for number in range(1000)])
    client.heard()
    client.nack(0, multiple=True)
    harness.advance(1)
    assert client.bodies() == [b"%d" % number for number in range(1000)]


# ---- plans


def test_chance_is_asked_for_each_message(harness: Harness, client: Client) -> None:
    chances = iter([0.0, 0.5, 1.0])
    harness.vhost.queue_context.callbacks.random = lambda: next(chances)  # type: ignore[method-assign]
    client.declare("q", arguments={"x-retry-delays": [10_000], "x-retry-jitter": 1})
    client.publish("q", b"late", b"middle", b"soon")
    for _ in range(3):
        refuse(client)
    client.consume("q")
    harness.advance(0)
    assert client.bodies() == [b"soon"]
    harness.advance(5)
    assert client.bodies() == [b"middle"]
    harness.advance(5)
    assert client.bodies() == [b"late"]


def test_exponential_retries_end_by_the_default_limit(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delay-min": 1, "x-retry-delay-max": 1, **DEAD})
    client.publish("q", b"m")
    for _ in range(21):
        refuse(client)
        harness.advance(1)
    assert story(client) == (b"m", "delivery_limit")


@pytest.mark.parametrize(
    ("kind", "failed", "left"), [("all", True, True), ("failed", True, False), ("returned", False, True)]
)
def test_rabbitmqs_names_say_what_waits(harness: Harness, client: Client, kind: str, failed: bool, left: bool) -> None:
    """x-delayed-retry-type, -min and -max: the delay grows by the shortest with each try."""
    arguments: dict[str, object] = {"x-delayed-retry-type": kind, "x-delayed-retry-min": 1000}
    client.declare("q", durable=True, arguments={"x-queue-type": "quorum", **arguments})
    client.publish("q", b"m")
    refuse(client)
    assert (client.count("q") == 0) == failed
    harness.advance(1)
    other = harness.client()
    assert other.get("q") is not None
    other.vanish()
    assert (client.count("q") == 0) == left
    harness.advance(1.9)
    assert (client.count("q") == 0) == left
    harness.advance(0.1)
    assert client.count("q") == 1
