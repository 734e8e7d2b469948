"""What happens to the broker as a whole: alarms, and whoever listens."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from leveret.broker.alarms import Events
from leveret.wire.methods import ConnectionBlocked, ConnectionUnblocked, QueuePurge
from tests.support.peer_pair import Client, Harness

News = list[tuple[str, Mapping[str, object]]]


def hear(events: Events) -> News:
    news: News = []
    events.subscribe(lambda name, facts: news.append((name, dict(facts))))
    return news


@pytest.fixture
def publisher(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    client.publish("q", b"0")
    return client


# ---- listeners


def test_listeners_hear_in_the_order_in_which_they_came() -> None:
    events, heard = Events(), []
    events.subscribe(lambda name, facts: heard.append(("one", name, facts)))
    events.subscribe(lambda name, facts: heard.append(("two", name, facts)))
    events.tell("alarm raised", alarm="disk")
    assert heard == [("one", "alarm raised", {"alarm": "disk"}), ("two", "alarm raised", {"alarm": "disk"})]


def test_a_listener_that_left_hears_nothing_more_and_may_leave_twice() -> None:
    events, heard = Events(), []
    forget = events.subscribe(lambda name, facts: heard.append(name))
    forget()
    forget()
    events.tell("alarm raised")
    assert heard == []


def test_a_listener_may_leave_while_it_is_told() -> None:
    events, heard = Events(), []

    def once(name: str, facts: Mapping[str, object]) -> None:
        heard.append(name)
        forget()

    forget = events.subscribe(once)
    events.subscribe(lambda name, facts: heard.append(f"{name} too"))
    events.tell("a")
    events.tell("b")
    assert heard == ["a", "a too", "b too"]


def test_a_listener_that_fails_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()

    def fail(name: str, facts: Mapping[str, object]) -> None:
        raise ZeroDivisionError

    events.subscribe(fail)
    news = hear(events)
    with caplog.at_level(logging.ERROR, "leveret"):
        events.tell("alarm raised")
    assert news == [("alarm raised", {})]
    assert "internal error in an event listener" in caplog.text


# ---- alarms


def test_an_alarm_is_told_once_and_its_end_once(harness: Harness) -> None:
    news = hear(harness.broker.events)
    harness.broker.set_alarm("disk", "disk full", free=1)
    harness.broker.set_alarm("disk", "disk full", free=2)
    harness.broker.set_alarm("disk", None, free=3)
    harness.broker.set_alarm("disk", None, free=4)
    assert news == [
        ("alarm raised", {"alarm": "disk", "reason": "disk full", "free": 1}),
        ("alarm over", {"alarm": "disk", "reason": None, "free": 3}),
    ]
    assert harness.broker.alarms == {}


def test_an_alarm_whose_reason_changes_is_told_again_but_blocks_nobody_twice(
    harness: Harness, publisher: Client
) -> None:
    news = hear(harness.broker.events)
    harness.broker.set_alarm("disk", "free disk space below limit")
    publisher.publish("q", b"1")
    harness.broker.set_alarm("disk", "disk full")
    harness.rest()
    assert [facts["reason"] for _, facts in news] == ["free disk space below limit", "disk full"]
    assert harness.broker.alarms == {"disk": "disk full"}
    assert publisher.heard() == [ConnectionBlocked("low on disk")]
    harness.broker.set_alarm("disk", None)
    harness.rest()
    assert publisher.heard() == [ConnectionUnblocked()]


@pytest.mark.parametrize("first", ["disk", "memory"])
def test_publishers_go_on_only_when_every_alarm_is_over(harness: Harness, publisher: Client, first: str) -> None:
    """Two at once, over in either order."""
    second = "memory" if first == "disk" else "disk"
    harness.broker.set_alarm("disk", "disk full")
    harness.broker.set_alarm("memory", "memory high watermark exceeded")
    publisher.publish("q", b"1")
    harness.broker.set_alarm(first, None)
    harness.rest()
    assert publisher.heard() == [ConnectionBlocked("low on disk & memory")]
    assert not publisher.socket.reading
    assert harness.queue("q").ready == 1
    harness.broker.set_alarm(second, None)
    harness.rest()
    assert publisher.heard() == [ConnectionUnblocked()]
    assert harness.queue("q").ready == 2


def test_a_calm_memory_does_not_end_another_alarm() -> None:
    harness = Harness(memory_high_watermark=10_000)
    publisher, consumer = harness.client(), harness.client()
    publisher.declare("q")
    publisher.publish("q", b"x" * 20_000)
    publisher.publish("q", b"more")
    harness.broker.set_alarm("disk", "disk full")
    consumer.ask(QueuePurge("q"))
    assert harness.broker.alarms == {"disk": "disk full"}
    assert [type(what) for what in publisher.heard()] == [ConnectionBlocked]
    assert not publisher.socket.reading


def test_who_begins_to_publish_during_an_alarm_is_told_its_reason(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    harness.broker.set_alarm("disk", "disk full")
    harness.broker.set_alarm("store", "store read-only")
    harness.rest()
    assert client.heard() == []
    client.publish("q", b"1")
    assert client.heard() == [ConnectionBlocked("low on disk, store read-only")]


def test_consumers_go_on_during_an_alarm(harness: Harness, publisher: Client) -> None:
    harness.broker.set_alarm("disk", "disk full")
    consumer = harness.client()
    consumer.consume("q")
    assert consumer.bodies() == [b"0"]
    consumer.ack(1)
    assert harness.queue("q").unacked == 0


def test_a_listener_may_publish_when_the_alarm_is_over(harness: Harness, publisher: Client) -> None:
    """Whatever it does is handled without waiting for another event."""
    consumer = harness.client()
    consumer.consume("q", no_ack=True)
    consumer.heard()
    content = b"late"

    def late(name: str, facts: Mapping[str, object]) -> None:
        if name == "alarm over":
            publisher.feed(publisher.published("", "q", content))

    harness.broker.events.subscribe(late)
    harness.broker.set_alarm("disk", "disk full")
    harness.broker.set_alarm("disk", None)
    harness.rest()
    assert consumer.bodies() == [b"late"]
