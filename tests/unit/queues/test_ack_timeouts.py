"""x-consumer-timeout: a message that is kept too long comes back by itself; its channel lives (S4-53)."""

from __future__ import annotations

import pytest

from leveret.wire.methods import BasicCancel, QueueDelete
from tests.support.peer_pair import Client, Content, Harness

TEN_SECONDS = {"x-consumer-timeout": 10_000}


@pytest.fixture
def client(harness: Harness) -> Client:
    made = harness.client()
    made.declare("q", arguments=TEN_SECONDS)
    return made


def given(client: Client) -> list[Content]:
    """What was delivered since the last time; nothing else may have been said."""
    heard = client.heard()
    assert all(isinstance(each, Content) for each in heard), heard
    return [each for each in heard if isinstance(each, Content)]


def bodies(contents: list[Content]) -> list[bytes]:
    return [each.body for each in contents]


def lives(client: Client, channel: int = 1) -> bool:
    """Its channel answers."""
    return client.count("q", channel) >= 0


# ---- what comes back


@pytest.mark.feature("S4-53")
def test_a_message_kept_too_long_comes_back_marked_and_its_channel_lives(harness: Harness, client: Client) -> None:
    client.qos(1)
    client.consume("q")
    client.publish("q", b"m")
    assert [each.redelivered for each in given(client)] == [False]
    harness.advance(9.9)
    assert given(client) == []
    harness.advance(0.1)
    assert [(each.body, each.tag, each.redelivered) for each in given(client)] == [(b"m", 2, True)]
    assert harness.queue("q").counters.timed_out == 1
    assert (harness.queue("q").unacked, harness.queue("q").ready) == (1, 0)
    assert lives(client)


def test_only_the_message_that_is_late_comes_back(harness: Harness, client: Client) -> None:
    client.qos(10)
    client.consume("q")
    client.publish("q", b"early")
    harness.advance(5)
    client.publish("q", b"later")
    given(client)
    harness.advance(5)
    assert bodies(given(client)) == [b"early"]
    assert harness.queue("q").unacked == 2


def test_what_was_settled_in_time_does_not_come_back(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"acked", b"kept", b"refused")
    given(client)
    client.ack(1)
    client.nack(3, requeue=False)
    harness.advance(10)
    assert bodies(given(client)) == [b"kept"]
    assert harness.queue("q").counters.timed_out == 1


def test_it_comes_back_to_its_old_place(harness: Harness, client: Client) -> None:
    client.publish("q", b"a", b"b", b"c")
    first = client.get("q")
    assert first is not None
    harness.advance(10)
    assert [client.get("q", no_ack=True).body for _ in range(3)] == [b"a", b"b", b"c"]  # type: ignore[union-attr]


def test_a_message_that_was_got_by_hand_comes_back_too(harness: Harness, client: Client) -> None:
    client.publish("q", b"m")
    assert client.get("q") is not None
    harness.advance(10)
    again = client.get("q")
    assert again is not None
    assert again.redelivered
    harness.advance(10)
    assert harness.queue("q").counters.timed_out == 2


def test_without_acks_nothing_comes_back(harness: Harness, client: Client) -> None:
    client.consume("q", no_ack=True)
    client.publish("q", b"m")
    assert bodies(given(client)) == [b"m"]
    harness.advance(100)
    assert given(client) == []


def test_another_consumer_may_get_it(harness: Harness, client: Client) -> None:
    slow, quick = harness.client(), harness.client()
    slow.qos(1)
    slow.consume("q")
    client.publish("q", b"m")
    assert bodies(given(slow)) == [b"m"]
    slow.send(BasicCancel("tag", nowait=True))
    quick.consume("q")
    harness.advance(10)
    assert [(each.body, each.redelivered) for each in given(quick)] == [(b"m", True)]
    assert given(slow) == []


def test_the_consumer_has_its_credit_back(harness: Harness, client: Client) -> None:
    client.qos(2)
    client.consume("q")
    client.publish("q", b"a", b"b", b"c")
    assert bodies(given(client)) == [b"a", b"b"]
    client.send(BasicCancel("tag", nowait=True))
    client.qos(2)
    client.consume("q", "another")
    assert bodies(given(client)) == [b"c"]
    harness.advance(10)
    assert bodies(given(client)) == [b"a", b"b"]  # c came back as well, and stands behind them
    assert harness.queue("q").ready == 1


def test_shared_credit_comes_back(harness: Harness, client: Client) -> None:
    client.qos(1, shared=True)
    client.consume("q")
    client.publish("q", b"a", b"b")
    assert bodies(given(client)) == [b"a"]
    harness.advance(10)
    (again,) = given(client)
    client.ack(again.tag)
    assert bodies(given(client)) == [b"b"]


