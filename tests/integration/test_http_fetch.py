"""Messages of streams and classic queues over HTTP: what there is, which of it, and what happens meanwhile."""

from __future__ import annotations

import builtins
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import leveret
from leveret.embedded_vhost import EmbeddedVhost
from leveret.queues.stream import StreamQueue
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET, HttpApi, arrow_stream, bodies, vhost_path
from tests.support.raw_client import eventually

STREAM = {"x-queue-type": "stream"}
SOURCES, OFFSETS, MESSAGES = vhost_path("sources"), vhost_path("offsets"), vhost_path("messages")
SCHEMA = pa.schema(
    [
        ("body", pa.binary()),
        ("routing_key", pa.string()),
        ("exchange", pa.string()),
        ("queue", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("redelivered", pa.bool_()),
        ("headers", pa.map_(pa.string(), pa.string())),
        (
            "properties",
            pa.struct(
                [
                    ("content_type", pa.string()),
                    ("content_encoding", pa.string()),
                    ("delivery_mode", pa.int32()),
                    ("priority", pa.int32()),
                    ("correlation_id", pa.string()),
                    ("reply_to", pa.string()),
                    ("expiration", pa.string()),
                    ("message_id", pa.string()),
                    ("timestamp", pa.timestamp("us", "UTC")),
                    ("type", pa.string()),
                    ("user_id", pa.string()),
                    ("app_id", pa.string()),
                ]
            ),
        ),
    ]
)


pytestmark = pytest.mark.broker(storage=("memory", "disk"), fresh=True)


def fill(vhost: EmbeddedVhost, queue: str, number: int, first: int = 0) -> None:
    for place in range(first, first + number):
        vhost.publish("", queue, b"m%d" % place)


# ---- messages


@pytest.mark.parametrize("arguments", [STREAM, {}], ids=["stream", "classic"])
def test_a_message_in_all_its_columns(api: HttpApi, vhost: EmbeddedVhost, arguments: dict[str, object]) -> None:
    vhost.declare_queue("q", durable=True, arguments=arguments)
    vhost.declare_exchange("x", "topic")
    vhost.bind("q", "x", "#")
    sent = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    headers = {"text": "käse", "n": 7, "deep": {"list": [1, "two", sent], "no": None}, "yes": True, "none": None}
    vhost.publish(
        "x",
        "a.b",
        b"\x00\xff",
        Properties(
            content_type="text/plain",
            headers=headers,
            delivery_mode=2,
            priority=3,
            correlation_id="c",
            expiration="60000000",
            message_id="m",
            timestamp=sent,
            app_id="app",
        ),
    )
    vhost.publish("x", "plain", b"")
    table = api.table(MESSAGES, queue="q", partition=7)
    assert table.schema == SCHEMA
    rich, plain = table.to_pylist()
    assert rich["headers"] == [
        ("text", "käse"),
        ("n", "7"),
        ("deep", '{"list": [1, "two", "2024-05-06T07:08:09+00:00"], "no": null}'),
        ("yes", "true"),
        ("none", None),
    ]
    assert {name: value for name, value in rich["properties"].items() if value is not None} == {
        "content_type": "text/plain",
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "expiration": "60000000",
        "message_id": "m",
        "timestamp": sent,
        "app_id": "app",
    }
    del rich["headers"], rich["properties"], rich["timestamp"], rich["offset"]
    assert rich == {
        "body": b"\x00\xff",
        "routing_key": "a.b",
        "exchange": "x",
        "queue": "q",
        "partition": 7,
        "redelivered": False,
    }
    assert (plain["body"], plain["routing_key"], plain["headers"]) == (b"", "plain", [])
    assert set(plain["properties"].values()) == {None}


@pytest.mark.parametrize("arguments", [STREAM, {}], ids=["stream", "classic"])
def test_a_range_some_columns_and_a_filter(api: HttpApi, vhost: EmbeddedVhost, arguments: dict[str, object]) -> None:
    vhost.declare_queue("q", durable=True, arguments=arguments)
    vhost.declare_exchange("x", "fanout")
    vhost.bind("q", "x")
    for place in range(30):
        vhost.publish("x", ("a.b", "a.c.d", "z")[place % 3], b"%d" % place)
    base = 0 if arguments else 1  # offsets begin at 0, the sequences of a classic queue at 1
    table = api.table(MESSAGES, queue="q", from_=base + 5, to=base + 8, columns="offset,body")
    assert table.schema.names == ["body", "offset"]
    assert [row["body"] for row in table.to_pylist()] == [b"5", b"6", b"7"]
    chosen = api.rows(MESSAGES, queue="q", routing_key="a.*", columns="body")
    assert bodies(chosen) == [b"%d" % place for place in range(0, 30, 3)]
    both = api.rows(MESSAGES, queue="q", routing_key="a.#", from_=base + 3, to=base + 6)
    assert [row["routing_key"] for row in both] == ["a.b", "a.c.d"]
    assert api.table(MESSAGES, queue="q", routing_key="nothing").num_rows == 0
    assert api.table(MESSAGES, queue="q", from_=base + 30).num_rows == 0
    assert api.table(MESSAGES, queue="q", from_=9, to=4).num_rows == 0
    status, answer = api.get(MESSAGES, queue="q", columns="body,wrong")
    assert (status, "unknown column 'wrong'" in answer["reason"]) == (400, True)


def test_bodies_of_many_frames_and_none(api: HttpApi, vhost: EmbeddedVhost) -> None:
    sizes = (0, 1, 131_064, 131_065, 400_000, 5)
    for queue, arguments in (("s", STREAM), ("c", {})):
        vhost.declare_queue(queue, durable=True, arguments=arguments)
        for size in sizes:
            vhost.publish("", queue, bytes(size))
        assert [len(body) for body in bodies(api.rows(MESSAGES, queue=queue, columns="body"))] == list(sizes)


def test_a_browse_consumes_nothing_and_shows_what_came_back(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("c", durable=True)
    fill(vhost, "c", 4)
    taken = vhost.get("c")
    assert taken is not None
    assert bodies(api.rows(MESSAGES, queue="c")) == [b"m1", b"m2", b"m3"]
    vhost.nack(taken.delivery_tag)
    rows = api.rows(MESSAGES, queue="c")
    assert [(row["body"], row["redelivered"], row["offset"]) for row in rows] == [
        (b"m0", True, 1),
        (b"m1", False, 2),
        (b"m2", False, 3),
        (b"m3", False, 4),
    ]
    assert vhost.message_count("c") == 4


def test_a_priority_queue_is_read_in_the_order_of_delivery(api: HttpApi, vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("p", arguments={"x-max-priority": 3})
    for place, priority in enumerate((0, 3, 1, 3)):
        vhost.publish("", "p", b"%d" % place, Properties(priority=priority))
    assert bodies(api.rows(MESSAGES, queue="p")) == [b"1", b"3", b"2", b"0"]


def test_a_backlog_that_is_mostly_on_disk(tmp_path: Path) -> None:
    """More than the queue may hold in memory, and more than one batch."""
    settings = replace(QUIET, data_dir=tmp_path / "data", durability="os", queue_memory=64 << 10)
    with leveret.Broker(settings) as broker:
        api, vhost = HttpApi(broker.http_url), broker.vhost()
        vhost.declare_queue("c", durable=True)
        batch = pa.record_batch({"body": pa.array([b"%d" % place for place in range(25_000)])})
        assert api.post(MESSAGES, arrow_stream(batch), exchange="", routing_key="c")[1]["messages"] == 25_000
        table = api.table(MESSAGES, queue="c", columns="body,offset")
        assert table.column("body").to_pylist() == [b"%d" % place for place in range(25_000)]
        assert table.column("offset").to_pylist() == list(range(1, 25_001))
        assert max(len(chunk) for chunk in table.column("body").chunks) <= 10_000


def test_a_stream_is_read_while_it_is_written(broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost) -> None:
    """A range is what it is, whatever comes behind it; and every answer is a stretch without gaps."""
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    number, is_over = 300, threading.Event()

    def publish() -> None:
        try:
            fill(broker.vhost(), "s", number)
        finally:
            is_over.set()

    writer = threading.Thread(target=publish)
    writer.start()
    seen = 0
    while not is_over.is_set() or seen < number:
        rows = api.rows(MESSAGES, queue="s", from_=seen, columns="body,offset")
        assert [row["offset"] for row in rows] == list(range(seen, seen + len(rows)))
        assert bodies(rows) == [b"m%d" % place for place in range(seen, seen + len(rows))]
        seen += len(rows)
    writer.join()
    assert seen == number


def test_what_retention_took_is_gone_or_skipped(broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost) -> None:
    arguments = STREAM | {"x-max-length-bytes": 4_000_000, "x-stream-max-segment-size-bytes": 1_000_000}
    vhost.declare_queue("s", durable=True, arguments=arguments)
    batch = pa.record_batch({"body": pa.array([bytes(1000)] * 1000)})
    for _ in range(8):
        assert api.post(MESSAGES, arrow_stream(batch), exchange="", routing_key="s")[0] == 200
    stream = broker.node.broker.vhosts["/"].queues["s"]
    assert isinstance(stream, StreamQueue)
    eventually(lambda: broker.call(lambda: stream.first_offset) > 0)
    first = api.get(OFFSETS, queue="s")[1]["offsets"][0]["first"]
    status, answer = api.get(MESSAGES, queue="s", from_=0, to=first + 3)
    assert (status, answer["error"], answer["first"]) == (410, "gone", first)
    assert "missing=skip" in answer["reason"]
    rows = api.rows(MESSAGES, queue="s", from_=0, to=first + 3, missing="skip", columns="offset")
    assert [row["offset"] for row in rows] == [first, first + 1, first + 2]
    assert api.table(MESSAGES, queue="s", columns="offset").num_rows == 8000 - first
    assert api.get(MESSAGES, queue="s", missing="perhaps")[0] == 400


def test_without_arrow_the_remedy_is_told(api: HttpApi, vhost: EmbeddedVhost, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def hidden(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("pyarrow", "numpy"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    vhost.declare_queue("q")
    monkeypatch.setattr(builtins, "__import__", hidden)
    try:
        status, answer = api.get(MESSAGES, queue="q")
        posted = api.post(MESSAGES, b"x", exchange="", routing_key="q")
        listed = api.get(SOURCES, queue="q")
    finally:
        monkeypatch.undo()
    assert (status, answer["error"]) == (501, "not_available")
    assert "pip install 'leveret[arrow]'" in answer["reason"]
    assert posted[0] == 501
    assert listed[0] == 200
