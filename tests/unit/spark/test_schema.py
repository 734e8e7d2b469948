"""The fixed schema, the choice among its columns, and what a sink accepts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from leveret.pipeline.arrow_schema import COLUMNS, INCOMING
from leveret.pipeline.arrow_schema import PROPERTIES as SENT_PROPERTIES
from leveret.spark.errors import OptionError
from leveret.spark.schema import PROPERTIES, SCHEMA, SINK_COLUMNS, arrow_fields, refuse_unless_publishable
from leveret.spark.shape import Shape


def test_the_schema_is_what_spark_expects_of_arrow() -> None:
    assert pa.schema(arrow_fields(SCHEMA)).equals(to_arrow_schema(SCHEMA, timezone="UTC"))


def test_the_broker_sends_these_columns() -> None:
    assert list(COLUMNS) == SCHEMA.fieldNames()
    assert list(SENT_PROPERTIES) == PROPERTIES.fieldNames()
    assert INCOMING == SINK_COLUMNS


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_chosen_columns_come_in_the_order_they_were_chosen() -> None:
    shape = Shape(StructType([SCHEMA["offset"], SCHEMA["body"]]), headers=False)
    assert shape.columns == "body,offset"
    made = shape.of("q", 0)(batch(body=pa.array([b"x"]), offset=pa.array([5], pa.int64())))
    assert made.to_pylist() == [{"offset": 5, "body": b"x"}]


def test_the_offset_is_fetched_even_if_nobody_wants_it() -> None:
    shape = Shape(StructType([SCHEMA["body"]]), headers=False)
    assert shape.columns == "body,offset"
    made = shape.of("q", 0)(batch(body=pa.array([b"x"]), offset=pa.array([5], pa.int64())))
    assert made.schema.names == ["body"]


def test_queue_and_partition_are_known_and_not_fetched() -> None:
    chosen = StructType([SCHEMA[name] for name in ("queue", "offset", "partition")])
    shape = Shape(chosen, headers=False)
    assert shape.columns == "offset"
    shaped = shape.of("orders", 3)
    for offsets in ([5], [6, 7, 8], [9, 10]):  # batches of any size, also smaller than the one before
        made = shaped(batch(offset=pa.array(offsets, pa.int64())))
        made.validate(full=True)
        assert made.to_pylist() == [{"queue": "orders", "offset": offset, "partition": 3} for offset in offsets]


def test_headers_that_are_not_wanted_are_not_fetched_and_null() -> None:
    chosen = StructType([SCHEMA["headers"], SCHEMA["body"]])
    assert Shape(chosen, headers=False).columns == "body,offset"
    assert Shape(chosen, headers=True).columns == "body,offset,headers"
    rows = batch(body=pa.array([b"x", b"y"]), offset=pa.array([5, 6], pa.int64()))
    made = Shape(chosen, headers=False).of("q", 0)(rows)
    made.validate(full=True)
    assert made.to_pylist() == [{"headers": None, "body": b"x"}, {"headers": None, "body": b"y"}]
    assert made.schema.equals(to_arrow_schema(chosen, timezone="UTC"))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (StructField("value", BinaryType()), "a message has no column 'value'; choose among body, routing_key"),
        (StructField("body", StringType()), "column 'body' is binary, not string"),
        (StructField("offset", IntegerType()), "column 'offset' is bigint, not int"),
    ],
)
def test_a_schema_that_no_message_has_is_refused(field: StructField, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        Shape(StructType([field]), headers=False)


def test_a_sink_accepts_what_a_source_gives_of_a_message() -> None:
    refuse_unless_publishable(StructType([SCHEMA[name] for name in ("headers", "body", "routing_key", "properties")]))
    refuse_unless_publishable(StructType([StructField("body", StringType())]))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([StructField("value", StringType())], r"needs a column 'body' .*got 'value'; use .withColumnRenamed"),
        ([StructField("a", StringType()), StructField("b", StringType())], "got 'a', 'b'; use .select"),
        ([SCHEMA["body"], SCHEMA["offset"]], r"unknown columns 'offset'; .* use .select\(\"body\"\)"),
        ([StructField("body", LongType())], "column 'body' is binary or string, not bigint; use to_json"),
        ([SCHEMA["body"], StructField("routing_key", LongType())], r"'routing_key' is string, not bigint; use .cast"),
        (
            [SCHEMA["body"], StructField("headers", MapType(StringType(), DateType()))],
            r"'headers\[...\]' is date, and headers are numbers",
        ),
        ([SCHEMA["body"], StructField("headers", StringType())], "'headers' is a map or a struct, not string"),
        ([SCHEMA["body"], StructField("mandatory", StringType())], r"'mandatory' is boolean, not string; use .cast"),
        ([SCHEMA["body"], StructField("properties", StringType())], "'properties' is a struct, not string"),
        (
            [SCHEMA["body"], StructField("properties", StructType([StructField("ttl", StringType())]))],
            "'properties' has no field 'ttl'; choose among content_type",
        ),
        (
            [SCHEMA["body"], StructField("properties", StructType([StructField("priority", LongType())]))],
            "field 'properties.priority' is int, not bigint",
        ),
    ],
)
def test_a_sink_refuses(fields: list[StructField], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        refuse_unless_publishable(StructType(fields))
