"""dedup and traffic lose nothing, in whatever order partitions, priorities, batches and restarts bring the messages."""

from __future__ import annotations

import os
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest
from pyspark.sql import DataFrame, SparkSession

from leveret.errors import ConfigError
from leveret.spark.jobs import dedup, traffic
from leveret.spark.jobs.accounting import Counts, counted
from leveret.spark.jobs.checkpoint import LastBatch, last_batch
from leveret.spark.jobs.messages import started
from leveret.spark.jobs.running_job import JobFailed, Queries, Report
from leveret.spark.jobs.traffic_batches import TrafficBatches
from leveret.spark.schema import SCHEMA
from tests.support.arrivals import SEED, assert_same_results, ended
from tests.support.message_frames import frame, message
from tests.support.spark_broker import SparkBroker


def test_any_order_gives_the_same_results(spark: SparkSession, tmp_path: Path) -> None:
    """Three or four batches in several runs, in another order each time; more orders are in tests/spark_long."""
    seed = int(os.environ.get(SEED) or random.randrange(10**9))
    assert_same_results(spark, seed, tmp_path, is_short=True)


def test_a_clock_that_is_behind_after_a_restart_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """As if the first run had been on a machine whose clock is an hour ahead."""
    options = dedup.DedupOptions(queue="q", exchange="e", checkpoint=str(tmp_path / "dedup"), within="1 minute")

    def passed(before: LastBatch | None) -> Counts:
        messages = spark.readStream.schema(SCHEMA).parquet(f"{tmp_path}/in/*")
        rows = counted(dedup.once_each(messages, options, before))
        return ended(Queries(started(rows, options, "dedup", "noop", {}))).accounts[0].counts

    def add(number: int) -> None:
        sent = [message(offset=at, properties={"message_id": str(at)}) for at in (0, number)]
        frame(spark, *sent).write.parquet(f"{tmp_path}/in/{number}")

    ahead = datetime.now(UTC) + timedelta(hours=1)
    add(1)
    assert passed(LastBatch(ahead, ahead)) == Counts(read=2, out=2)
    for number in (2, 3):
        add(number)
        assert passed(last_batch(spark, str(options.checkpoint))) == Counts(read=2, out=1, duplicates=1)
    add(4)
    with pytest.raises(
        JobFailed, match=r"dedup in batch \d+ do not add up: 2 in = 0 out .* Spark dropped 2 rows that were older"
    ):
        passed(None)


