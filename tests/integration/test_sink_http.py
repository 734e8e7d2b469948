"""The sink over HTTP: rows of Arrow are staged, committed, or published as they come."""

from __future__ import annotations

import http.client
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import leveret
from leveret.broker.internal_queues import STAGE
from leveret.clock import FrozenClock
from leveret.config import Settings
from leveret.embedded_vhost import EmbeddedVhost
from leveret.pipeline.stages import LIFETIME
from leveret.pipeline.unroutable import MOST_MANDATORY
from tests.support.http_api import HttpApi, arrow_stream, located, vhost_path
from tests.support.raw_client import eventually
from tests.support.sink_requests import (
    BOTH,
    COMMITS,
    MESSAGES,
    STAGES,
    TO_Q,
    add_user,
    commit,
    drained,
    rows,
    stage_queues,
    staged,
)

QUIET = Settings(amqp_port=None, http_port=0, stomp_port=None, shutdown_timeout=2.0, login_failure_delay=0.0)
pytestmark = pytest.mark.broker(storage=("disk", "memory"), fresh=True)


@pytest.fixture
def broker(broker: leveret.Broker) -> leveret.Broker:
    broker.vhost().declare_queue("q", durable=True)
    return broker


# ---- stages and commits


def test_rows_are_invisible_until_they_are_committed_and_then_there_once(api: HttpApi, vhost: EmbeddedVhost) -> None:
    stages = [staged(api, rows(1000, first), partition=first // 1000) for first in (0, 1000)]
    assert vhost.get("q") is None
    assert commit(api, 0, *stages) == (200, {"duplicate": False, "messages": 2000, "unroutable": 0})
    assert drained(vhost) == [b"%06d" % n for n in range(2000)]
    again = staged(api, rows(10))
    assert commit(api, 0, again) == (200, {"duplicate": True, "messages": 0, "unroutable": 0, "messages_before": 2000})
    assert drained(vhost) == []
    assert api.get(COMMITS, transaction="T") == (200, {"transaction": "T", "last_batch": 0})
    assert api.get(COMMITS, transaction="other") == (200, {"transaction": "other", "last_batch": None})


def test_stages_are_listed_and_dropped(api: HttpApi, broker: leveret.Broker) -> None:
    mine, other = staged(api, rows(3), batch=7), staged(api, rows(2), batch=8)
    status, answer = api.get(STAGES)
    assert status == 200
    first, second = answer["stages"]
    assert (first["stage"], first["transaction"], first["batch"], first["messages"]) == (mine, "T", 7, 3)
    assert second["stage"] == other
    assert first["bytes"] > 3 * 6
    assert first["since"] == pytest.approx(broker.node.broker.clock.wall(), abs=60)
    assert api.delete(STAGES, transaction="T", batch=7) == (200, {"dropped": 1})
    assert api.delete(STAGES, transaction="T", batch=7) == (200, {"dropped": 0})
    assert [stage["stage"] for stage in api.get(STAGES)[1]["stages"]] == [other]


def test_a_stage_that_is_unknown_is_a_conflict(api: HttpApi, vhost: EmbeddedVhost) -> None:
    stage = staged(api, rows(1))
    status, answer = commit(api, 0, stage, "nonsense")
    assert status == 409
    assert "nonsense" in answer["reason"]
    assert api.get(COMMITS, transaction="T")[1]["last_batch"] is None
    assert commit(api, 0, stage)[0] == 200
    assert drained(vhost) == [b"000000"]


def test_rows_name_their_own_exchange_and_key(api: HttpApi, vhost: EmbeddedVhost) -> None:
    for key in ("a", "b"):
        vhost.declare_queue(key, durable=True)
        vhost.bind(key, "amq.direct", key)
    keys = pa.array(["a", "b"] * 5)
    exchanges = pa.array(["amq.direct"] * 9 + [""])
    stage = staged(api, rows(10, routing_key=keys, exchange=exchanges))
    assert commit(api, 0, stage)[1]["messages"] == 10
    assert drained(vhost, "a") == [b"%06d" % n for n in range(0, 10, 2)]
    assert drained(vhost, "b") == [b"%06d" % n for n in range(1, 10, 2)]


def test_headers_and_properties_arrive(api: HttpApi, vhost: EmbeddedVhost) -> None:
    headers = pa.array([[("colour", "red")], []], pa.map_(pa.string(), pa.string()))
    fields = [("message_id", pa.string()), ("delivery_mode", pa.int32()), ("priority", pa.int32())]
    properties = pa.array([{"message_id": "m", "priority": 3}, {"delivery_mode": 1}], pa.struct(fields))
    commit(api, 0, staged(api, rows(2, headers=headers, properties=properties)))
    first, second = vhost.get("q", auto_ack=True), vhost.get("q", auto_ack=True)
    assert first is not None
    assert second is not None
    assert first.properties.headers == {"colour": "red"}
    assert (first.properties.message_id, first.properties.delivery_mode, first.properties.priority) == ("m", 2, 3)
    assert (second.properties.headers, second.properties.delivery_mode) == (None, 1)


def test_rows_can_be_committed_into_a_stream_and_read_there(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("log", durable=True, arguments={"x-queue-type": "stream"})
    for key in ("a", "b"):
        vhost.bind("log", "amq.direct", key)
    stage = staged(api, rows(3000, routing_key=pa.array(["a", "b", "b"] * 1000)), exchange="amq.direct")
    assert commit(api, 0, stage)[1] == {"duplicate": False, "messages": 3000, "unroutable": 0}
    assert api.post(MESSAGES, rows(1000, 3000), exchange="amq.direct", routing_key="a")[0] == 200
    eventually(lambda: api.get(vhost_path("sources"), queue="log")[1]["sources"][0]["next"] == 4000)
    found = api.rows(MESSAGES, queue="log", from_=0, to=4000, columns="body,routing_key")
    assert [row["body"] for row in found] == [b"%06d" % n for n in range(4000)]
    assert [row["routing_key"] for row in found] == ["a", "b", "b"] * 1000 + ["a"] * 1000


def test_rows_can_wait_for_their_time(api: HttpApi, vhost: EmbeddedVhost, broker: leveret.Broker) -> None:
    at = round((broker.node.broker.clock.wall() + 3600) * 1000)
    headers = pa.array([[("x-deliver-at", str(at))], []], pa.map_(pa.string(), pa.string()))
    commit(api, 0, staged(api, rows(2, headers=headers)))
    assert drained(vhost) == [b"000001"]
    assert vhost.scheduled_count() == 1
    commit(api, 1, staged(api, rows(1, 2, headers=pa.array([{"x-deliver-at": at}])), batch=1))
    assert vhost.scheduled_count() == 2
    broker.clock.advance(3601)
    assert drained(vhost) == [b"000000", b"000002"]


def test_a_body_that_breaks_leaves_no_stage(api: HttpApi, broker: leveret.Broker) -> None:
    batch = pa.record_batch({"body": pa.array([bytes(100)] * 10_000, pa.binary())})
    whole = arrow_stream(batch, batch, batch)
    status, answer = api.post(STAGES, whole[: len(whole) * 2 // 3], **TO_Q, transaction="T", batch=0)
    assert (status, answer["error"]) == (400, "bad_request")
    batch = pa.record_batch({"body": pa.array([b"one"], pa.binary())})
    status, answer = api.post(STAGES, arrow_stream(batch, batch)[:-8], **TO_Q, transaction="T", batch=0)
    assert (status, answer["error"]) == (400, "bad_request"), "a writer that died between two batches"
    assert stage_queues(broker) == []


def test_a_client_that_goes_away_leaves_no_stage(api: HttpApi, broker: leveret.Broker) -> None:
    batch = pa.record_batch({"body": pa.array([bytes(100)] * 10_000, pa.binary())})
    whole = arrow_stream(batch, batch)
    path = located(STAGES, {**TO_Q, "transaction": "T", "batch": 0})
    with socket.create_connection((api.host, api.port), 20) as peer:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {api.headers['Authorization']}\r\n"
        peer.sendall(f"{head}Content-Length: {len(whole)}\r\n\r\n".encode() + whole[: len(whole) * 2 // 3])
        eventually(lambda: stage_queues(broker))
    eventually(lambda: not stage_queues(broker))


def test_an_unfinished_stage_is_in_no_list_and_cannot_be_committed(api: HttpApi, broker: leveret.Broker) -> None:
    whole = rows(10)
    path = located(STAGES, {**TO_Q, "transaction": "T", "batch": 0})
    connection = http.client.HTTPConnection(api.host, api.port, timeout=20)
    connection.putrequest("POST", path)
    connection.putheader("Authorization", api.headers["Authorization"])
    connection.putheader("Content-Length", str(len(whole)))
    connection.endheaders(whole[:-8])
    eventually(lambda: stage_queues(broker))
    (name,) = stage_queues(broker)
    assert api.get(STAGES) == (200, {"stages": []})
    assert commit(api, 0, name.removeprefix(STAGE))[0] == 409
    connection.send(whole[-8:])
    assert connection.getresponse().status == 200
    connection.close()


def test_a_stage_expires_on_the_clock_of_the_broker(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    with leveret.Broker(settings, clock=FrozenClock()) as broker:
        broker.vhost().declare_queue("q", durable=True)
        api = HttpApi(broker.http_url)
        stage = staged(api, rows(5))
        broker.clock.advance(LIFETIME + 1)
        assert api.get(STAGES) == (200, {"stages": []})
        status, answer = commit(api, 0, stage)
        assert (status, "an hour" in answer["reason"]) == (409, True)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"batch": 0}, "transaction"),
        ({"transaction": "", "batch": 0}, "transaction"),
        ({"transaction": "T"}, "batch"),
        ({"transaction": "T", "batch": -1}, "batch"),
        ({"transaction": "T", "batch": 0, "mandatory": "perhaps"}, "mandatory"),
        ({"transaction": "T", "batch": 0, "partition": "x"}, "partition"),
    ],
)
def test_wrong_parameters_are_named(api: HttpApi, query: dict[str, object], named: str) -> None:
    status, answer = api.post(STAGES, rows(1), **TO_Q, **query)
    assert (status, f"'{named}'" in answer["reason"]) == (400, True)


@pytest.mark.parametrize("stages", [None, "x", [1], {}])
def test_a_commit_needs_a_list_of_ids(api: HttpApi, stages: object) -> None:
    status, answer = api.post(COMMITS, {"transaction": "T", "batch": 0, "stages": stages})
    assert (status, "'stages'" in answer["reason"]) == (400, True)


# ---- what may come in


@BOTH
def test_an_unknown_exchange_is_not_found(api: HttpApi, broker: leveret.Broker, path: str, more: Any) -> None:
    status, answer = api.post(path, rows(1), exchange="nowhere", **more)
    assert (status, answer["reason"]) == (404, "no exchange 'nowhere' in vhost '/'")
    column = pa.array(["", "nowhere"])
    status, answer = api.post(path, rows(2, exchange=column), routing_key="q", **more)
    assert (status, answer["reason"]) == (404, "no exchange 'nowhere' in vhost '/'")
    assert stage_queues(broker) == []


@BOTH
def test_what_must_arrive_and_cannot_is_a_conflict(
    api: HttpApi, broker: leveret.Broker, vhost: EmbeddedVhost, path: str, more: Any
) -> None:
    keys = pa.array(["q", "nobody"])
    status, answer = api.post(path, rows(2, routing_key=keys), exchange="", mandatory="true", **more)
    assert status == 409
    assert "routing key 'nobody' is not routed to any queue by exchange 'amq.default'" in answer["reason"]
    assert stage_queues(broker) == []
    assert len(drained(vhost)) == (path == MESSAGES)


def test_mandatory_rows_that_lose_their_queue_after_they_were_staged_are_counted_apart(
    api: HttpApi, broker: leveret.Broker
) -> None:
    """Rows of every kind: packed (plain), with properties, and of more addresses than a stage keeps."""
    vhost = broker.vhost()
    vhost.declare_exchange("e", "topic", durable=True)
    vhost.bind("q", "e", "#")
    keys, flags = pa.array(["a", "a", "b", "b"]), pa.array([True, False, False, None])
    plain = rows(4, routing_key=keys, mandatory=flags)
    typed = rows(4, routing_key=keys, mandatory=flags, headers=pa.array([{"n": n} for n in range(4)]))
    many = pa.array([f"key-{n}" for n in range(MOST_MANDATORY + 10)])
    all_mandatory = rows(len(many), routing_key=many, mandatory=pa.array([True] * len(many)))
    stages = [staged(api, body, exchange="e") for body in (plain, typed, all_mandatory)]
    stages.append(staged(api, rows(2), exchange="e", mandatory="true"))
    vhost.unbind("q", "e", "#")
    status, answer = commit(api, 0, *stages)
    assert status == 200
    # A row that is not mandatory counts if its address has mandatory rows in the same stage.
    assert (answer["unroutable"], answer["unroutable_mandatory"]) == (10 + len(many), 6 + len(many))


@BOTH
def test_without_write_permission_nothing_comes_in(
    api: HttpApi, broker: leveret.Broker, vhost: EmbeddedVhost, path: str, more: Any
) -> None:
    other = add_user(broker, f"other{path[-6:]}", "^amq\\.topic$", topic="^mine\\.")
    status, answer = other.post(path, rows(1), **TO_Q, **more)
    assert (status, "write access to exchange 'amq.default'" in answer["reason"]) == (403, True)
    status, answer = other.post(path, rows(1), exchange="amq.topic", routing_key="yours.x", **more)
    assert (status, "write access to topic 'yours.x'" in answer["reason"]) == (403, True)
    assert other.post(path, rows(1), exchange="amq.topic", routing_key="mine.x", **more)[0] == 200
    column = pa.array(["amq.topic"])
    assert other.post(path, rows(1, exchange=column), exchange="", routing_key="mine.x", **more)[0] == 200
    vhost.declare_exchange("inside", "fanout", internal=True)
    status, answer = api.post(path, rows(1), exchange="inside", **more)
    assert (status, "internal exchange 'inside'" in answer["reason"]) == (403, True)


def test_stages_of_others_are_neither_seen_nor_touched_without_permission(
    api: HttpApi, broker: leveret.Broker, vhost: EmbeddedVhost
) -> None:
    other = add_user(broker, "reader", "^amq\\.topic$")
    stage = staged(api, rows(1))
    assert other.get(STAGES) == (200, {"stages": []})
    assert other.delete(STAGES, transaction="T", batch=0)[0] == 403
    assert commit(other, 0, stage)[0] == 403
    assert commit(api, 0, stage)[0] == 200


@BOTH
def test_properties_that_no_broker_takes_are_refused(
    api: HttpApi, broker: leveret.Broker, vhost: EmbeddedVhost, path: str, more: Any
) -> None:
    for name, value in (("expiration", "soon"), ("user_id", "somebody"), ("reply_to", "amq.rabbitmq.reply-to")):
        properties = pa.array([{name: value}], pa.struct([(name, pa.string())]))
        status, _ = api.post(path, rows(1, properties=properties), **TO_Q, **more)
        assert status == 409
    mine = pa.array([{"user_id": "guest"}], pa.struct([("user_id", pa.string())]))
    assert api.post(path, rows(1, properties=mine), **TO_Q, **more)[0] == 200
    assert len(stage_queues(broker)) == (path == STAGES)


@BOTH
def test_while_there_is_an_alarm_publishers_are_blocked_and_commits_go_on(
    api: HttpApi, broker: leveret.Broker, path: str, more: Any
) -> None:
    stage = staged(api, rows(1), batch=1, transaction="U")
    broker.call(lambda: broker.node.broker.set_alarm("test", "a test is running"))
    response, answer = api.send("POST", located(path, {**TO_Q, **more}), rows(1))
    assert (response.status, response.getheader("retry-after")) == (503, "1")
    assert b"a test is running" in answer
    assert commit(api, 1, stage, transaction="U")[1]["messages"] == 1
    broker.call(lambda: broker.node.broker.set_alarm("test", None))
    assert api.post(path, rows(1), **TO_Q, **more)[0] == 200


# ---- published as they come


def test_rows_are_published_as_they_come(api: HttpApi, vhost: EmbeddedVhost) -> None:
    keys = pa.array(["q", "nobody"] * 1500)
    status, answer = api.post(MESSAGES, rows(3000, routing_key=keys), exchange="")
    lost = [{"exchange": "", "routing_key": "nobody", "messages": 1500}]
    assert (status, answer) == (200, {"messages": 3000, "unroutable": 1500, "unroutable_keys": lost})
    assert drained(vhost) == [b"%06d" % n for n in range(0, 3000, 2)]


def test_of_a_body_that_breaks_it_is_told_how_much_was_published(api: HttpApi, vhost: EmbeddedVhost) -> None:
    batch = pa.record_batch({"body": pa.array([bytes(100)] * 10_000, pa.binary())})
    whole = arrow_stream(batch, batch, batch)
    status, answer = api.post(MESSAGES, whole[: len(whole) * 5 // 6], **TO_Q)
    assert (status, answer["messages"]) == (400, vhost.message_count("q"))
    assert 10_000 < answer["messages"] <= 20_000


def test_of_a_full_queue_it_is_told_how_much_was_published(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("full", durable=True, arguments={"x-max-length": 3, "x-overflow": "reject-publish"})
    status, answer = api.post(MESSAGES, rows(5), exchange="", routing_key="full")
    assert (status, answer["messages"]) == (409, 3)
    assert "full" in answer["reason"]
    assert drained(vhost, "full") == [b"%06d" % n for n in range(3)]


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    with leveret.Broker(settings) as broker:
        broker.vhost().declare_queue("q", durable=True)
        api = HttpApi(broker.http_url)
        assert api.post(MESSAGES, rows(10), **TO_Q)[0] == 200
        stage, dropped = staged(api, rows(10, 10)), staged(api, rows(10, 20), batch=9, transaction="U")
        assert api.delete(STAGES, transaction="U", batch=9) == (200, {"dropped": 1})
    with leveret.Broker(settings) as broker:
        api, vhost = HttpApi(broker.http_url), broker.vhost()
        assert [each["stage"] for each in api.get(STAGES)[1]["stages"]] == [stage]
        assert commit(api, 9, dropped, transaction="U")[0] == 409
        assert commit(api, 0, stage)[1]["messages"] == 10
        assert drained(vhost) == [b"%06d" % n for n in range(20)]
