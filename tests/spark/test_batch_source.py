"""Batch reads: any queue as it is now, without consuming it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.spark_broker import SparkBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, broker: SparkBroker, **options: object) -> DataFrame:
    return spark.read.format("leveret").options(endpoint=broker.endpoint, **options).load()


def test_a_stream_is_read_whole_in_order_with_every_column(spark: SparkSession, broker: SparkBroker) -> None:
    stream = broker.stream("whole", [f"m{n}" for n in range(5)])
    rows = read(spark, broker, queue=stream).collect()
    assert [bytes(row.body) for row in rows] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    assert [row.offset for row in rows] == [0, 1, 2, 3, 4]
    assert {(row.routing_key, row.exchange, row.queue, row.partition) for row in rows} == {(stream, "", stream, 0)}
    assert rows[0].headers == {}
    assert rows[0].properties.delivery_mode == 2
    assert not rows[0].redelivered