def test_many_messages_of_many_consumers_come_back_once_each(harness: Harness, client: Client) -> None:
    workers = [harness.client() for _ in range(5)]
    for worker in workers:
        worker.qos(20)
        worker.consume("q")
    client.publish("q", *[b"%d" % number for number in range(100)])
    assert sum(len(given(worker)) for worker in workers) == 100
    for worker in workers:
        worker.send(BasicCancel("tag", nowait=True))
    harness.advance(10)
    queue = harness.queue("q")
    assert (queue.ready, queue.unacked, queue.held) == (100, 0, 0)
    assert queue.counters.timed_out == 100
    taken = [client.get("q", no_ack=True) for _ in range(100)]
    assert [each.body for each in taken if each] == [b"%d" % number for number in range(100)]


def test_messages_of_every_priority_come_back(harness: Harness) -> None:
    client = harness.client()
    client.declare("p", arguments={**TEN_SECONDS, "x-max-priority": 3})
    for priority in (0, 3, 1):
        client.publish("p", b"%d" % priority, priority=priority)
    for _ in range(3):
        client.get("p")
    harness.advance(10)
    assert [client.get("p", no_ack=True).body for _ in range(3)] == [b"3", b"1", b"0"]  # type: ignore[union-attr]


# ---- each delivery has its own time


def test_a_message_that_came_back_and_was_given_again_has_its_full_time(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    given(client)
    harness.advance(6)
    client.nack(1)
    assert [each.tag for each in given(client)] == [2]
    harness.advance(9.9)  # 15.9 since the first delivery
    assert given(client) == []
    harness.advance(0.1)
    assert [each.tag for each in given(client)] == [3]


def test_it_times_out_again_and_again(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    for tag in range(1, 6):
        assert [each.tag for each in given(client)] == [tag]
        harness.advance(10)
    assert harness.queue("q").counters.timed_out == 5


def extend(client: Client, **headers: object) -> None:
    """As session/ack_timeout_extension.py has it; names with underscores."""
    table = {name.replace("_", "-"): value for name, value in headers.items()}
    client.feed(client.published("", "amq.leveret.extend", b"", headers=table))


def test_who_works_long_extends_the_time_of_one_message(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"long", b"short")
    given(client)
    harness.advance(9)
    extend(client, delivery_tag=1, timeout=30_000)
    harness.advance(1)
    assert bodies(given(client)) == [b"short"]
    harness.advance(10)
    assert bodies(given(client)) == [b"short"]
    harness.advance(18.9)
    assert b"long" not in bodies(given(client))
    harness.advance(0.1)
    assert b"long" in bodies(given(client))


def test_without_a_time_it_is_the_queues_own_once_more(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    given(client)
    for _ in range(3):
        harness.advance(9)
        extend(client, delivery_tag=1)
    assert given(client) == []
    harness.advance(10)
    assert bodies(given(client)) == [b"m"]


def test_a_shorter_time_counts_as_well(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    given(client)
    extend(client, delivery_tag=1, timeout=2000)
    harness.advance(2)
    assert bodies(given(client)) == [b"m"]


def test_an_extension_holds_for_one_delivery_only(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    given(client)
    extend(client, delivery_tag=1, timeout=100_000)
    client.nack(1)
    assert [each.tag for each in given(client)] == [2]
    harness.advance(10)
    assert [each.tag for each in given(client)] == [3]


def test_an_extension_that_comes_too_late_closes_nothing(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    given(client)
    harness.advance(10)
    given(client)
    extend(client, delivery_tag=1)
    assert lives(client)


# ---- with the other rules of a queue


@pytest.mark.feature("S4-53")
def test_a_timeout_counts_as_a_delivery_and_ends_in_the_dead_letters(harness: Harness) -> None:
    """By the queue's delivery limit."""
    client = harness.client()
    client.declare("dead")
    arguments = {"x-delivery-limit": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("q", arguments={**TEN_SECONDS, **arguments})
    client.consume("q")
    client.publish("q", b"m")
    harness.advance(10)
    assert [(each.properties.headers or {}).get("x-delivery-count") for each in given(client)] == [None, 1]
    harness.advance(10)
    assert given(client) == []
    dead = client.get("dead")
    assert dead is not None
    assert dead.properties.headers["x-first-death-reason"] == "delivery_limit"  # type: ignore[index]


def test_a_queue_that_is_deleted_takes_no_message_back(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"m")
    given(client)
    client.send(QueueDelete("q", nowait=True))
    client.heard()
    harness.advance(100)
    assert client.heard() == []


def test_a_channel_that_is_gone_is_asked_for_nothing(harness: Harness, client: Client) -> None:
    other = harness.client()
    other.consume("q")
    client.publish("q", b"m")
    other.vanish()
    assert harness.queue("q").ready == 1
    harness.advance(100)
    assert (harness.queue("q").ready, harness.queue("q").counters.timed_out) == (1, 0)
