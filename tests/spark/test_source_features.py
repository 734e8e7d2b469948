"""What only a real Spark shows of the source: tables, filters, restarts, and a name that is in use."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import leveret.spark
from tests.support.spark_broker import SparkBroker, eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def test_tables_and_views_read_queues(spark: SparkSession, broker: SparkBroker) -> None:
    stream, other = broker.stream("table", "abc"), broker.stream("other", "d")
    options = f"OPTIONS (endpoint '{broker.endpoint}', queue '{stream}')"
    spark.sql(f"CREATE TABLE orders_table USING leveret {options}")
    spark.sql(f"CREATE TEMPORARY VIEW orders_view USING leveret {options}")
    count = "SELECT count(*) FROM {}"
    try:
        assert [spark.sql(count.format(name)).first()[0] for name in ("orders_table", "orders_view")] == [3, 3]
        changed = f"orders_table WITH (queue = '{other}')"
        assert spark.sql(count.format(changed)).first()[0] == 1
        broker.publish(stream, "x")
        assert spark.table("orders_table").selectExpr("max(offset)").first()[0] == 3
        spark.sql(f"CREATE TABLE narrow USING leveret {options[:-1]}, columns 'offset,body')")
        assert [(row.offset, bytes(row.body)) for row in spark.table("narrow").where("offset < 2").collect()] == [
            (0, b"a"),
            (1, b"b"),
        ]
        read = spark.readStream.format("leveret").option("columns", "offset").option("startingOffsets", "earliest")
        rows = read.options(endpoint=broker.endpoint, queue=stream).load()
        counted = rows.writeStream.format("memory").queryName("narrow_rows").trigger(availableNow=True).start()
        assert counted.awaitTermination(90)
        assert spark.table("narrow_rows").columns == ["offset"]
        assert spark.table("narrow_rows").count() == 4
    finally:
        spark.sql("DROP TABLE IF EXISTS narrow")
        spark.sql("DROP TABLE orders_table")
        spark.sql("DROP VIEW orders_view")
    with pytest.raises(Exception, match=r"option queues is unknown; did you mean queue"):
        spark.sql(f"CREATE TABLE orders_table USING leveret OPTIONS (queues '{stream}')")


def test_filters_are_pushed_down_if_it_is_switched_on(spark: SparkSession, broker: SparkBroker) -> None:
    stem = broker.name("pushed")
    first, second = broker.stream(f"{stem}-a", "abcde"), broker.stream(f"{stem}-b", "fg")
    options = {"endpoint": broker.endpoint, "subscribePattern": f"{stem}-.*", "pushFilters": "true"}
    read = spark.read.format("leveret").options(**options)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        read.load().count()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read.load()
        for where, expected, tasks in (
            ("offset >= 1 AND offset < 3", b"bcg", 2),
            (f"queue = '{first}' AND offset > 3", b"e", 1),
            (f"queue IN ('{second}', 'x')", b"fg", 1),
            (f"routing_key = '{second}'", b"fg", 2),
            ("timestamp > now() - INTERVAL 1 HOUR", b"abcdefg", 2),
            ("timestamp > now() + INTERVAL 1 HOUR", b"", 1),  # Spark plans one empty task
            ("offset = 1 AND redelivered", b"", 2),
        ):
            kept = frame.where(where)
            assert b"".join(sorted(bytes(row.body) for row in kept.collect())) == expected, where
            assert kept.rdd.getNumPartitions() == tasks, where
        offsets = {"startingOffsets": {first: 3, second: 1}, "endingTimestamp": {first: "2090-01-01", second: 0}}
        placed = read.options(**{name: json.dumps(value) for name, value in offsets.items()})
        assert b"".join(bytes(row.body) for row in placed.load().where(f"queue = '{first}'").collect()) == b"de"
        with pytest.raises(Exception, match=r"startingOffsets names 'stranger', which the query does not read"):
            read.option("startingOffsets", '{"stranger": 0}').load().where(f"queue = '{first}'").collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def into_text(frame: DataFrame, folder: Path, *, now: bool = True) -> StreamingQuery:
    writer = frame.selectExpr("cast(body AS string)").writeStream.format("text").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")).start()


def texts(spark: SparkSession, folder: Path) -> list[str]:
    return sorted(row.value for row in spark.read.text(str(folder / "rows")).collect())


@pytest.mark.parametrize("starting", ["earliest", "json"])
def test_a_super_stream_that_grew_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, starting: str
) -> None:
    exchange = broker.name("grown")
    broker.channel.exchange_declare(exchange, "direct", durable=True)

    def shard(number: int, bodies: str) -> str:
        name = broker.stream(f"{exchange}-{number}", bodies)
        broker.channel.queue_bind(name, exchange, str(number), {"x-stream-partition-order": number})
        return name

    old = shard(0, "ab")
    offsets = "earliest" if starting == "earliest" else json.dumps({old: 0})
    options = {"endpoint": broker.endpoint, "superStream": exchange, "startingOffsets": offsets}
    frame = spark.readStream.format("leveret").options(**options).load()
    assert into_text(frame, tmp_path).awaitTermination(60)
    shard(1, "xyz")
    broker.publish(old, "c")
    assert into_text(frame, tmp_path).awaitTermination(60)
    assert texts(spark, tmp_path) == ["a", "b", "c", "x", "y", "z"]


def test_a_batch_waits_for_the_minimum_until_the_longest_delay(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    stream, longest = broker.stream("few", "a"), 2.0
    options = {"queue": stream, "minOffsetsPerTrigger": "2", "maxTriggerDelay": f"{longest:.0f}s"}
    frame = spark.readStream.format("leveret").options(endpoint=broker.endpoint, startingOffsets="earliest", **options)
    batches: list[list[int]] = []
    times = [time.monotonic()]

    def publish_one_more(rows: DataFrame, _: int) -> None:
        batches.append([row.offset for row in rows.collect()])
        times.append(time.monotonic())
        broker.publish(stream, "b")  # one message waits whenever the source looks for a batch

    writer = frame.load().writeStream.foreachBatch(publish_one_more).trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        eventually(lambda: bool(batches) and query.status["message"] == "Waiting for data to arrive", 60)
        held = len(batches)  # on a slow machine, batches took longer than the delay
        eventually(lambda: len(batches) > held, 60)
    finally:
        query.stop()
    assert batches == [[offset] for offset in range(len(batches))]
    # The delay counts from the start of a batch, which is after the end of the one before it.
    assert times[held + 1] - times[held - 1] >= longest


def test_a_second_query_is_refused_and_a_restart_is_not(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    stem = broker.name("work")
    first, second = broker.queue(f"{stem}-a", "ab"), broker.queue(f"{stem}-b", "c")
    options = {"endpoint": broker.endpoint, "subscribePattern": f"{stem}-.*", "consumerName": "nightly"}
    frame = spark.readStream.format("leveret").options(**options).load()
    running = into_text(frame, tmp_path / "one", now=False)
    eventually(lambda: any(each.numInputRows for each in running.recentProgress), 60)
    progress = next(each for each in running.recentProgress if each.numInputRows)
    latest = json.loads(progress.json)["sources"][0]["latestOffset"]
    assert latest["ready"].keys() == {first, second}
    assert sum(lease["messages"] for lease in latest["leased"].values()) == progress.numInputRows
    with pytest.raises(
        Exception, match=r"consumerName 'nightly' is in use on queue .* stop it, or give this query another"
    ):
        into_text(frame, tmp_path / "two").awaitTermination(60)
    assert running.isActive
    broker.publish(first, "d")
    eventually(lambda: texts(spark, tmp_path / "one") == ["a", "b", "c", "d"], 60)
    running.stop()
    broker.publish(second, "e")
    [behind] = leveret.spark.source_metrics(progress, {"endpoint": broker.endpoint})
    assert (behind["description"], behind["messages"]) == (
        f"leveret: queues '{first}', '{second}' as consumer 'nightly'",
        1,
    )
    assert behind["bytes"] > 1
    assert into_text(frame, tmp_path / "one").awaitTermination(60)
    assert texts(spark, tmp_path / "one") == ["a", "b", "c", "d", "e"]
    assert broker.ask("GET", "%2F/leases", consumer="nightly", queue=first)["leases"] == []
