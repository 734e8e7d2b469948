"""Readers as Spark makes them, without Spark: what happens at the driver and in a task, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from leveret.spark import SCHEMA, LeveretDataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from tests.support.spark_broker import SparkBroker


def stream_reader(broker: SparkBroker, schema: StructType = SCHEMA, **options: str) -> DataSourceStreamReader:
    return LeveretDataSource({"endpoint": broker.endpoint, **options}).streamReader(schema)


def batch_reader(broker: SparkBroker, schema: StructType = SCHEMA, **options: str) -> DataSourceReader:
    return LeveretDataSource({"endpoint": broker.endpoint, **options}).reader(schema)


def rows(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    """What tasks read: reader and partitions travel as Spark sends them."""
    there = cloudpickle.loads(cloudpickle.dumps((reader, list(partitions))))
    return [row for part in there[1] for batch in there[0].read(part) for row in batch.to_pylist()]


def bodies(reader: Any, start: Any, end: Any) -> list[bytes]:
    """The bodies of one batch of a stream."""
    return [row["body"] for row in rows(reader, reader.partitions(start, end))]
