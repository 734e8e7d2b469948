"""Rows become messages: batch and streaming sinks, exactly once and at least once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.spark_broker import SparkBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def write(frame: DataFrame, broker: SparkBroker, mode: str = "append", **options: object) -> None:
    frame.write.format("leveret").mode(mode).options(endpoint=broker.endpoint, **options).save()


def stages(broker: SparkBroker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.ask("GET", "%2F/stages")["stages"]
    return found


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_frame_becomes_messages(spark: SparkSession, broker: SparkBroker, guarantee: str) -> None:
    queue = broker.queue("frame")
    frame = spark.range(20).selectExpr(
        f"cast(id as string) as body, '{queue}' as routing_key",
        "map('n', cast(id as string)) as headers",
        "named_struct('message_id', concat('m', id), 'priority', 3) as properties",
    )
    write(frame, broker, exchange="", guarantee=guarantee)
    _, properties, body = broker.channel.basic_get(queue, auto_ack=True)
    number = body.decode()
    assert (properties.headers, properties.message_id, properties.priority) == ({"n": number}, f"m{number}", 3)
    assert properties.delivery_mode == 2
    assert sorted(map(int, [body, *broker.bodies(queue)])) == list(range(20))
    assert stages(broker) == []


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
    for _ in range(2):
        write(frame, broker, exchange="", routingKey=queue, transactionId=transaction)
    assert broker.bodies(queue) == [b"a"]


def test_a_failed_write_leaves_nothing(spark: SparkSession, broker: SparkBroker) -> None:
    queue = broker.queue("failed")
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('broken row'), cast(id as string)) as body")
    with pytest.raises(Exception, match="broken row"):
        write(frame, broker, exchange="", routingKey=queue)
    assert stages(broker) == []
    assert broker.bodies(queue) == []


@pytest.mark.parametrize(
    ("select", "options", "text"),
    [
        ("'a' as value", {"exchange": ""}, "the sink needs a column 'body' .*withColumnRenamed"),
        ("'a' as body", {}, "option exchange is missing, and so is a column exchange"),
        ("'a' as body", {"exchange": "absent"}, "no exchange 'absent' in vhost '/'"),
        ("'a' as body", {"exchange": "", "guarantee": "perhaps"}, "option guarantee is 'perhaps'; give exactly-once or"),
        ("'a' as body", {"exchange": "", "routingKey": "nobody", "mandatory": "true"}, "without mandatory"),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, broker: SparkBroker, select: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(spark.range(1).selectExpr(select), broker, **options)


def test_an_exchange_cannot_be_overwritten(spark: SparkSession, broker: SparkBroker) -> None:
    with pytest.raises(Exception, match="an exchange holds nothing to overwrite"):
        write(spark.range(1).selectExpr("'a' as body"), broker, "overwrite", exchange="")


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
    assert stages(broker) == []


def test_a_query_can_publish_at_least_once(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    source, target = broker.stream("in", "abc"), broker.queue("out")
    query = start(spark, broker, source, target, tmp_path, guarantee="at-least-once")
    assert query.awaitTermination(120)
    assert sorted(broker.bodies(target)) == [b"a", b"b", b"c"]
    assert broker.ask("GET", "%2F/commits", transaction=query.id)["last_batch"] is None


def test_a_named_transaction_outlives_its_checkpoint(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    source, target = broker.stream("in", "abc"), broker.queue("out")
    name = broker.name("transaction")
    for run in ("one", "two"):
        query = start(spark, broker, source, target, tmp_path / run, transactionId=name)
        assert query.awaitTermination(120)
    assert sorted(broker.bodies(target)) == [b"a", b"b", b"c"]
