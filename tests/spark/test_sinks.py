"""Rows become messages: batch and streaming sinks, exactly once and at least once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StringType, StructField, StructType

from leveret.spark import LeveretDataSource, publish_each_batch, sink_writer
from leveret.spark.errors import OptionError, Unroutable
from tests.support.management_api import ManagementApi
from tests.support.spark_broker import SparkBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


BODY = StructType([StructField("body", StringType())])
ADDRESSED = StructType([*BODY.fields]).add("routing_key", "string").add("mandatory", "boolean")
VALUE = StructType([StructField("value", StringType())])


def write(frame: DataFrame, broker: SparkBroker, mode: str = "append", **options: object) -> None:
    frame.write.format("leveret").mode(mode).options(endpoint=broker.endpoint, **options).save()


def stages(broker: SparkBroker, transaction: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.ask("GET", "%2F/stages")["stages"]
    return [stage for stage in found if stage["transaction"] == transaction]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_frame_becomes_messages(spark: SparkSession, broker: SparkBroker, guarantee: str) -> None:
    queue, transaction = broker.queue("frame"), broker.name("transaction")
    frame = spark.range(20).selectExpr(
        "cast(id as string) as body",
        f"'{queue}' as routing_key",
        "map('n', cast(id as string)) as headers",
        "named_struct('message_id', concat('m', id), 'priority', 3) as properties",
    )
    write(frame, broker, exchange="", guarantee=guarantee, transactionId=transaction)
    _, properties, body = broker.channel.basic_get(queue, auto_ack=True)
    number = body.decode()
    assert (properties.headers, properties.message_id, properties.priority) == ({"n": number}, f"m{number}", 3)
    assert properties.delivery_mode == 2
    assert sorted(map(int, [body, *broker.bodies(queue)])) == list(range(20))
    assert stages(broker, transaction) == []


HEADERS = {
    "struct": "named_struct('n', id, 't', true, 'raw', X'00', 'at', timestamp'2026-01-02 03:04:05Z', "
    "'CC', array('{cc}'))",
    "variant": "map('n', cast(id as variant), 't', parse_json('true'), 'raw', cast(X'00' as variant), "
    "'at', cast(timestamp'2026-01-02 03:04:05Z' as variant), 'CC', parse_json('[\"{cc}\"]'))",
}


@pytest.mark.parametrize("kind", HEADERS)
def test_headers_have_the_types_of_their_column(spark: SparkSession, broker: SparkBroker, kind: str) -> None:
    queue, copies = broker.queue("typed"), broker.queue("copies")
    headers = HEADERS[kind].format(cc=copies)
    frame = spark.range(3, 4).selectExpr("'a' as body", f"{headers} as headers", "true as mandatory")
    write(frame, broker, exchange="", routingKey=queue)
    _, properties, _ = broker.channel.basic_get(queue, auto_ack=True)
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert properties.headers == {"n": 3, "t": True, "raw": b"\0", "at": at, "CC": [copies]}
    assert broker.bodies(copies) == [b"a"]


def test_a_row_can_wait_for_its_time(spark: SparkSession, broker: SparkBroker) -> None:
    queue, api = broker.queue("later"), ManagementApi(broker.endpoint)
    due = round(time.time() * 1000) + 3_600_000
    frame = spark.range(1).selectExpr("'a' as body", f"named_struct('x-deliver-at', {due} + id) as headers")
    assert frame.schema["headers"].dataType.simpleString() == "struct<x-deliver-at:bigint>"
    write(frame, broker, exchange="", routingKey=queue, mandatory="true")
    assert broker.bodies(queue) == []
    scheduled = api.get("schedules/%2F")[1]["messages"]
    [later] = [message for message in scheduled if message["routing_key"] == queue]
    assert (later["payload"], later["due"]) == ("a", pytest.approx(due / 1000, abs=1.0))  # a clock may be adjusted
    assert api.delete(f"schedules/%2F/{later['id']}")[0] == 204


def test_rows_that_must_be_routed_fail_the_write_or_are_reported(spark: SparkSession, broker: SparkBroker) -> None:
    queue = broker.queue("routed")
    keys = f"if(id < 2, '{queue}', 'nowhere') as routing_key"
    frame = spark.range(5).selectExpr("'a' as body", keys, "id = 4 as mandatory")
    with pytest.raises(Exception, match=r"routing key 'nowhere' is not routed to any queue .* \(1 messages\)"):
        write(frame, broker, exchange="")
    assert broker.bodies(queue) == []
    write(frame, broker, exchange="", unroutable="report")
    assert broker.bodies(queue) == [b"a", b"a"]


def test_options_say_where_rows_without_an_address_go(spark: SparkSession, broker: SparkBroker) -> None:
    queue, exchange = broker.queue("option"), broker.name("option")
    broker.channel.exchange_declare(exchange, "direct", durable=True)
    broker.channel.queue_bind(queue, exchange, "key")
    frame = spark.createDataFrame([(b"a",)], "body binary")
    write(frame, broker, exchange=exchange, routingKey="key", mandatory="true")
    assert broker.bodies(queue) == [b"a"]


def test_a_transaction_is_written_once(spark: SparkSession, broker: SparkBroker) -> None:
    queue, transaction = broker.queue("once"), broker.name("transaction")
    frame = spark.createDataFrame([("a",)], "body string")
    for batch in (0, 0, 1):
        write(frame, broker, exchange="", routingKey=queue, transactionId=transaction, batchId=batch)
    assert broker.bodies(queue) == [b"a", b"a"]


def test_a_failed_write_leaves_nothing(spark: SparkSession, broker: SparkBroker) -> None:
    queue = broker.queue("failed")
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('broken row'), cast(id as string)) as body")
    with pytest.raises(Exception, match="broken row"):
        write(frame, broker, exchange="", routingKey=queue)
    assert broker.bodies(queue) == []


class OneTask:
    """What a writer asks of the task it runs in."""

    def partitionId(self) -> int:
        return 0

    def taskAttemptId(self) -> int:
        return 7

    def getLocalProperty(self, name: str) -> str:
        return {"sql.streaming.queryId": "the-query", "streaming.sql.batchId": "3"}[name]


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
@pytest.mark.parametrize("name", ["named", None])
def test_giving_up_drops_the_stages(
    broker: SparkBroker, monkeypatch: pytest.MonkeyPatch, kind: str, name: str | None
) -> None:
    monkeypatch.setattr(sink_writer, "task_context", OneTask)
    options = {"endpoint": broker.endpoint, "exchange": ""} | ({"transactionId": broker.name(name)} if name else {})
    sink = getattr(LeveretDataSource(options), kind)(BODY, overwrite=False)
    done = sink.write(iter([pa.RecordBatch.from_pydict({"body": ["a", "b"]})]))
    assert [stage["messages"] for stage in stages(broker, done.transaction)] == [2]
    # Of a batch write the transaction is known even if no task told of it.
    returned = [None] if kind == "writer" else [None, done]
    sink.abort(returned, 3) if kind == "streamWriter" else sink.abort(returned)
    assert stages(broker, done.transaction) == []


def test_mandatory_rows_whose_queue_vanishes_before_the_commit_fail_the_write(
    broker: SparkBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column is like the option; other rows without a queue do not fail it."""
    monkeypatch.setattr(sink_writer, "task_context", OneTask)
    for key, is_mandatory in (("optional", False), ("mandatory", True)):
        queue = broker.queue(key)
        columns = {"body": ["a", "b"], "routing_key": [queue, "nowhere"], "mandatory": [is_mandatory, False]}
        sink = LeveretDataSource({"endpoint": broker.endpoint, "exchange": ""}).writer(ADDRESSED, overwrite=False)
        done = sink.write(iter([pa.RecordBatch.from_pydict(columns)]))
        broker.channel.queue_delete(queue)
        if is_mandatory:
            with pytest.raises(Unroutable, match=r"2 messages were routed to no queue \(1 of them mandatory\)"):
                sink.commit([done])
        else:
            sink.commit([done])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exchange": "absent"}, "no exchange 'absent' in vhost '/'"),
        ({"exchange": "", "routingKey": "nobody", "mandatory": "true"}, "without mandatory"),
    ],
)
def test_what_the_broker_cannot_route_fails_the_write(
    spark: SparkSession, broker: SparkBroker, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(spark.range(1).selectExpr("'a' as body"), broker, **options)


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (VALUE, {"exchange": ""}, "the sink needs a column 'body' .*withColumnRenamed"),
        (BODY, {}, "option exchange is missing, and so is a column exchange"),
        (BODY, {"exchange": "", "guarantee": "perhaps"}, "option guarantee is 'perhaps'; give exactly-once or"),
        (BODY, {"exchange": "", "queue": "q"}, "option queue is for sources only"),
    ],
)
def test_what_cannot_be_written_is_refused_at_the_driver(
    schema: StructType, options: dict[str, str], text: str
) -> None:
    source = LeveretDataSource(options)
    with pytest.raises(OptionError, match=text):
        source.writer(schema, overwrite=False)
    with pytest.raises(OptionError, match=text):
        source.streamWriter(schema, overwrite=False)


