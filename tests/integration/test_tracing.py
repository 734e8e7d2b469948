"""Tracing as clients meet it: the firehose, the stories of messages, and what is there while it is off. S4-77."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

import leveret
from leveret.broker.tracing import is_traced
from leveret.broker.vhost import Vhost
from leveret.queues.classic import ClassicQueue
from leveret.queues.stream import StreamQueue
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


pytestmark = pytest.mark.broker(fresh=True, clock=leveret.FrozenClock)


@pytest.fixture
def channel(broker: leveret.Broker) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    yield connection.channel()
    connection.close()


def switch(admin: ManagementApi, on: bool = True) -> None:
    assert admin.put("vhosts/%2F", {"tracing": on})[0] == 204


def story(admin: ManagementApi, name: str) -> dict[str, Any]:
    status, answer = admin.get(f"traces/%2F/{name}")
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def told(admin: ManagementApi, name: str) -> list[str]:
    return [event["what"] for event in story(admin, name)["events"]]


def event(admin: ManagementApi, name: str, what: str, number: int = 0) -> dict[str, Any]:
    found: list[dict[str, Any]] = [each for each in story(admin, name)["events"] if each["what"] == what]
    return found[number]


def publish(channel: BlockingChannel, id_: str, key: str = "q", exchange: str = "", **properties: Any) -> None:
    channel.basic_publish(exchange, key, b"body", pika.BasicProperties(message_id=id_, **properties))


def home(broker: leveret.Broker) -> Vhost:
    return broker.node.broker.vhosts["/"]


# ---- a whole life


@pytest.mark.feature("S4-77")
def test_the_story_of_a_message(broker: leveret.Broker, admin: ManagementApi, channel: BlockingChannel) -> None:
    """Published, routed by a topic binding, delivered, nacked, redelivered, dead-lettered, acked."""
    switch(admin)
    channel.exchange_declare("orders", "topic")
    channel.queue_declare("q", arguments=TO_DEAD)
    channel.queue_declare("dead")
    channel.queue_bind("q", "orders", "eu.#")
    channel.queue_bind("q", "orders", "us.#")
    publish(channel, "id 1", "eu.be", "orders", headers={"colour": "red"})
    got = channel.basic_get("q")[0]
    broker.clock.advance(2)
    channel.basic_nack(got.delivery_tag, requeue=True)
    for method, _, _ in channel.consume("q"):
        channel.basic_nack(method.delivery_tag, requeue=False)
        break
    channel.cancel()
    got = channel.basic_get("dead")[0]
    channel.basic_ack(got.delivery_tag)
    channel.queue_declare("dead", passive=True)  # what came before it is done

    found = story(admin, "id%201")
    assert [each["what"] for each in found["events"]] == [
        "received",
        "routed",
        "queued",
        "delivered",
        "requeued",
        "delivered",
        "dead-lettered",
        "queued",
        "delivered",
        "acked",
    ]
    received, routed, queued, first, back, second, died, again, _, acked = found["events"]
    assert (received["exchange"], received["routing_key"], received["user"]) == ("orders", "eu.be", "guest")
    assert received["connection"] == first["connection"] != ""
    assert routed["bindings"] == [
        {"source": "orders", "destination": "q", "destination_type": "queue", "routing_key": "eu.#", "by": "binding"}
    ]
    assert (first["redelivered"], second["redelivered"], "consumer_tag" in second) == (False, True, True)
    assert (back["tries"], back["time"] - first["time"]) == (1, 2)
    assert (died["queue"], died["reason"], again["queue"], acked["queue"]) == ("q", "rejected", "dead", "dead")
    assert (found["positions"], found["queues"], found["properties"]["headers"]) == (
        [],
        ["q", "dead"],
        {"colour": "red"},
    )
    assert story(admin, queued["id"])["id"] == story(admin, again["id"])["id"] == found["id"]
    assert (broker.vhost().message_count("q"), broker.vhost().message_count("dead")) == (0, 0)


@pytest.mark.feature("S4-77")
def test_a_story_begins_where_a_message_is_found(admin: ManagementApi, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    publish(channel, "before")
    channel.queue_declare("q", passive=True)
    switch(admin)
    channel.basic_get("q", auto_ack=True)
    assert told(admin, "before") == ["found", "delivered", "acked"]


@pytest.mark.feature("S4-77")
def test_how_messages_end(broker: leveret.Broker, admin: ManagementApi, channel: BlockingChannel) -> None:
    """Expired, too many, purged, rejected, unroutable, returned, refused, and with their queue."""
    switch(admin)
    channel.confirm_delivery()
    channel.queue_declare("short", arguments={"x-max-length": 1})
    channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_declare("q")
    publish(channel, "old", expiration="1000")
    broker.clock.advance(2)
    publish(channel, "purged")
    assert told(admin, "old")[-1] == "expired"
    channel.queue_purge("q")
    publish(channel, "pushed", "short")
    publish(channel, "kept", "short")
    publish(channel, "first", "full")
    with pytest.raises(pika.exceptions.NackError):
        publish(channel, "refused", "full")
    publish(channel, "rejected")
    channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
    publish(channel, "gone")
    channel.queue_delete("q")
    publish(channel, "nowhere", "no such queue")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "none", b"", pika.BasicProperties(message_id="returned"), mandatory=True)
    ends = {name: told(admin, name)[-1] for name in ("purged", "pushed", "rejected", "gone", "nowhere", "returned")}
    assert ends == {
        "purged": "purged",
        "pushed": "dropped",
        "rejected": "rejected",
        "gone": "dropped",
        "nowhere": "unroutable",
        "returned": "returned",
    }
    assert event(admin, "pushed", "dropped")["reason"] == "maxlen"
    assert event(admin, "refused", "not taken")["reason"] == "queue is full"
    assert story(admin, "kept")["positions"][0]["queue"] == "short"


def test_a_story_goes_on_with_moves_retries_schedules_and_consumers_that_go(
    broker: leveret.Broker, admin: ManagementApi, channel: BlockingChannel
) -> None:
    switch(admin)
    channel.queue_declare("q", arguments={"x-delivery-limit": 2, **TO_DEAD})
    channel.queue_declare("later", arguments={"x-retry-delays": [5000]})
    channel.queue_declare("dead")
    due = int((broker.node.broker.clock.wall() + 60) * 1000)
    publish(channel, "s", headers={"x-deliver-at": due})
    channel.queue_declare("q", passive=True)
    assert told(admin, "s") == ["received", "scheduled"]
    broker.clock.advance(61)
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    for _ in range(3):
        channel.basic_nack(channel.basic_get("q")[0].delivery_tag, requeue=True)
    channel.queue_declare("q", passive=True)
    assert told(admin, "s")[2:4] == ["due", "queued"]
    assert told(admin, "s")[-3:] == ["requeued", "dead-lettered", "queued"]
    assert event(admin, "s", "dead-lettered")["reason"] == "delivery_limit"
    job = admin.post("queues/%2F/dead/jobs", {"kind": "move", "destination": "q"})[1]["id"]
    while admin.get(f"queue-jobs/{job}")[1]["state"] == "running":
        broker.call(lambda: None)
    assert told(admin, "s")[-2:] == ["queued", "moved"]

    publish(channel, "r", "later")
    channel.basic_nack(channel.basic_get("later")[0].delivery_tag, requeue=True)
    channel.queue_declare("q", passive=True)
    assert told(admin, "r")[-1] == "waiting"

    publish(channel, "c")
    other = channel.connection.channel()
    other.queue_purge("later")
    assert other.basic_get("q")[0] is not None
    other.close()
    channel.queue_declare("q", passive=True)
    assert event(admin, "s", "requeued", -1)["reason"] == "its consumer is gone"


def test_a_stream_tells_who_read_a_message(admin: ManagementApi, channel: BlockingChannel) -> None:
    switch(admin)
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    publish(channel, "entry", "log")
    channel.basic_qos(prefetch_count=10)
    for method, _, _ in channel.consume("log", arguments={"x-stream-offset": "first"}):
        channel.basic_ack(method.delivery_tag)
        break
    channel.cancel()
    assert told(admin, "entry") == ["received", "routed", "queued", "delivered", "acked"]
    assert story(admin, "entry")["positions"][0]["queue"] == "log"


def test_messages_of_the_process_and_over_http_are_told_too(broker: leveret.Broker, admin: ManagementApi) -> None:
    switch(admin)
    vhost = broker.vhost()
    vhost.declare_queue("q")
    vhost.publish("", "q", b"", Properties(message_id="inside"))
    vhost.publish("", "none", b"", Properties(message_id="lost"))
    sent = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {"message_id": "http"}}
    assert admin.post("exchanges/%2F/amq.default/publish", sent) == (200, {"routed": True})
    assert told(admin, "inside") == told(admin, "http") == ["received", "routed", "queued"]
    assert event(admin, "http", "routed")["bindings"][0]["by"] == "name"
    assert told(admin, "lost") == ["received", "unroutable"]


# ---- the firehose


@pytest.mark.feature("S4-77")
def test_the_firehose_copies_what_comes_and_goes(
    admin: ManagementApi, channel: BlockingChannel, broker: leveret.Broker
) -> None:
    """Keys and headers as RabbitMQ has them; copies are not copied themselves."""
    channel.queue_declare("taps")
    channel.queue_bind("taps", "amq.rabbitmq.trace", "#")
    channel.queue_declare("q")
    publish(channel, "untold")
    channel.basic_get("q", auto_ack=True)
    switch(admin)
    publish(channel, "m", headers={"colour": "red"}, priority=3)
    tag = channel.basic_get("q")[0].delivery_tag
    copies = [channel.basic_get("taps", auto_ack=True) for _ in range(3)]
    assert copies[2] == (None, None, None)
    (first, came, body), (second, went, _) = copies[:2]
    assert (first.routing_key, second.routing_key, body) == ("publish.", "deliver.q", b"body")
    assert came.headers["properties"] == {"headers": {"colour": "red"}, "priority": 3, "message_id": "m"}
    common = {
        "exchange_name": "",
        "routing_keys": ["q"],
        "node": broker.node.broker.node_name,
        "vhost": "/",
        "channel": 1,
        "user": "guest",
    }
    for headers in (came.headers, went.headers):
        assert {name: headers[name] for name in common} == common
    assert (came.headers["routed_queues"], went.headers["redelivered"]) == (["q"], 0)
    channel.basic_nack(tag)
    channel.basic_get("q", auto_ack=True)
    assert channel.basic_get("taps", auto_ack=True)[1].headers["redelivered"] == 1
    assert len(admin.get("traces/%2F")[1]) == 1


def test_nobody_publishes_to_the_trace_exchange(channel: BlockingChannel) -> None:
    channel.basic_publish("amq.rabbitmq.trace", "publish.x", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"internal exchange 'amq\.rabbitmq\.trace'"):
        channel.queue_declare("q")


# ---- on and off


@pytest.mark.feature("S4-77")
def test_without_tracing_nothing_is_in_the_way(
    broker: leveret.Broker, admin: ManagementApi, channel: BlockingChannel
) -> None:
    """Queues and routes are of the classes they were before, also after it was on."""

    def ways() -> tuple[set[type], set[type], object]:
        vhost = home(broker)
        (connection,) = broker.node.broker.registry.connections
        known = connection.channels[1].routes.known.values()  # type: ignore[attr-defined]
        tracer = vhost.queue_context.tracer
        return {type(queue) for queue in vhost.queues.values()}, {route.tracer is not None for route in known}, tracer

    usual = ({ClassicQueue, StreamQueue}, {False}, None)
    channel.queue_declare("q")
    channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
    sender = home(broker).queue_context.dead_letters
    publish(channel, "a")
    channel.queue_declare("q", passive=True)
    assert broker.call(ways) == usual
    switch(admin)
    publish(channel, "b")
    channel.queue_declare("q", passive=True)
    queues, routes, tracer = broker.call(ways)
    assert tracer is not None
    assert queues.isdisjoint({ClassicQueue, StreamQueue})
    assert True in routes
    switch(admin, False)
    publish(channel, "c")
    channel.queue_declare("q", passive=True)
    assert broker.call(ways) == usual
    assert home(broker).queue_context.dead_letters == sender
    assert admin.get("traces/%2F") == (200, [])
    assert channel.queue_declare("q", passive=True).method.message_count == 3


def test_counters_are_the_same_with_tracing(
    broker: leveret.Broker, admin: ManagementApi, channel: BlockingChannel
) -> None:
    switch(admin)
    channel.queue_declare("q", durable=True)
    for number in range(5):
        publish(channel, str(number), delivery_mode=2 - number % 2)
    channel.queue_declare("q", passive=True)
    (connection,) = broker.node.broker.registry.connections
    assert broker.call(lambda: home(broker).counters_of("").published) == 5
    assert broker.call(lambda: connection.channels[1].published) == 5  # type: ignore[attr-defined]
    assert broker.vhost().message_count("q") == 5


@pytest.mark.feature("S4-77")
def test_tracing_outlives_the_process(tmp_path: Path) -> None:
    """The switch does, the stories do not; what is on disk is said to be."""
    with leveret.Broker(replace(QUIET, data_dir=tmp_path)) as broker:
        admin = as_guest(broker)
        admin.put("vhosts/other", {"tracing": True, "description": "mine"})
        switch(admin)
        broker.vhost().declare_queue("q", durable=True)
        broker.vhost().publish("", "q", b"", Properties(message_id="m", delivery_mode=2))
        assert admin.put("vhosts/other", {"tracing": False}) == (204, None)
        assert admin.get("vhosts/other")[1]["description"] == "mine"
        broker.call(lambda: None)
        assert "stored" in told(admin, "m")
    with leveret.Broker(replace(QUIET, data_dir=tmp_path)) as broker:
        admin = as_guest(broker)
        assert [row["tracing"] for row in admin.get("vhosts")[1]] == [True, False]
        assert broker.call(lambda: is_traced(home(broker)))
        assert admin.get("traces/%2F") == (200, [])
        got = broker.vhost().get("q", auto_ack=True)
        assert got is not None
        assert told(admin, "m") == ["found", "delivered", "acked"]