def test_late_messages_go_where_they_should(spark: SparkSession, tmp_path: Path) -> None:
    """Two batches, the second of which is once repeated as after a crash: minutes 1 and 5, then 1 (late) and 9."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for late in ("count", "drop", "side"):
        options = traffic.TrafficOptions(
            queue="q",
            path=str(tmp_path / late),
            checkpoint=str(tmp_path / f"{late}-checkpoint"),
            late=late,
            late_path=str(tmp_path / "late") if late == "side" else None,
        )
        counts: dict[int, Counts] = {}
        for number, minutes in ((0, (1, 5)), (1, (1, 9)), *([(1, (1, 9))] if late == "count" else [])):
            messages = frame(spark, *(message(b"x", after=60 * minute) for minute in minutes))
            batches = TrafficBatches(options, options.groups(), counts)
            batches.write(traffic.measured(messages, options), number)
        assert counts == {0: Counts(out=2), 1: Counts(out=1, late=1)}
        found[late] = minutes_in(traffic.read_traffic(spark, options.path))
        if late == "side":
            found["late"] = minutes_in(traffic.read_traffic(spark, str(options.late_path)))
    assert found == {
        "count": [(1, 2, 1), (5, 1, 1)],
        "drop": [(1, 1, 0), (5, 1, 1)],
        "side": [(1, 1, 0), (5, 1, 1)],
        "late": [(1, 1, 1)],
    }
    with pytest.raises(
        ConfigError, match="has windows by exchange, routing_key, queue, not by queue: use the same --by"
    ):
        TrafficBatches(options, ["queue"], counts).write(traffic.measured(messages, options), 2)
    (tmp_path / "old" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"has results of an earlier version .* use another --path"):
        traffic.refuse_old_results(spark, str(tmp_path / "old"), str(tmp_path / "none"))


def minutes_in(results: DataFrame) -> list[tuple[int, int, int]]:
    """Minute, messages and revision of each window."""
    rows = results.selectExpr("minute(window_start)", "messages", "revision").collect()
    return sorted((row[0], row[1], row[2]) for row in rows)


class Backlog:
    """Messages of two partitions, of two priorities, and of plain classic queues, which arrived seconds apart and are
    read in small batches."""

    def __init__(self, broker: SparkBroker) -> None:
        self.broker = broker
        self.super_stream = broker.name("apart")
        arguments = {"x-super-stream": True}
        broker.channel.exchange_declare(self.super_stream, "direct", durable=True, arguments=arguments)
        for shard in ("0", "1"):
            broker.channel.queue_bind(broker.stream(f"{self.super_stream}-{shard}"), self.super_stream, shard)
        self.by_priority = [broker.queue(stem, x_max_priority=5) for stem in ("once", "counted")]
        self.plain = [broker.queue(stem) for stem in ("once", "counted")]
        self.ids: list[str] = []

    def publish(self, partition: int, number: int) -> None:
        """The second partition, and the higher priority, arrives later."""
        for _ in range(number):
            self.ids.append(str(len(self.ids)))
            properties = pika.BasicProperties(delivery_mode=2, message_id=self.ids[-1], priority=partition)
            self.broker.channel.basic_publish(self.super_stream, str(partition), b"12345", properties)
            for queue in (*self.by_priority, *self.plain):
                self.broker.channel.basic_publish("", queue, b"12345", properties)
        until = time.monotonic() + 1.2  # what comes next arrives in another window
        while time.monotonic() < until:
            time.sleep(0.1)


def ids_in(broker: SparkBroker, queue: str) -> list[str]:
    found: list[str] = []
    while True:
        frame_, properties, _ = broker.channel.basic_get(queue, auto_ack=True)
        if frame_ is None:
            return found
        found.append(properties.message_id)


def test_a_backlog_that_is_read_out_of_order_loses_nothing(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    backlog = Backlog(broker)
    passed = [broker.queue("passed") for _ in range(3)]
    for queue in passed:
        broker.channel.exchange_declare(queue, "fanout", durable=True)
        broker.channel.queue_bind(queue, queue)
    usual: dict[str, Any] = {"endpoint": broker.endpoint, "max_per_batch": 12}
    sources: list[list[dict[str, Any]]] = [
        [{"super_stream": backlog.super_stream}] * 2,
        [{"queue": queue} for queue in backlog.by_priority],
        [{"queue": queue} for queue in backlog.plain],
    ]
    once = [
        dedup.DedupOptions(**usual, **source[0], exchange=queue, checkpoint=str(tmp_path / queue), within="1 second")
        for source, queue in zip(sources, passed, strict=True)
    ]
    windows = [
        traffic.TrafficOptions(
            **usual, **source[1], path=str(tmp_path / f"traffic-{at}"), window="1 second", late="0 seconds"
        )
        for at, source in enumerate(sources)
    ]
    reports: list[Report] = []
    for sizes in ((12, 12), (3, 1)):  # the last message closes all windows but its own
        for partition, number in enumerate(sizes):
            backlog.publish(partition, number)
        for by_id, by_time in zip(once, windows, strict=True):  # two queries of one name cannot run at the same time
            running = [dedup.start(spark, by_id), traffic.start(spark, by_time)]
            reports += map(ended, running)
    found = [sorted(ids_in(broker, queue)) for queue in passed]
    assert found == [sorted(backlog.ids)] * 3
    written = [
        traffic.read_traffic(spark, options.path).agg({"messages": "sum"}).collect()[0][0] for options in windows
    ]
    assert written == [len(backlog.ids) - 1] * 3
    assert [report.accounts[0].counts.late > 0 for report in reports[1:6:2]] == [True, True, False]
    assert sum(report.accounts[0].counts.read for report in reports) == 6 * len(backlog.ids)
    left = [queue for queue in (*backlog.by_priority, *backlog.plain) if ids_in(broker, queue)]
    assert not left, "messages that were read are still there"