def test_spark_numbers_the_batches_of_a_query() -> None:
    options = {"exchange": "", "transactionId": "t", "batchId": "1"}
    with pytest.raises(OptionError, match="option batchId is for batch writes"):
        LeveretDataSource(options).streamWriter(BODY, overwrite=False)


def test_an_exchange_cannot_be_overwritten() -> None:
    with pytest.raises(OptionError, match=r"an exchange holds nothing to overwrite; use .mode\(\"append\"\)"):
        LeveretDataSource({"exchange": ""}).writer(BODY, overwrite=True)


def start(
    spark: SparkSession, broker: SparkBroker, source: str, target: str, checkpoint: Path, **options: str
) -> StreamingQuery:
    """From a stream through a shuffle into a queue."""
    read = spark.readStream.format("leveret").options(
        endpoint=broker.endpoint, queue=source, startingOffsets="earliest", maxOffsetsPerTrigger="10"
    )
    written = read.load().select("body").repartition(2).writeStream.format("leveret")
    written = written.options(endpoint=broker.endpoint, exchange="", routingKey=target, **options)
    return written.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def test_a_query_goes_on_where_it_was_and_repeats_nothing(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    source, target = broker.stream("in", [str(n) for n in range(15)]), broker.queue("out")
    first = start(spark, broker, source, target, tmp_path)
    assert first.awaitTermination(120)
    last = broker.ask("GET", "%2F/commits", transaction=first.id)["last_batch"]
    assert last == 1
    # As if the driver had died between the broker's commit and Spark's: the batch is run again.
    (tmp_path / "commits" / "1").unlink()
    (tmp_path / "commits" / ".1.crc").unlink(missing_ok=True)
    broker.publish(source, [str(n) for n in range(15, 20)])
    assert start(spark, broker, source, target, tmp_path).awaitTermination(120)
    assert sorted(map(int, broker.bodies(target))) == list(range(20))
    assert stages(broker, first.id) == []


def test_a_query_can_publish_at_least_once(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    source, target = broker.stream("in", "abc"), broker.queue("out")
    query = start(spark, broker, source, target, tmp_path, guarantee="at-least-once")
    assert query.awaitTermination(120)
    assert sorted(broker.bodies(target)) == [b"a", b"b", b"c"]
    assert broker.ask("GET", "%2F/commits", transaction=query.id)["last_batch"] is None


def test_an_aggregation_in_update_mode_is_published_once(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    source, target = broker.stream("in", "aab"), broker.queue("out")

    def run() -> StreamingQuery:
        read = spark.readStream.format("leveret").options(
            endpoint=broker.endpoint, queue=source, startingOffsets="earliest"
        )
        counts = read.load().groupBy("body").count().selectExpr("concat(cast(body as string), count) as body")
        each = publish_each_batch(endpoint=broker.endpoint, exchange="", routingKey=target)
        written = counts.writeStream.outputMode("update").foreachBatch(each)
        return written.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    query = run()
    assert query.awaitTermination(120)
    assert sorted(broker.bodies(target)) == [b"a2", b"b1"]
    assert broker.ask("GET", "%2F/commits", transaction=query.id)["last_batch"] == 0
    # As if the driver had died between the broker's commit and Spark's: the batch is run again.
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
    broker.publish(source, ["a"])
    assert run().awaitTermination(120)
    assert broker.bodies(target) == [b"a3"]


def test_the_options_of_each_batch_are_checked_before_the_query_starts() -> None:
    for options, text in (({"batchId": 1}, "option batchId"), ({"exchnge": ""}, "did you mean exchange")):
        with pytest.raises(OptionError, match=text):
            publish_each_batch(options)


def test_a_named_transaction_outlives_its_checkpoint(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    source, target = broker.stream("in", "abc"), broker.queue("out")
    name = broker.name("transaction")
    for run in ("one", "two"):
        query = start(spark, broker, source, target, tmp_path / run, transactionId=name)
        assert query.awaitTermination(120)
    assert sorted(broker.bodies(target)) == [b"a", b"b", b"c"]


def start_each(spark: SparkSession, broker: SparkBroker, source: str, target: str, checkpoint: Path) -> StreamingQuery:
    """The same as ``start``, with a function for each batch."""
    read = spark.readStream.format("leveret").options(
        endpoint=broker.endpoint, queue=source, startingOffsets="earliest"
    )
    each = publish_each_batch(endpoint=broker.endpoint, exchange="", routingKey=target)
    written = read.load().select("body").writeStream.foreachBatch(each)
    return written.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


@pytest.mark.parametrize("start", [start, start_each])
def test_a_checkpoint_that_is_an_old_copy_is_refused(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, start: Callable[..., StreamingQuery]
) -> None:
    """Its next batch has the number of a committed one and other rows, which the broker would drop as a repeat."""
    source, target = broker.stream("in", "a"), broker.queue("out")
    for body in "bc":
        assert start(spark, broker, source, target, tmp_path / "now").awaitTermination(120)
        if body == "b":
            shutil.copytree(tmp_path / "now", tmp_path / "old")
        broker.publish(source, [body])
    query = start(spark, broker, source, target, tmp_path / "old")  # only one batch behind
    with pytest.raises(StreamingQueryException, match=r"it was committed with 1 messages, and has 2 now"):
        query.awaitTermination(120)
    assert start(spark, broker, source, target, tmp_path / "now").awaitTermination(120)
    broker.publish(source, ["d"])
    query = start(spark, broker, source, target, tmp_path / "old")
    with pytest.raises(StreamingQueryException, match=r"batch 1 was not written: the broker has batches .* up to 2"):
        query.awaitTermination(120)
    assert start(spark, broker, source, target, tmp_path / "now").awaitTermination(120)
    assert broker.bodies(target) == [b"a", b"b", b"c", b"d"]
