"""Messages that are routed to no queue are no results, and are not acknowledged: the pipeline fails and they stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from leveret.errors import ConfigError
from leveret.spark.jobs import dead_letters, lake, route, traffic
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.running_job import JobFailed
from tests.spark.test_jobs_running import ended, fanout, rejected, taken
from tests.support.spark_broker import SparkBroker


def unbound(broker: SparkBroker, stem: str) -> str:
    exchange = broker.name(stem)
    broker.channel.exchange_declare(exchange, "topic", durable=True)
    return exchange


def test_messages_that_no_queue_gets_stay_in_their_queue(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    queue, exchange = broker.queue("work", ["a", "b", "c"]), unbound(broker, "nobody")
    _, results = fanout(broker, "results")
    given: dict[str, Any] = {
        "endpoint": broker.endpoint,
        "queue": queue,
        "exchange": exchange,
        "checkpoint": str(tmp_path / "route"),
        "rule": ("body = X'61' => known",),
        "otherwise": "unknown",
        "transaction_id": broker.name("writer"),
    }
    broker.channel.queue_bind(results, exchange, "known")
    with pytest.raises(JobFailed, match=rf"2 mandatory messages .* not routed: .*'unknown' .* exchange '{exchange}'"):
        ended(route.start(spark, route.RouteOptions(**given)))
    assert taken(broker, results) == []
    broker.channel.queue_bind(results, exchange, "unknown")
    report = ended(route.start(spark, route.RouteOptions(**given)))
    assert report.accounts[0].counts == Counts(read=3, out=3)
    assert sorted(body for _, body, _ in taken(broker, results)) == ["a", "b", "c"]

    broker.channel.queue_unbind(results, exchange, "unknown")
    broker.publish(queue, ["a", "b"])
    ended(route.start(spark, route.RouteOptions(**given, unroutable="report")))
    assert [body for _, body, _ in taken(broker, results)] == ["a"]

    # A new checkpoint numbers its batches from 0: the broker would drop them, and their messages would be acknowledged.
    broker.publish(queue, ["a"])
    used = f"--transaction-id {given['transaction_id']} has batches up to 1, and the checkpoint .*new is new"
    with pytest.raises(ConfigError, match=used):
        route.start(spark, route.RouteOptions(**given | {"checkpoint": str(tmp_path / "new")})).wait(120)
    windows = {name: given[name] for name in ("endpoint", "queue", "exchange", "transaction_id", "checkpoint")}
    windows |= {"path": str(tmp_path / "windows"), "checkpoint": str(tmp_path / "windows" / "new")}
    with pytest.raises(ConfigError, match=used):
        traffic.start(spark, traffic.TrafficOptions(**windows))
    assert broker.bodies(queue) == [b"a"]


def test_dead_letters_stay_if_their_target_is_gone(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    work, dead = rejected(broker, "work", ["a", "b"])
    broker.channel.queue_delete(work)
    given: dict[str, Any] = {"endpoint": broker.endpoint, "queue": dead, "checkpoint": str(tmp_path / "redrive")}
    with pytest.raises(JobFailed, match=rf"mandatory messages .* not routed: .*'{work}'"):
        ended(dead_letters.start(spark, dead_letters.DeadLettersOptions(**given, redrive="true")))
    broker.channel.queue_declare(work, durable=True)
    report = ended(dead_letters.start(spark, dead_letters.DeadLettersOptions(**given, redrive="true")))
    assert report.accounts[0].counts == Counts(read=2, out=2)
    assert sorted(body for _, body, _ in taken(broker, work)) == ["a", "b"]
    with pytest.raises(ConfigError, match="--unroutable report would drop dead letters"):
        dead_letters.DeadLettersOptions(**given, redrive="true", unroutable="report")


def test_a_refused_message_needs_a_queue_too(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    """Nothing of its batch is written to the table."""
    stream, bad = broker.stream("mixed", ['{"n": 1}', "no json"]), unbound(broker, "bad")
    options = lake.LakeOptions(
        endpoint=broker.endpoint,
        queue=stream,
        table=str(tmp_path / "table"),
        schema="n INT",
        dead_letter_exchange=bad,
        checkpoint=str(tmp_path / "lake"),
    )
    with pytest.raises(JobFailed, match=r"1 mandatory messages .* not routed"):
        ended(lake.start(spark, options))
    assert DeltaTable(options.table).to_pyarrow_table().num_rows == 0
    refused = broker.queue("refused")
    broker.channel.queue_bind(refused, bad, "#")
    assert ended(lake.start(spark, options)).accounts[0].counts == Counts(read=2, out=1, refused=1)
    [(_, body, headers)] = taken(broker, refused)
    assert body == "no json"
    assert headers["x-schema-error"] == "the body is no JSON"

    # An old copy of the checkpoint, after batches of which nothing was written to the table.
    query = json.loads((tmp_path / "lake" / "metadata").read_text())["id"]
    broker.ask("POST", "%2F/commits", {"transaction": f"{query}-refused", "batch": 7, "stages": []})
    broker.publish(stream, ["bad"])
    with pytest.raises(JobFailed, match="batch 1 was not written: the broker has batches of this query up to 7"):
        ended(lake.start(spark, options))
