"""Selectors, groups, one-shot pulls and single active consumers with pika, over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

import leveret
from tests.compat.waiting import pump
from tests.support.peers import inside

Connection = pika.BlockingConnection


@pytest.fixture
def connection(leveret_broker: leveret.Broker) -> Iterator[Connection]:
    made = Connection(pika.URLParameters(leveret_broker.amqp_url))
    yield made
    if made.is_open:
        made.close()


def publish(channel: Any, queue: str, *bodies: str, **headers: object) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(headers=headers or None))


class Inbox:
    """A consumer of pika that keeps what it gets."""

    def __init__(self, channel: Any, queue: str, *, auto_ack: bool = False, **arguments: object) -> None:
        self.channel = channel
        self.got: list[tuple[int, str]] = []
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.tag = channel.basic_consume(queue, self._take, auto_ack=auto_ack, arguments=named)

    def _take(self, _: object, method: Any, __: object, body: bytes) -> None:
        self.got.append((method.delivery_tag, body.decode()))

    @property
    def bodies(self) -> list[str]:
        return [body for _, body in self.got]

    def ack_first(self) -> str:
        tag, body = self.got.pop(0)
        self.channel.basic_ack(tag)
        return body


def settle(connection: Connection) -> None:
    """An answer to the last of several questions: everything before it was done, and has arrived."""
    connection.channel().close()
    connection.process_data_events(0)


# ---- selectors


@pytest.mark.feature("S1-16", "S1-28")
def test_a_selector_leaves_what_does_not_match_to_others(connection: Connection) -> None:
    """The consumer's side."""
    channel = connection.channel()
    channel.queue_declare("q")
    red = Inbox(channel, "q", selector="colour = 'red' AND weight > 2")
    publish(channel, "q", "heavy", colour="red", weight=3)
    publish(channel, "q", "light", colour="red", weight=1)
    publish(channel, "q", "plain")
    pump(connection, lambda: red.bodies == ["heavy"])
    settle(connection)
    assert red.bodies == ["heavy"]
    rest = Inbox(channel, "q")
    pump(connection, lambda: rest.bodies == ["light", "plain"])
    assert red.bodies == ["heavy"]


@pytest.mark.feature("S1-28")
def test_a_selector_that_is_wrong_closes_the_channel(connection: Connection) -> None:
    channel = connection.channel()
    channel.queue_declare("q")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_consume("q", lambda *_: None, arguments={"x-selector": "colour = "})
    assert caught.value.reply_code == 406
    assert "x-selector" in caught.value.reply_text


# ---- groups


def test_a_group_is_with_one_consumer_at_a_time_and_in_order(leveret_broker: leveret.Broker) -> None:
    connections = [Connection(pika.URLParameters(leveret_broker.amqp_url)) for _ in range(3)]
    channels = [connection.channel() for connection in connections]
    channels[0].queue_declare("q", arguments={"x-message-groups": True})
    for number in range(60):
        publish(channels[0], "q", f"{number % 6}:{number}", **{"x-group-id": f"customer {number % 6}"})
    for channel in channels:
        channel.basic_qos(prefetch_count=4)
    inboxes = [Inbox(channel, "q") for channel in channels]
    done: list[str] = []
    while len(done) < 60:
        for connection in connections:
            settle(connection)
        held = [{body.partition(":")[0] for body in inbox.bodies} for inbox in inboxes]
        assert sum(map(len, held)) == len(set().union(*held)), f"a group is with two: {held}"
        done += [inbox.ack_first() for inbox in inboxes if inbox.got]
    for group in range(6):
        assert [body for body in done if body[0] == str(group)] == [f"{group}:{n}" for n in range(group, 60, 6)]
    for connection in connections:
        connection.close()


def test_groups_of_a_lost_connection_come_back_in_order(leveret_broker: leveret.Broker, connection: Connection) -> None:
    channel = connection.channel()
    channel.queue_declare("q", arguments={"x-message-groups": True})
    publish(channel, "q", "1", "2", "3", "4", **{"x-group-id": 7})
    lost = Connection(pika.URLParameters(leveret_broker.amqp_url))
    first_channel = lost.channel()
    first_channel.basic_qos(prefetch_count=3)
    first = Inbox(first_channel, "q")
    pump(lost, lambda: first.bodies == ["1", "2", "3"])
    second = Inbox(channel, "q")
    settle(connection)
    assert second.bodies == []
    lost.close()
    pump(connection, lambda: second.bodies == ["1", "2", "3", "4"])


# ---- one-shot pulls


@pytest.mark.parametrize("auto_ack", [False, True])
def test_a_pull_gets_one_message_and_is_cancelled(connection: Connection, auto_ack: bool) -> None:
    channel = connection.channel()
    channel.queue_declare("q")
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    channel.basic_qos(prefetch_count=10)
    pull = Inbox(channel, "q", auto_ack=auto_ack, pull_one=True)
    publish(channel, "q", "1", "2", "3")
    pump(connection, lambda: cancelled == [pull.tag])
    settle(connection)
    assert pull.bodies == ["1"]
    again = Inbox(channel, "q", auto_ack=auto_ack, pull_one=True)
    pump(connection, lambda: cancelled == [pull.tag, again.tag])
    assert again.bodies == ["2"]
    if not auto_ack:
        pull.ack_first()
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    assert channel.queue_declare("q", passive=True).method.consumer_count == 0


# ---- a single active consumer


def test_the_next_consumer_takes_over_when_a_connection_is_lost(
    leveret_broker: leveret.Broker, connection: Connection
) -> None:
    channel = connection.channel()
    channel.queue_declare("q", arguments={"x-single-active-consumer": True})
    lost = Connection(pika.URLParameters(leveret_broker.amqp_url))
    active = Inbox(lost.channel(), "q")
    waiting = [Inbox(channel, "q"), Inbox(channel, "q")]
    publish(channel, "q", "1", "2")
    pump(lost, lambda: active.bodies == ["1", "2"])
    settle(connection)
    assert [inbox.bodies for inbox in waiting] == [[], []]
    assert inside(leveret_broker, "q").consumers.active.tag == active.tag
    lost.close()
    pump(connection, lambda: waiting[0].bodies == ["1", "2"])
    channel.basic_cancel(waiting[0].tag)
    publish(channel, "q", "3")
    pump(connection, lambda: waiting[1].bodies == ["3"])


def test_an_exclusive_consumer_of_such_a_queue_is_refused(connection: Connection) -> None:
    channel = connection.channel()
    channel.queue_declare("q", arguments={"x-single-active-consumer": True})
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_consume("q", lambda *_: None, exclusive=True)
    assert (caught.value.reply_code, caught.value.reply_text) == (
        403,
        "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use",
    )
