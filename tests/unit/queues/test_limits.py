"""x-max-length, x-max-length-bytes and x-overflow: what may wait in a queue, and what happens to the rest."""

from __future__ import annotations

import pytest

from leveret.wire.methods import BasicAck, BasicNack, ConfirmSelect, ExchangeDeclare, QueueBind, TxCommit, TxSelect
from tests.support.peer_pair import Client, Content, Harness

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def client(harness: Harness) -> Client:
    made = harness.client()
    made.declare("dead")
    return made


def waiting(client: Client, queue: str) -> list[bytes]:
    """Takes everything out."""
    bodies = []
    while (got := client.get(queue, no_ack=True)) is not None:
        bodies.append(got.body)
    return bodies


def reasons(client: Client) -> list[tuple[bytes, object]]:
    """What is in ``dead``, with the reason of its first death; takes everything out."""
    found: list[tuple[bytes, object]] = []
    while (got := client.get("dead", no_ack=True)) is not None:
        found.append((got.body, (got.properties.headers or {}).get("x-first-death-reason")))
    return found


def bodies(heard: list[object]) -> list[bytes]:
    return [each.body for each in heard if isinstance(each, Content)]


def confirming(harness: Harness) -> Client:
    client = harness.client()
    client.ask(ConfirmSelect())
    return client


def verdicts(client: Client) -> list[tuple[str, int]]:
    """Acks and nacks, each number on its own."""
    found: list[tuple[str, int]] = []
    for each in client.heard():
        assert isinstance(each, BasicAck | BasicNack), each
        kind = "ack" if isinstance(each, BasicAck) else "nack"
        known = {number for _, number in found}
        first = 1 if each.multiple else each.delivery_tag
        found += [(kind, number) for number in range(first, each.delivery_tag + 1) if number not in known]
    return sorted(found, key=lambda verdict: verdict[1])


# ---- drop-head


@pytest.mark.feature("S0-24")
def test_too_many_are_dropped_from_the_head(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 3})
    client.publish("q", *[b"%d" % number for number in range(10)])
    assert harness.queue("q").counters.dropped == 7
    assert waiting(client, "q") == [b"7", b"8", b"9"]
    assert harness.queue("q").bytes == 0
    assert harness.broker.gauge.used == 0


@pytest.mark.feature("S0-24")
def test_dropped_heads_go_to_the_dead_letters_in_order(harness: Harness, client: Client) -> None:
    """Reason maxlen."""
    client.declare("q", arguments={"x-max-length": 1, **DEAD})
    client.publish("q", b"a", b"b", b"c")
    assert reasons(client) == [(b"a", "maxlen"), (b"b", "maxlen")]
    assert waiting(client, "q") == [b"c"]


def test_more_than_a_batch_of_dropped_heads_keeps_its_order(client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1, **DEAD})
    client.publish("q", *[b"%d" % number for number in range(1001)])
    assert [body for body, _ in reasons(client)] == [b"%d" % number for number in range(1000)]


def test_consumers_have_their_chance_before_anything_is_dropped(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1})
    other = harness.client()
    other.qos(3)
    other.consume("q")
    client.publish("q", b"a", b"b", b"c", b"d")
    assert other.bodies() == [b"a", b"b", b"c"]
    assert harness.queue("q").counters.dropped == 0
    client.publish("q", b"e")
    assert waiting(client, "q") == [b"e"]


def test_only_what_is_ready_counts(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1})
    client.publish("q", b"held")
    held = client.get("q")
    client.publish("q", b"ready")
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (1, 1)
    assert held is not None
    client.nack(held.tag)
    assert waiting(client, "q") == [b"ready"]


def test_a_length_of_zero_passes_on_to_consumers_only(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 0})
    client.publish("q", b"nobody is there")
    other = harness.client()
    other.consume("q")
    client.publish("q", b"somebody is")
    assert other.bodies() == [b"somebody is"]


