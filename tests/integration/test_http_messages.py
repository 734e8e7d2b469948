"""S4-77: messages over HTTP: published and got as with RabbitMQ, and looked at without being taken."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET
from tests.support.http_objects import ObjectsApi, limited_user

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def api(module_broker: Broker) -> ObjectsApi:
    return ObjectsApi(module_broker.http_url)


@pytest.fixture
def queue(api: ObjectsApi) -> Iterator[str]:
    api.declare_queue("q", durable=True)
    yield "q"
    api.delete(api.at("queues", "q"))


def browse(api: ObjectsApi, queue: str, **query: object) -> Any:
    status, answer = api.get(api.at("queues", queue, "/messages"), **query)
    assert status == 200, answer
    return answer


def found(api: ObjectsApi, queue: str, **query: object) -> list[str]:
    return [message["payload"] for message in browse(api, queue, **query)["messages"]]


# ---- publish


@pytest.mark.feature("S4-77")
def test_a_foreign_client_gets_what_was_published(api: ObjectsApi, broker: Broker, queue: str) -> None:
    properties: dict[str, Any] = {
        "delivery_mode": 2,
        "headers": {"n": 1, "t": "text", "deep": {"list": [True, None, 2]}},
        "timestamp": 1_700_000_000,
        "content_type": "text/plain",
        "priority": 3,
        "message_id": "m-1",
        "user_id": "guest",
        "nonsense": "is left out",
        "reply_to": None,
    }
    assert api.publish(queue, "grüße", **properties) is True
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        method, got, body = connection.channel().basic_get(queue, auto_ack=True)
    assert (body.decode(), method.routing_key) == ("grüße", queue)
    assert (got.delivery_mode, got.priority, got.message_id, got.content_type) == (2, 3, "m-1", "text/plain")
    assert (got.timestamp, got.headers) == (1_700_000_000, properties["headers"])
    assert got.reply_to is None


@pytest.mark.feature("S4-77")
def test_a_message_that_reaches_nobody_says_so(api: ObjectsApi) -> None:
    assert api.publish("no such queue", "m") is False


@pytest.mark.feature("S4-77")
def test_bytes_travel_as_base64(api: ObjectsApi, queue: str) -> None:
    body = bytes(range(256))
    message = {"properties": {}, "routing_key": queue, "payload_encoding": "base64"}
    path = api.at("exchanges", "amq.default", "/publish")
    assert api.post(path, {**message, "payload": base64.b64encode(body).decode()}) == (200, {"routed": True})
    (got,) = api.take(queue)
    assert (got["payload_encoding"], base64.b64decode(got["payload"]), got["payload_bytes"]) == ("base64", body, 256)
    assert api.post(path, {**message, "payload": "_not base64"})[0] == 400


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"routing_key": None}, "'routing_key'"),
        ({"routing_key": "k" * 256}, "'routing_key'"),
        ({"routing_key": "\ud800"}, "'routing_key'"),
        ({"payload": 5}, "'payload'"),
        ({"payload": "\ud800"}, "'payload'"),
        ({"payload_encoding": "rot13"}, "'payload_encoding'"),
        ({"properties": [1]}, "'properties'"),
        ({"properties": ""}, "'properties'"),
        ({"properties": 0}, "'properties'"),
        ({"properties": False}, "'properties'"),
        ({"properties": {"delivery_mode": "x"}}, "'delivery_mode'"),
        ({"properties": {"delivery_mode": 3}}, "'delivery_mode'"),
        ({"properties": {"priority": 256}}, "'priority'"),
        ({"properties": {"timestamp": -1}}, "'timestamp'"),
        ({"properties": {"headers": 5}}, "'headers'"),
        ({"properties": {"expiration": "soon"}}, "invalid expiration 'soon'"),
        ({"properties": {"user_id": "other"}}, "user_id property set to 'other'"),
        ({"properties": {"reply_to": "amq.rabbitmq.reply-to"}}, "fast reply consumer"),
        ({"properties": {"headers": {"CC": "no list"}}}, "'CC'"),
    ],
)
@pytest.mark.feature("S4-77")
def test_wrong_publishes_are_told_by_their_field(
    api: ObjectsApi, queue: str, given: dict[str, object], field: str
) -> None:
    message = {"properties": {}, "routing_key": queue, "payload": "m", "payload_encoding": "string"}
    status, answer = api.post(api.at("exchanges", "amq.default", "/publish"), message | given)
    assert (status, field in answer["reason"]) == (400, True), answer
    assert api.queue(queue)["messages"] == 0


@pytest.mark.parametrize("given", [{}, {"properties": []}, {"properties": None}, {"properties": {}}])
def test_a_publish_may_leave_properties_and_encoding_out(api: ObjectsApi, queue: str, given: dict[str, object]) -> None:
    """Languages without empty objects write a list for one."""
    message = {"routing_key": queue, "payload": "m", **given}
    assert api.post(api.at("exchanges", "amq.default", "/publish"), message) == (200, {"routed": True})


@pytest.mark.feature("S4-77")
def test_publishing_to_what_is_not_there_or_internal_is_refused(api: ObjectsApi) -> None:
    message = {"properties": {}, "routing_key": "k", "payload": "m", "payload_encoding": "string"}
    api.declare_exchange("inside", internal=True)
    assert api.post(api.at("exchanges", "nix", "/publish"), message)[0] == 404
    assert api.post(api.at("exchanges", "inside", "/publish"), message)[0] == 403
    assert api.get(api.at("exchanges", "inside", "/publish"))[0] == 405


@pytest.mark.feature("S4-77")
def test_a_full_queue_refuses(api: ObjectsApi) -> None:
    api.declare_queue("one", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert api.publish("one", "first") is True
    message = {"properties": {}, "routing_key": "one", "payload": "second", "payload_encoding": "string"}
    status, answer = api.post(api.at("exchanges", "amq.default", "/publish"), message)
    assert (status, "full" in answer["reason"]) == (400, True)
    assert api.payloads("one") == ["first"]


@pytest.mark.feature("S4-77")
def test_publishers_wait_while_there_is_an_alarm(api: ObjectsApi, broker: Broker, queue: str) -> None:
    core = broker.node.broker
    broker.call(lambda: core.set_alarm("test", "low on something"))
    try:
        message = {"properties": {}, "routing_key": queue, "payload": "m", "payload_encoding": "string"}
        status, answer = api.post(api.at("exchanges", "amq.default", "/publish"), message)
        assert (status, "low on something" in answer["reason"]) == (503, True)
    finally:
        broker.call(lambda: core.set_alarm("test", None))
    assert api.publish(queue, "m") is True


# ---- get


def test_a_get_is_refused_while_deliveries_are_paused(api: ObjectsApi, broker: Broker, queue: str) -> None:
    """An empty list would mean that the queue is empty."""
    assert api.publish(queue, "waits") is True
    core = broker.node.broker
    broker.call(lambda: core.pause_deliveries("the replicated log does not answer"))
    try:
        given = json.dumps({"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}).encode()
        response, answer = api.send("POST", api.at("queues", queue, "/get"), given)
        assert (response.status, response.getheader("retry-after")) == (503, "1")
        assert json.loads(answer) == {
            "error": "paused",
            "reason": "deliveries are paused: the replicated log does not answer; try again later",
        }
        assert api.get(api.at("queues", queue))[1]["state"] == "running"  # its operator has not paused it
    finally:
        broker.call(core.resume_deliveries)
    assert api.payloads(queue) == ["waits"]


@pytest.mark.feature("S4-77")
def test_what_is_acked_is_gone_and_what_is_requeued_stays(api: ObjectsApi, queue: str) -> None:
    for n in range(3):
        api.publish(queue, str(n), headers={"n": n})
    looked = api.take(queue, 2, "ack_requeue_true")
    assert [(each["payload"], each["redelivered"], each["message_count"]) for each in looked] == [
        ("0", False, 2),
        ("1", False, 1),
    ]
    again = api.take(queue, 5, "reject_requeue_true")
    assert [(each["payload"], each["redelivered"]) for each in again] == [("0", True), ("1", True), ("2", False)]
    assert again[1]["properties"] == {"headers": {"n": 1}}
    assert [each["payload"] for each in api.take(queue, 1)] == ["0"]
    assert [each["payload"] for each in api.take(queue, 1, "reject_requeue_false")] == ["1"]
    assert api.payloads(queue) == ["2"]
    assert api.queue(queue)["messages_unacknowledged"] == 0


@pytest.mark.feature("S4-76")
def test_what_is_rejected_for_good_is_a_dead_letter(api: ObjectsApi) -> None:
    api.declare_queue("grave")
    to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    api.declare_queue("alive", arguments=to)
    api.publish("alive", "m")
    api.take("alive", ackmode="reject_requeue_false")
    assert api.payloads("grave") == ["m"]
    assert api.queue("alive")["counters"]["dead_lettered"] == 1


@pytest.mark.feature("S4-77")
def test_payloads_are_cut_between_characters(api: ObjectsApi, queue: str) -> None:
    api.publish(queue, "aüb")
    (got,) = api.take(queue, ackmode="ack_requeue_true", truncate=2)
    assert (got["payload"], got["payload_bytes"], got["payload_encoding"]) == ("a", 4, "string")
    (got,) = api.take(queue, ackmode="ack_requeue_true", encoding="base64")
    assert base64.b64decode(got["payload"]).decode() == "aüb"


@pytest.mark.parametrize(
    "given",
    [
        {"count": 0},
        {"count": None},
        {"ackmode": "eat"},
        {"ackmode": None},
        {"encoding": "hex"},
        {"truncate": -1},
    ],
)
@pytest.mark.feature("S4-77")
def test_wrong_gets_are_400_and_take_nothing(api: ObjectsApi, queue: str, given: dict[str, object]) -> None:
    api.publish(queue, "m")
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert api.post(api.at("queues", queue, "/get"), asked | given)[0] == 400
    assert api.payloads(queue) == ["m"]


@pytest.mark.feature("S4-77")
def test_streams_and_missing_queues_cannot_be_got_from(api: ObjectsApi) -> None:
    api.declare_queue("stream", durable=True, arguments={"x-queue-type": "stream"})
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert api.post(api.at("queues", "stream", "/get"), asked)[0] == 400
    assert api.post(api.at("queues", "nix", "/get"), asked)[0] == 404


@pytest.mark.feature("S4-77")
def test_messages_that_are_on_disk_only_are_got_and_looked_at(tmp_path: Path) -> None:
    body, number = b"x" * 4_000, 400
    with Broker(replace(QUIET, data_dir=tmp_path / "data", durability="os", queue_memory=64 << 10)) as broker:
        api, vhost = ObjectsApi(broker.http_url), broker.vhost()
        api.declare_queue("long", durable=True)
        for n in range(number):
            vhost.publish("", "long", b"%03d" % n + body, Properties(delivery_mode=2))
        row = api.queue("long")
        assert row["messages_paged_out"] > number // 2
        assert row["messages_ready_ram"] + row["messages_paged_out"] == row["messages_ready"]
        assert row["message_bytes_paged_out"] + row["message_bytes_ram"] == row["message_bytes"]
        shown = browse(api, "long", truncate=3, limit=number)
        assert [message["payload"] for message in shown["messages"]] == [f"{n:03}" for n in range(number)]
        got = api.take("long", number, truncate=3)
        assert [message["payload"] for message in got] == [f"{n:03}" for n in range(number)]
        assert api.queue("long")["messages"] == 0


# ---- browse


@pytest.mark.feature("S4-77")
def test_browsing_changes_nothing(api: ObjectsApi, queue: str) -> None:
    api.publish(queue, "first", headers={"n": 1}, message_id="m-1")
    api.publish(queue, "second")
    before = api.queue(queue)
    answer = browse(api, queue, limit=1)
    assert (answer["examined"], answer["looked_at"], answer["is_complete"]) == (1, 1, False)
    (message,) = answer["messages"]
    assert message["properties"] == {"headers": {"n": 1}, "message_id": "m-1"}
    assert (message["exchange"], message["routing_key"], message["redelivered"]) == ("", queue, False)
    after = api.queue(queue)
    assert after["counters"] == before["counters"]
    assert found(api, queue) == ["first", "second"]
    assert browse(api, queue)["is_complete"] is True
    assert [each["redelivered"] for each in api.take(queue)] == [False, False]


@pytest.mark.feature("S4-77")
def test_browsing_decodes_what_it_shows(api: ObjectsApi, queue: str) -> None:
    api.publish(queue, '{"a": [1, 123456789012345678901234567890]}')
    api.publish(queue, "{not json")
    api.publish(queue, "42")
    raw = base64.b64encode(b"\xff\x00").decode()
    message = {"properties": {}, "routing_key": queue, "payload": raw, "payload_encoding": "base64"}
    api.post(api.at("exchanges", "amq.default", "/publish"), message)
    shown = browse(api, queue)["messages"]
    assert [each["payload_format"] for each in shown] == ["json", "text", "text", "binary"]
    assert shown[0]["payload_json"] == {"a": [1, 123456789012345678901234567890]}
    assert (shown[3]["payload"], shown[3]["payload_encoding"]) == (raw, "base64")
    cut = browse(api, queue, truncate=5)["messages"][0]
    assert (cut["payload"], cut["truncated"], cut["payload_format"], cut["payload_bytes"]) == (
        '{"a":',
        True,
        "text",
        42,
    )


@pytest.mark.feature("S4-77")
def test_browsing_filters_by_selector_headers_text_and_json(api: ObjectsApi, queue: str) -> None:
    for n, colour in enumerate(("red", "green", "red", "blue")):
        order = {"order": {"id": n, "lines": [{"sku": f"S-{n}", "gift": n == 2}]}}
        api.publish(queue, json.dumps(order), headers={"colour": colour, "n": n})
    api.publish(queue, "no json")

    def numbers(**query: object) -> list[int]:
        return [message["properties"]["headers"]["n"] for message in browse(api, queue, **query)["messages"]]

    assert numbers(selector="colour = 'red' AND n > 0") == [2]
    assert numbers(**{"headers.colour": "red"}) == [0, 2]
    assert numbers(**{"headers.colour": "red", "headers.n": "0"}) == [0]
    assert numbers(contains="S-3") == [3]
    assert numbers(json="order.id=1") == [1]
    assert numbers(json="order.lines.0.sku=S-2") == [2]
    assert numbers(json="order.lines.0.gift=true") == [2]
    assert numbers(json="order.lines.0.gift=1") == []
    assert numbers(json="order.nothing=null") == []
    assert numbers(json="order.id=1", contains="S-2") == []
    assert found(api, queue, contains="no js") == ["no json"]
    assert browse(api, queue, json="order.id=1")["examined"] == 5


@pytest.mark.parametrize(
    "query",
    [
        {"selector": "colour ="},
        {"json": "no value"},
        {"json": "=5"},
        {"limit": 0},
        {"limit": 1_000_000},
        {"truncate": "x"},
    ],
)
@pytest.mark.feature("S4-77")
def test_wrong_filters_are_400(api: ObjectsApi, queue: str, query: dict[str, object]) -> None:
    assert api.get(api.at("queues", queue, "/messages"), **query)[0] == 400


@pytest.mark.feature("S4-77")
def test_streams_are_browsed_with_their_offsets(api: ObjectsApi) -> None:
    api.declare_queue("flow", durable=True, arguments={"x-queue-type": "stream"})
    for n in range(3):
        api.publish("flow", str(n), headers={"n": n})
    shown = browse(api, "flow", selector="n >= 1")["messages"]
    assert [(message["payload"], message["offset"]) for message in shown] == [("1", 1), ("2", 2)]


@pytest.mark.feature("S4-77")
def test_a_look_has_an_end_even_if_nothing_is_found(
    api: ObjectsApi, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.api.message_browser.MOST_EXAMINED", 3)
    for n in range(5):
        api.publish(queue, str(n))
    answer = browse(api, queue, contains="nobody")
    assert (answer["messages"], answer["examined"], answer["is_complete"]) == ([], 3, False)
    monkeypatch.setattr("leveret.api.message_browser.MOST_BYTES", 1)
    assert found(api, queue) == ["0"]


# ---- who may


@pytest.mark.feature("S4-72")
def test_write_to_publish_and_read_to_get_and_browse(api: ObjectsApi, broker: Broker, queue: str) -> None:
    message = {"properties": {}, "routing_key": queue, "payload": "m", "payload_encoding": "string"}
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    writer = limited_user(broker, "writer", write="^amq.default$")
    reader = limited_user(broker, "reader", read="^q$")
    assert writer.post(writer.at("exchanges", "amq.default", "/publish"), message) == (200, {"routed": True})
    assert writer.post(writer.at("queues", queue, "/get"), asked)[0] == 403
    assert writer.get(writer.at("queues", queue, "/messages"))[0] == 403
    assert reader.post(reader.at("exchanges", "amq.default", "/publish"), message)[0] == 403
    assert found(reader, queue) == ["m"]
    assert len(reader.take(queue)) == 1


@pytest.mark.feature("S4-72")
def test_topics_may_be_closed_to_some_keys(api: ObjectsApi, broker: Broker) -> None:
    anna = limited_user(broker, "anna", ".*", ".*", ".*")
    broker.call(lambda: broker.node.broker.permissions.set_topic("anna", "/", "amq.topic", "^mine", "^mine"))
    message = {"properties": {}, "payload": "m", "payload_encoding": "string"}
    path = anna.at("exchanges", "amq.topic", "/publish")
    assert anna.post(path, message | {"routing_key": "mine.x"}) == (200, {"routed": False})
    assert anna.post(path, message | {"routing_key": "other.x"})[0] == 403
