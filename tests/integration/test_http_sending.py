"""What is sent to the broker over HTTP: bodies that are wrong, too large or cut off, offsets of readers, reports."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import leveret
from leveret.embedded_vhost import EmbeddedVhost
from leveret.pipeline import context
from tests.support.http_api import QUIET, HttpApi, arrow_stream, bodies, located, vhost_path
from tests.support.raw_client import eventually

SMALL = replace(QUIET, max_message_size=1000)
MESSAGES, CONSUMERS = vhost_path("messages"), vhost_path("consumers")
STREAM = {"x-queue-type": "stream"}
BATCH = pa.record_batch({"body": pa.array([b"one", b"two"])})


pytestmark = pytest.mark.broker(SMALL, fresh=True)


@pytest.fixture
def vhost(broker: leveret.Broker) -> EmbeddedVhost:
    made = broker.vhost()
    made.declare_queue("q")
    return made


# ---- Arrow bodies


def test_rows_are_published(api: HttpApi, vhost: EmbeddedVhost) -> None:
    status, answer = api.post(MESSAGES, arrow_stream(BATCH, BATCH), exchange="", routing_key="q")
    assert (status, answer["messages"]) == (200, 4)
    assert bodies(api.rows(MESSAGES, queue="q")) == [b"one", b"two"] * 2


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"this is no Arrow at all",
        arrow_stream(BATCH)[:-30],
        arrow_stream(pa.record_batch({"body": pa.array([1, 2])})),
        arrow_stream(pa.record_batch({"colour": pa.array(["red"])})),
        arrow_stream(pa.record_batch({"body": pa.array([b"one", None])})),
    ],
)
def test_a_broken_body_is_refused_and_nothing_of_it_published(api: HttpApi, vhost: EmbeddedVhost, body: bytes) -> None:
    status, answer = api.post(MESSAGES, body, exchange="", routing_key="q")
    assert (status, answer["error"]) == (400, "bad_request")
    assert vhost.message_count("q") == 0
    assert api.post(MESSAGES, arrow_stream(BATCH), exchange="", routing_key="q")[0] == 200


def test_a_message_that_is_too_large_is_refused(api: HttpApi, vhost: EmbeddedVhost) -> None:
    batch = pa.record_batch({"body": pa.array([bytes(1001)])})
    status, answer = api.post(MESSAGES, arrow_stream(batch), exchange="", routing_key="q")
    assert (status, answer["error"]) == (413, "too_large")
    assert vhost.message_count("q") == 0


def test_all_unfinished_bodies_together_are_bounded(
    broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client holds most of what may be held; another is told to come again, and can once the first has gone."""
    monkeypatch.setattr(context, "MOST_HELD", 50_000)
    large = arrow_stream(pa.record_batch({"body": pa.array([bytes(900)] * 50)}))
    with socket.create_connection((api.host, api.port), timeout=10) as slow:
        path = located(MESSAGES, {"exchange": "", "routing_key": "q"})
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {api.headers['Authorization']}\r\n"
        slow.sendall(f"{head}Content-Length: {len(large)}\r\n\r\n".encode() + large[:30_000])
        eventually(lambda: broker.node.pipeline.held > 20_000)
        # Its head must be there without its tail, so it is sent in two: the second part would be too much.
        with socket.create_connection((api.host, api.port), timeout=10) as other:
            other.sendall(f"{head}Content-Length: {len(large)}\r\n\r\n".encode() + large[:30_000])
            answer = other.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer
    eventually(lambda: broker.node.pipeline.held == 0)
    assert api.post(MESSAGES, large, exchange="", routing_key="q")[1]["messages"] == 50


def test_a_client_that_goes_away_in_the_middle_leaves_nothing(
    broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost
) -> None:
    data = arrow_stream(BATCH)
    with socket.create_connection((api.host, api.port), timeout=10) as peer:
        path = located(MESSAGES, {"exchange": "", "routing_key": "q"})
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {api.headers['Authorization']}\r\n"
        peer.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:-40])
        eventually(lambda: broker.node.pipeline.held > 0)
    eventually(lambda: broker.node.pipeline.held == 0)
    assert vhost.message_count("q") == 0


# ---- offsets of readers


def test_offsets_of_readers_are_set_listed_and_forgotten(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    assert api.put(CONSUMERS, {"consumer": "a", "queue": "s", "offset": 7})[0] == 200
    assert api.put(CONSUMERS, {"consumer": "b", "queue": "s", "offset": 0, "pinned": True})[0] == 200
    assert api.put(CONSUMERS, {"consumer": "a", "queue": "s", "offset": 9})[0] == 200
    listed = api.get(CONSUMERS, queue="s")[1]["consumers"]
    assert sorted(listed, key=lambda each: str(each["consumer"])) == [
        {"consumer": "a", "queue": "s", "offset": 9, "pinned": False},
        {"consumer": "b", "queue": "s", "offset": 0, "pinned": True},
    ]
    assert api.delete(CONSUMERS, queue="s", consumer="a")[0] == 200
    assert api.delete(CONSUMERS, queue="s", consumer="a")[0] == 404
    assert [each["consumer"] for each in api.get(CONSUMERS)[1]["consumers"]] == ["b"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"consumer": "a", "queue": "q", "offset": 1}, 400),
        ({"consumer": "a", "queue": "nowhere", "offset": 1}, 404),
        ({"consumer": "", "queue": "s", "offset": 1}, 400),
        ({"consumer": "a", "queue": "s", "offset": -1}, 400),
        ({"consumer": "a", "queue": "s", "offset": "x"}, 400),
        ({"consumer": "a", "queue": "s", "offset": True}, 400),
        ({"consumer": "a", "queue": "s"}, 400),
        ({"consumer": 3, "queue": "s", "offset": 1}, 400),
        ({"consumer": "a", "queue": "s", "offset": 1, "pinned": 1}, 400),
    ],
)
def test_offsets_that_make_no_sense(api: HttpApi, vhost: EmbeddedVhost, given: dict[str, object], status: int) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    assert api.put(CONSUMERS, given)[0] == status
    assert api.get(CONSUMERS)[1] == {"consumers": []}


def test_offsets_of_readers_outlive_the_broker_and_need_permission(tmp_path: Path) -> None:
    settings = replace(SMALL, data_dir=tmp_path / "data")
    with leveret.Broker(settings) as broker:
        broker.vhost().declare_queue("s", durable=True, arguments=STREAM)
        HttpApi(broker.http_url).put(CONSUMERS, {"consumer": "a", "queue": "s", "offset": 7})
    with leveret.Broker(settings) as broker:
        api = HttpApi(broker.http_url)
        assert api.get(CONSUMERS)[1]["consumers"][0]["offset"] == 7
        core = broker.node.broker
        broker.call(lambda: core.users.add("ann", password="secret"))
        broker.call(lambda: core.permissions.set("ann", "/", ".*", ".*", "^other$"))
        ann = HttpApi(broker.http_url, "ann", "secret")
        assert ann.get(CONSUMERS) == (200, {"consumers": []})
        assert ann.put(CONSUMERS, {"consumer": "a", "queue": "s", "offset": 0})[0] == 403
        assert ann.delete(CONSUMERS, queue="s", consumer="a")[0] == 403


# ---- reports of queries


def test_reports_of_queries(api: HttpApi) -> None:
    report = {"id": "q1", "name": "traffic", "batch": 3, "rows": 100, "lag": 5, "sources": [{"queue": "s"}]}
    assert api.post("/api/pipeline/queries", report) == (200, {"id": "q1"})
    assert api.get("/api/pipeline/queries") == (200, {"queries": [report | {"user": "guest"}]})