def test_bytes_are_those_of_bodies_alone(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length-bytes": 20})
    client.publish("q", b"0123456789", headers={"long": "header " * 100})
    client.publish("q", b"0123456789")
    assert harness.queue("q").ready == 2
    client.publish("q", b"x")
    assert waiting(client, "q") == [b"0123456789", b"x"]


def test_empty_bodies_take_no_bytes(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length-bytes": 5})
    client.publish("q", b"12345", *[b""] * 100)
    assert harness.queue("q").ready == 101
    client.publish("q", b"1")
    assert harness.queue("q").ready == 101
    assert waiting(client, "q") == [*[b""] * 100, b"1"]


def test_a_body_in_many_frames_takes_its_bytes_and_no_more(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length-bytes": 500_000})
    client.publish("q", b"x" * 500_000)
    assert harness.queue("q").ready == 1
    client.publish("q", b"y")
    assert waiting(client, "q") == [b"y"]


def test_a_message_that_is_too_large_alone_is_dropped(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length-bytes": 5, **DEAD})
    client.publish("q", b"small", b"too large")
    assert [body for body, _ in reasons(client)] == [b"small", b"too large"]
    assert harness.queue("q").ready == 0


@pytest.mark.parametrize(("length", "size", "left"), [(2, 100, 2), (100, 4, 4), (3, 3, 3)])
def test_the_tighter_of_both_limits_decides(
    harness: Harness, client: Client, length: int, size: int, left: int
) -> None:
    client.declare("q", arguments={"x-max-length": length, "x-max-length-bytes": size})
    client.publish("q", *[b"1"] * 10)
    assert harness.queue("q").ready == left


def test_what_waits_for_a_retry_counts_for_no_limit(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-retry-delays": [10_000], "x-max-length": 1, "x-max-length-bytes": 10})
    client.publish("q", b"0123456789")
    got = client.get("q")
    assert got is not None
    client.nack(got.tag)
    client.publish("q", b"abcdefghij")
    assert harness.queue("q").ready == 1
    harness.advance(10)
    assert waiting(client, "q") == [b"abcdefghij"]  # now they are two again, and the older one goes


def test_the_highest_priority_stands_at_the_head(client: Client) -> None:
    """As in RabbitMQ: it is what would be delivered next that is dropped."""
    client.declare("q", arguments={"x-max-priority": 5, "x-max-length": 2, **DEAD})
    for body, priority in ((b"low", 1), (b"high", 5), (b"middle", 3)):
        client.publish("q", body, priority=priority)
    assert reasons(client) == [(b"high", "maxlen")]
    assert waiting(client, "q") == [b"middle", b"low"]


def test_what_dies_of_age_makes_room(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 2})
    client.publish("q", b"stays")
    client.publish("q", b"dies", expiration="1000")
    harness.advance(1)
    client.publish("q", b"comes")
    assert waiting(client, "q") == [b"stays", b"comes"]


def test_holes_in_the_middle_do_not_count(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 3, **DEAD})
    client.publish("q", b"a")
    client.publish("q", b"b", expiration="1000")
    client.publish("q", b"c")
    harness.advance(1)
    client.publish("q", b"d")
    client.publish("q", b"e")
    assert reasons(client) == [(b"b", "expired"), (b"a", "maxlen")]
    assert waiting(client, "q") == [b"c", b"d", b"e"]


# ---- S1-26


@pytest.mark.feature("S1-26")
def test_a_slow_subscriber_keeps_at_most_so_many_and_the_older_are_discarded(harness: Harness) -> None:
    """They are no dead letters."""
    client = harness.client()
    client.declare("dead")
    client.declare("sub", arguments={"x-pending-message-limit": 1000, **DEAD})
    client.publish("sub", *[b"%d" % number for number in range(1500)])
    assert harness.queue("sub").ready == 1000
    assert client.count("dead") == 0
    first = client.get("sub", no_ack=True)
    assert first is not None
    assert first.body == b"500"


def test_a_tighter_length_makes_dead_letters_again(client: Client) -> None:
    client.declare("q", arguments={"x-pending-message-limit": 5, "x-max-length": 2, **DEAD})
    client.publish("q", b"a", b"b", b"c")
    assert reasons(client) == [(b"a", "maxlen")]


# ---- reject-publish


def test_a_full_queue_refuses_and_says_so(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    publisher = confirming(harness)
    publisher.publish("q", b"a", b"b", b"c", b"d")
    assert verdicts(publisher) == [("ack", 1), ("ack", 2), ("nack", 3), ("nack", 4)]
    assert waiting(client, "q") == [b"a", b"b"]
    assert harness.queue("q").counters.refused == 2
    publisher.publish("q", b"e")
    assert verdicts(publisher) == [("ack", 5)]


def test_without_confirms_it_refuses_without_a_word(client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.publish("q", b"a", b"b")
    assert client.heard() == []
    assert waiting(client, "q") == [b"a"]


def test_consumers_make_room_within_the_turn(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    other = harness.client()
    other.qos(3)
    other.consume("q")
    publisher = confirming(harness)
    publisher.publish("q", b"a", b"b", b"c", b"d", b"e")
    assert verdicts(publisher) == [("ack", 1), ("ack", 2), ("ack", 3), ("ack", 4), ("nack", 5)]
    assert other.bodies() == [b"a", b"b", b"c"]
    assert waiting(client, "q") == [b"d"]


def test_bytes_refuse_too(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    publisher = confirming(harness)
    publisher.publish("q", b"123456", headers={"a": "b" * 50})
    publisher.publish("q", b"1234")
    publisher.publish("q", b"x")
    assert verdicts(publisher) == [("ack", 1), ("ack", 2), ("nack", 3)]
    assert harness.queue("q").ready == 2


def test_one_full_queue_of_several_is_a_refusal_and_the_others_keep_it(harness: Harness, client: Client) -> None:
    client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.declare("free")
    client.declare("dropping", arguments={"x-max-length": 1})
    client.ask(ExchangeDeclare("all", "fanout"))
    for queue in ("full", "free", "dropping"):
        client.ask(QueueBind(queue, "all"))
    publisher = confirming(harness)
    for body in (b"a", b"b"):
        publisher.feed(publisher.published("all", "", body))
    assert verdicts(publisher) == [("ack", 1), ("nack", 2)]
    assert [waiting(client, queue) for queue in ("full", "free", "dropping")] == [[b"a"], [b"a", b"b"], [b"b"]]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_commit_to_a_full_queue_keeps_nothing(harness: Harness, overflow: str) -> None:
    """What was refused without a word would be lost behind a commit-ok."""
    client, publisher = harness.client(), harness.client()
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": overflow})
    publisher.ask(TxSelect())
    publisher.publish("q", b"a", b"b")
    publisher.send(TxCommit())
    assert publisher.error()[0] == 406
    assert waiting(client, "q") == []


def test_what_came_back_may_make_it_too_full(harness: Harness, client: Client) -> None:
    """Nothing that was taken is ever dropped by it."""
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.publish("q", b"a")
    held = client.get("q")
    client.publish("q", b"b")
    assert held is not None
    client.nack(held.tag)
    assert waiting(client, "q") == [b"a", b"b"]


def test_a_refused_message_may_be_a_dead_letter(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish-dlx", **DEAD})
    publisher = confirming(harness)
    publisher.publish("q", b"a", b"b")
    assert verdicts(publisher) == [("ack", 1), ("nack", 2)]
    assert reasons(client) == [(b"b", "maxlen")]
    assert waiting(client, "q") == [b"a"]
    assert harness.queue("q").bytes == 0


def test_a_refused_message_is_no_dead_letter_of_a_plain_refusal(client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish", **DEAD})
    client.publish("q", b"a", b"b")
    assert reasons(client) == []


def test_dead_letters_are_refused_by_a_full_queue_too(harness: Harness, client: Client) -> None:
    client.declare("small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "small"})
    client.publish("q", b"a", b"b")
    for _ in range(2):
        got = client.get("q")
        assert got is not None
        client.nack(got.tag, requeue=False)
    assert waiting(client, "small") == [b"a"]
    assert harness.queue("q").bytes == 0
