"""Messages as a DataFrame with the columns of the source, for tests of jobs without a broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from leveret.spark.schema import PROPERTIES, SCHEMA

NOON = datetime(2031, 5, 1, 12, 0, 0, tzinfo=UTC)


def message(body: bytes | str = b"", *, after: float = 0.0, **columns: object) -> dict[str, object]:
    """One that arrived so many seconds after noon; ``properties`` may name some of its fields."""
    given = columns.pop("properties", {})
    assert isinstance(given, dict)
    row: dict[str, object] = {
        "body": body.encode() if isinstance(body, str) else body,
        "routing_key": "key",
        "exchange": "orders",
        "queue": "q",
        "partition": 0,
        "offset": 0,
        "timestamp": NOON + timedelta(seconds=after),
        "redelivered": False,
        "headers": {},
        "properties": {name: given.get(name) for name in PROPERTIES.fieldNames()},
    }
    assert not columns.keys() - row.keys()
    return row | columns


def frame(spark: SparkSession, *messages: dict[str, object]) -> DataFrame:
    rows = [tuple(one[name] for name in SCHEMA.fieldNames()) for one in messages]
    return spark.createDataFrame(rows, SCHEMA)
