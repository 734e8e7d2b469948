"""basic.get when the first message of the queue is on disk: the connection waits for it, and nothing is overtaken."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.wire.methods import (
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from tests.support.peer_pair import Client, Content
from tests.support.stored_harness import StoredHarness

BODIES = [b"%02d" % number for number in range(10)]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "WORTH_IT", 2)
    monkeypatch.setattr(pager, "LOAD_BYTES", 100)


@pytest.fixture
def harness() -> StoredHarness:
    """A broker that was just started on a queue of ten messages: all of them are on disk only."""
    harness = StoredHarness()
    client = harness.client()
    client.declare("q", durable=True)
    client.declare("p", durable=True, arguments={"x-max-priority": 1})
    client.publish("q", *BODIES, delivery_mode=2)
    client.publish("p", b"low", delivery_mode=2)
    client.publish("p", b"high", delivery_mode=2, priority=1)
    harness = stopped(harness)
    harness.turn()
    return harness


def stopped(harness: StoredHarness) -> StoredHarness:
    """The next life, whose disk has not read anything yet."""
    life = harness.stopped()
    slow = StoredHarness.work
    StoredHarness.work = lambda self: None  # type: ignore[method-assign]
    try:
        again = life.again()
    finally:
        StoredHarness.work = slow  # type: ignore[method-assign]
    again.is_slow = True
    again.write()
    return again


def told(client: Client) -> list[object]:
    return [what.body if isinstance(what, Content) else type(what) for what in client.heard()]


def finish(harness: StoredHarness) -> None:
    harness.is_slow = False
    harness.rest()


@pytest.mark.feature("S4-26")
def test_get_waits_for_the_disk(harness: StoredHarness) -> None:
    client = harness.client()
    client.send(BasicGet("q"))
    assert client.heard() == []
    finish(harness)
    (answer,) = client.heard()
    assert isinstance(answer, Content)
    assert (answer.body, answer.tag, answer.redelivered) == (b"00", 1, False)


def test_all_can_be_got_in_order(harness: StoredHarness) -> None:
    harness.is_slow = False
    client = harness.client()
    got = [client.get("q", no_ack=True) for _ in BODIES]
    assert [answer.body for answer in got if answer] == BODIES
    assert [answer.method.message_count for answer in got if answer] == list(range(9, -1, -1))  # type: ignore[union-attr]
    assert client.get("q") is None


def test_nothing_of_the_connection_overtakes_it(harness: StoredHarness) -> None:
    """Answers come in the order of the questions, whatever came in the same read or later."""
    client = harness.client()
    client.send(BasicGet("q", no_ack=True), BasicQos(0, 1), BasicGet("q", no_ack=True))
    client.send(BasicQos(0, 2))
    client.publish("q", b"new", delivery_mode=2)
    assert client.heard() == []
    finish(harness)
    assert told(client) == [b"00", BasicQosOk, b"01", BasicQosOk]
    assert client.count("q") == 9


def test_nothing_overtakes_it_although_another_lane_is_loaded_first(harness: StoredHarness) -> None:
    """The first load that ends is not the one that matters."""
    client = harness.client()
    client.send(BasicGet("p", no_ack=True), BasicQos(0, 1))
    assert client.heard() == []
    finish(harness)
    assert told(client) == [b"high", BasicQosOk]


def test_other_connections_go_on(harness: StoredHarness) -> None:
    client, other = harness.client(), harness.client()
    client.send(BasicGet("q"))
    assert other.ask(QueueDeclare("t")).NAME == "queue.declare-ok"
    assert other.count("q") == 10


def test_two_who_wait_get_one_each(harness: StoredHarness) -> None:
    one, two = harness.client(), harness.client()
    one.send(BasicGet("q", no_ack=True))
    two.send(BasicGet("q", no_ack=True))
    finish(harness)
    assert told(one) + told(two) == [b"00", b"01"]


def test_a_queue_that_is_deleted_meanwhile_is_a_404(harness: StoredHarness) -> None:
    client, other = harness.client(), harness.client()
    client.send(BasicGet("q"))
    other.send(QueueDelete("q"))
    finish(harness)
    code, text = client.error()
    assert (code, text) == (404, "NOT_FOUND - no queue 'q' in vhost '/'")
    client.send(ChannelCloseOk())
    client.open_channel(1)


def test_a_queue_that_is_purged_meanwhile_is_empty(harness: StoredHarness) -> None:
    client, other = harness.client(), harness.client()
    client.send(BasicGet("q"))
    other.send(QueuePurge("q"))
    finish(harness)
    assert client.heard() == [BasicGetEmpty()]


def test_a_queue_that_a_consumer_empties_meanwhile_is_empty(harness: StoredHarness) -> None:
    client, other = harness.client(), harness.client()
    client.send(BasicGet("q", no_ack=True))
    other.consume("q", no_ack=True)
    finish(harness)
    assert client.heard() == [BasicGetEmpty()]
    assert other.bodies() == BODIES


@pytest.mark.feature("S4-61")
def test_a_connection_that_is_gone_meanwhile_takes_nothing(harness: StoredHarness) -> None:
    client = harness.client()
    client.send(BasicGet("q", no_ack=True))
    client.vanish()
    finish(harness)
    assert harness.client().count("q") == 10


def test_a_connection_that_is_closed_by_us_meanwhile_takes_nothing(harness: StoredHarness) -> None:
    client = harness.client()
    client.send(BasicGet("q", no_ack=True))
    client.session.force_close("enough")
    finish(harness)
    assert told(client) == [ConnectionClose]
    assert harness.client().count("q") == 10


def test_a_close_behind_the_get_is_heard_after_it(harness: StoredHarness) -> None:
    client = harness.client()
    client.send(BasicGet("q", no_ack=True), ChannelClose(200, "bye"))
    finish(harness)
    assert told(client) == [b"00", ChannelCloseOk]
