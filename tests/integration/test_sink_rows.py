"""Rows of the sink: headers of all types, rows that must be routed, and stages that are renewed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import leveret
from leveret.embedded_vhost import EmbeddedVhost
from leveret.spark.written import Written, summed
from tests.support.http_api import HttpApi
from tests.support.sink_requests import BOTH, MESSAGES, STAGES, add_user, commit, drained, rows, stage_queues, staged

pytestmark = pytest.mark.broker(storage=("memory",), fresh=True)


@pytest.fixture
def broker(broker: leveret.Broker) -> leveret.Broker:
    broker.vhost().declare_queue("q", durable=True)
    return broker


def test_headers_of_a_struct_have_their_types(api: HttpApi, vhost: EmbeddedVhost) -> None:
    for key in ("a", "b"):
        vhost.declare_queue(key, durable=True)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    given = {"n": 1 << 40, "d": 0.5, "t": True, "raw": b"\x00", "at": at, "CC": ["a", "b"], "in": {"x": 1, "y": None}}
    commit(api, 0, staged(api, rows(2, headers=pa.array([given, None]))))
    first, second = vhost.get("q", auto_ack=True), vhost.get("q", auto_ack=True)
    assert first is not None
    assert second is not None
    assert first.properties.headers == given | {"in": {"x": 1}}
    assert type(first.properties.headers["t"]) is bool
    assert second.properties.headers is None
    assert drained(vhost, "a") == drained(vhost, "b") == [b"000000"]


@BOTH
def test_rows_say_which_must_arrive_and_all_that_cannot_are_counted(
    api: HttpApi, broker: leveret.Broker, vhost: EmbeddedVhost, path: str, more: Any
) -> None:
    keys = pa.array(["q", "x", "y", "x", "q"])
    columns = {"routing_key": keys, "mandatory": pa.array([True, True, None, True, False])}
    status, answer = api.post(path, rows(5, **columns), exchange="", **more)
    lost = [{"exchange": "", "routing_key": "x", "messages": 2}]
    assert (status, answer["unroutable"], answer["unroutable_keys"][-1:]) == (409, 2, lost)
    assert "routing key 'x' is not routed to any queue by exchange 'amq.default' (2 messages)" in answer["reason"]
    assert stage_queues(broker) == []
    assert len(drained(vhost)) == (2 if path == MESSAGES else 0)
    status, answer = api.post(path, rows(5, **columns), exchange="", unroutable="report", **more)
    assert status == 200
    if path == STAGES:
        status, answer = commit(api, 0, answer["stage"])
    lost.append({"exchange": "", "routing_key": "y", "messages": 1})
    assert (status, answer["messages"], answer["unroutable"], answer["unroutable_keys"]) == (200, 5, 3, lost)
    assert api.post(path, rows(1), exchange="", unroutable="perhaps", **more)[0] == 400


@BOTH
def test_a_request_tells_how_long_it_waited_for_the_disk(
    api: HttpApi, monkeypatch: pytest.MonkeyPatch, path: str, more: Any
) -> None:
    for name, value in (("inflow.WINDOW_BYTES", 1), ("inflow.MOST_WINDOWS", 1), ("row_upload.TOLD_SECONDS", -1.0)):
        monkeypatch.setattr(f"leveret.pipeline.{name}", value)
    status, answer = api.post(path, rows(10), exchange="", routing_key="q", **more)
    assert (status, list(answer["waited"])) == (200, ["disk"])
    written = Written("T")
    written.add(answer | {"waited": {"disk": 1.5}})
    assert summed([written, written]).waited == {"its disk is slow": 3.0}


@BOTH
def test_further_keys_need_topic_permission_too(broker: leveret.Broker, path: str, more: Any) -> None:
    other = add_user(broker, f"copies{path[-6:]}", "^amq\\.topic$", topic="^mine\\.")
    for copy, expected in (("mine.b", 200), ("yours.b", 403)):
        headers = pa.array([{"CC": [copy]}])
        status, _ = other.post(path, rows(1, headers=headers), exchange="amq.topic", routing_key="mine.a", **more)
        assert status == expected


def test_stages_are_renewed_by_their_owner_only(api: HttpApi, broker: leveret.Broker) -> None:
    other = add_user(broker, "renewer", ".*")
    staged(api, rows(1))
    renew = f"{STAGES}/renew"
    assert api.post(renew, b"", transaction="T") == (200, {"renewed": 1})
    assert other.post(renew, b"", transaction="T") == (200, {"renewed": 0})
    assert api.post(renew, b"", transaction="")[0] == 400
