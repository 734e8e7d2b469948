"""The pipelines mask, sessions and join, from a real broker through Spark and back."""

from __future__ import annotations

import hmac
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from leveret.spark.jobs import join, mask, sessions
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.running_job import JobFailed
from tests.spark.test_jobs_running import ended, fanout, send, taken
from tests.support.spark_broker import SparkBroker, eventually

KEY = "a key of sixteen bytes or more"
MINUTE = 60_000


def test_mask_forwards_nothing_unmasked(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(mask.KEY_VARIABLE, KEY)
    queue = broker.queue("personal")
    known, unknown = '{"who": {"mail": "a@b", "card": 1}, "n": 1.10}', '{"n": 123456789012345678901234567890.0}'
    for body in (known, unknown, '{"who": "a@b"}', '{"n": 1} more'):
        send(broker, queue, body, headers={"ip": "::1", "own": "1"}, user_id="guest")
    (clean, masked), (bad, refused) = fanout(broker, "clean"), fanout(broker, "bad")
    options: dict[str, Any] = {
        "endpoint": broker.endpoint,
        "queue": queue,
        "exchange": clean,
        "checkpoint": str(tmp_path / "mask"),
        "hash": ("who.mail",),
        "remove": ("who.card",),
        "header_remove": ("ip",),
    }
    with pytest.raises(JobFailed, match=rf"of '{queue}': who is not an object: it is of type string; with --dead-le"):
        ended(mask.start(spark, mask.MaskOptions(**options)))
    assert taken(broker, masked) == []

    report = ended(mask.start(spark, mask.MaskOptions(**options, dead_letter_exchange=bad)))
    assert report.accounts[0].counts == Counts(read=4, out=2, refused=2)
    digest = hmac.new(KEY.encode(), b"a@b", "sha256").hexdigest()
    assert [(body, headers) for _, body, headers in taken(broker, masked)] == [
        (f'{{"who": {{"mail": "{digest}"}}, "n": 1.10}}', {"own": "1"}),
        (unknown, {"own": "1"}),
    ]
    assert [(body, headers["x-mask-error"]) for _, body, headers in taken(broker, refused)] == [
        ('{"who": "a@b"}', "who is not an object: it is of type string"),
        ('{"n": 1} more', "the body is not JSON: text after the value, at character 9"),
    ]


def super_stream(broker: SparkBroker, stem: str) -> tuple[str, list[str]]:
    exchange = broker.name(stem)
    shards = [f"{exchange}-{number}" for number in range(2)]
    broker.channel.exchange_declare(exchange, "x-modulus-hash", durable=True)
    for number, shard in enumerate(shards):
        broker.channel.queue_declare(shard, durable=True, arguments={"x-queue-type": "stream"})
        broker.channel.queue_bind(shard, exchange, str(number))
    return exchange, shards


def click(who: str, at: int) -> str:
    return json.dumps({"who": who, "at": at, "n": 0.1})


def test_sessions_do_not_depend_on_shards_batches_and_runs(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    """Two shards with a backlog, of which one is read an hour ahead of the other, in two runs and several batches."""
    clicks, shards = super_stream(broker, "clicks")
    (exchange, queue), (bad, refused) = fanout(broker, "sessions"), fanout(broker, "bad")
    begin = round(time.time() * 1000) - 24 * MINUTE - MINUTE // 2
    times = {"a": [0, 9, 18, 60, 61], "b": [5, 14, 50]}
    late_half = [(who, begin + at * MINUTE) for who, all_ in times.items() for at in all_ if at >= 14]
    early_half = [(who, begin + at * MINUTE) for who, all_ in times.items() for at in all_ if at < 14]
    broker.publish(shards[0], [click(*one) for one in late_half])
    broker.publish(shards[1], ['{"who": "a"}', "no json", *(click(*one) for one in reversed(early_half[1:]))])
    options: dict[str, Any] = {
        "endpoint": broker.endpoint,
        "super_stream": clicks,
        "exchange": exchange,
        "checkpoint": str(tmp_path / "sessions"),
        "by": "who",
        "time": "timestamp_millis(at)",
        "schema": "who STRING, at BIGINT, n DOUBLE",
        "gap": "10 minutes",
        "sum": ("n",),
        "dead_letter_exchange": bad,
        "max_per_batch": 4,
    }
    first = ended(sessions.start(spark, sessions.SessionsOptions(**options))).accounts[0].counts
    # What ended more than the gap ago is closed, and only then: b had 5 and 14. The rest waits for the next run.
    assert first == Counts(read=9, out=2, refused=2, held=5)
    broker.publish(shards[1], [click(*early_half[0]), click("b", begin + 6 * MINUTE)])
    second = ended(sessions.start(spark, sessions.SessionsOptions(**options, close_open=True))).accounts[0].counts
    assert second == Counts(read=2, out=6, late=1, held=-5)

    found = [json.loads(body) for _, body, _ in taken(broker, queue)]
    assert sorted((one["key"], *ends(one, begin), one["messages"], one["late"], one["sums"]["n"]) for one in found) == [
        ("a", 0, 18, 3, 0, 0.3),
        ("a", 60, 61, 2, 0, 0.2),
        ("b", 5, 14, 2, 0, 0.2),
        ("b", 6, 6, 1, 1, 0.1),
        ("b", 50, 50, 1, 0, 0.1),
    ]
    # As if the driver had been killed when the broker had the last batch, and Spark had not noted that yet.
    forget_last_commit(tmp_path / "sessions")
    late, side = fanout(broker, "late")
    broker.publish(shards[0], [click("b", begin + 7 * MINUTE)])
    third = ended(sessions.start(spark, sessions.SessionsOptions(**options, late="side", late_exchange=late)))
    assert third.accounts[0].counts == Counts(read=1, out=6, late=1, held=-6)  # with the batch that is repeated
    assert taken(broker, queue) == []
    assert taken(broker, side) == [(shards[0], click("b", begin + 7 * MINUTE), {"x-late": "its session is closed"})]
    assert {body: headers["x-sessions-error"] for _, body, headers in taken(broker, refused)} == {
        '{"who": "a"}': "the time (timestamp_millis(at)) is null or no timestamp",
        "no json": "the key (who) is null",
    }


def forget_last_commit(checkpoint: Path) -> None:
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()


def ends(session: dict[str, Any], begin: int) -> list[int]:
    """Start and end, in minutes."""
    moments = [datetime.fromisoformat(session[name]).timestamp() * 1000 for name in ("start", "end")]
    return [round((moment - begin) / MINUTE) for moment in moments]


def test_join_finds_every_pair_in_any_order(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    now = round(time.time() * 1000)
    orders, payments = broker.stream("orders"), broker.queue("payments")
    (exchange, queue), (bad, refused) = fanout(broker, "joined"), fanout(broker, "bad")
    alone, unmatched = fanout(broker, "alone")
    options: dict[str, Any] = {
        "endpoint": broker.endpoint,
        "left_queue": orders,
        "right_queue": payments,
        "exchange": exchange,
        "checkpoint": str(tmp_path / "join"),
        "on": "id = order",
        "time": "timestamp_millis(at)",
        "left_schema": "id BIGINT, at BIGINT",
        "right_schema": "order BIGINT, at BIGINT",
        "how": "left",
        "dead_letter_exchange": bad,
        "unmatched_exchange": alone,
    }

    def order(id_: int, at: int) -> str:
        return json.dumps({"id": id_, "at": now + at, "sum": 1.0})

    def payment(id_: int, at: int) -> str:
        return json.dumps({"order": id_, "at": now + at})

    broker.publish(orders, [order(1, 0), order(2, -30 * MINUTE), order(3, 0), order(4, 0)])
    broker.publish(payments, [payment(2, -10), payment(1, 10), payment(9, -30 * MINUTE), '{"order": 1} {}'])
    start = join.start(spark, join.JoinOptions(**options, within="10 minutes", max_per_batch=2))
    assert ended(start).accounts[0].counts == Counts(read=8, out=3, filtered=1, refused=1, held=3)
    assert start.progress().lag == 0
    # The partners of 3, and another one for 1, come in the second run; 2 and 4 are alone when timers have run.
    broker.publish(payments, [payment(3, 1), payment(1, -10)])
    running = join.start(spark, join.JoinOptions(**options, within="1 second", continuous=True, interval="0 seconds"))
    pairs: list[tuple[str, str, Any]] = []
    eventually(lambda: running.wait(0.1) or pairs.extend(taken(broker, queue)) or len(pairs) == 5, 90)
    eventually(lambda: running.report().accounts[0].counts.held == -3, 90)
    running.stop()
    assert running.report().accounts[0].counts == Counts(read=2, out=4, filtered=1, held=-3)
    found = [json.loads(body) for key, body, _ in pairs if key == orders]
    assert sorted((one["key"], one["right"] and one["right"]["at"] - now) for one in found if one["right"]) == [
        ("1", -10),
        ("1", 10),
        ("3", 1),
    ]
    assert sorted(one["key"] for one in found if one["right"] is None) == ["2", "4"]
    assert all('"sum": 1.0}' in body for _, body, _ in pairs)
    assert [(body, headers) for _, body, headers in taken(broker, unmatched)] == [
        (payment(9, -30 * MINUTE), {"x-unmatched": "right"}),
        (payment(2, -10), {"x-unmatched": "right"}),
    ]
    [(_, body, headers)] = taken(broker, refused)
    assert (body, headers) == (
        '{"order": 1} {}',
        {"x-join-error": "the time (timestamp_millis(at)) is null or no timestamp"},
    )
