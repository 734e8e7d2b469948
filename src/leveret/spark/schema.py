"""The columns of a message, for Spark and for Arrow, and those that a sink accepts.

Sources have a fixed schema. `.schema(...)` can select some of its columns; then only these are fetched, since Spark
does not report the columns of a query to a Python source. Spark compares Arrow schemas exactly, so `Shape` converts
every batch to the declared schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret.spark.errors import OptionError

PROPERTIES = StructType(
    [
        StructField("content_type", StringType()),
        StructField("content_encoding", StringType()),
        StructField("delivery_mode", IntegerType()),
        StructField("priority", IntegerType()),
        StructField("correlation_id", StringType()),
        StructField("reply_to", StringType()),
        StructField("expiration", StringType()),
        StructField("message_id", StringType()),
        StructField("timestamp", TimestampType()),
        StructField("type", StringType()),
        StructField("user_id", StringType()),
        StructField("app_id", StringType()),
    ]
)
SCHEMA = StructType(
    [
        StructField("body", BinaryType()),
        StructField("routing_key", StringType()),
        StructField("exchange", StringType()),
        StructField("queue", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("redelivered", BooleanType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("properties", PROPERTIES),
    ]
)
SIMPLE: dict[type[DataType], pa.DataType] = {
    BinaryType: pa.binary(),
    StringType: pa.string(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    BooleanType: pa.bool_(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}
KNOWN = ("queue", "partition")
SINK_COLUMNS = ("body", "routing_key", "exchange", "headers", "properties")


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type that Spark uses for this type."""
    if isinstance(kind, MapType):
        item = pa.field("value", arrow_type(kind.valueType), nullable=kind.valueContainsNull)
        return pa.map_(arrow_type(kind.keyType), item)
    if isinstance(kind, StructType):
        return pa.struct(arrow_fields(kind))
    return SIMPLE[type(kind)]


def arrow_fields(schema: StructType) -> list[pa.Field]:
    return [pa.field(field.name, arrow_type(field.dataType), nullable=field.nullable) for field in schema.fields]


class Shape:
    """The columns that Spark expects, made from the batches that the broker sends.

    Queue and partition are the same in all rows of a fetch and known in advance: they are not sent.
    """

    def __init__(self, schema: StructType, *, headers: bool) -> None:
        _refuse_unknown_columns(schema)
        self.names = tuple(schema.fieldNames())
        self._schema = pa.schema(arrow_fields(schema))
        self._made = frozenset(KNOWN) if headers else frozenset({*KNOWN, "headers"})

    @property
    def columns(self) -> str:
        """The columns to request. The offset is always included: an interrupted fetch continues after the last one."""
        wanted = ({*self.names} - self._made) | {"offset"}
        return ",".join(name for name in SCHEMA.fieldNames() if name in wanted)

    def of(self, queue: str, partition: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Converts the batches of one fetch."""
        return _Shaping(self._schema, {"queue": queue, "partition": partition}, self._made).shaped


class _Shaping:
    """Columns made here are made once, for the largest batch so far; other batches get a slice of them."""

    def __init__(self, schema: pa.Schema, known: Mapping[str, object], made: frozenset[str]) -> None:
        self._schema = schema
        self._known = known
        self._names = made
        self._made: dict[str, pa.Array] = {}
        self._rows = 0

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > self._rows:
            self._rows = batch.num_rows
            self._made = {field.name: self._make(field) for field in self._schema if field.name in self._names}
        columns = [self._column(batch, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _make(self, field: pa.Field) -> pa.Array:
        if field.name == "headers":
            return pa.nulls(self._rows, field.type)
        return pa.repeat(pa.scalar(self._known[field.name], field.type), self._rows)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name in self._names:
            return self._made[field.name].slice(0, batch.num_rows)
        column = batch.column(field.name)
        return column if column.type.equals(field.type) else column.cast(field.type)


def _refuse_unknown_columns(schema: StructType) -> None:
    for field in schema.fields:
        if field.name not in SCHEMA.fieldNames():
            raise OptionError(
                f"schema: a message has no column '{field.name}'; choose among {', '.join(SCHEMA.fieldNames())}"
            )
        promised = SCHEMA[field.name].dataType.simpleString()
        if field.dataType.simpleString() != promised:
            raise OptionError(
                f"schema: column '{field.name}' is {promised}, not {field.dataType.simpleString()}; "
                "omit .schema(), or use the actual type and cast the column afterwards"
            )


def refuse_unless_publishable(schema: StructType) -> None:
    """Refuse a schema whose rows are not messages; the error names the column and the remedy."""
    names = schema.fieldNames()
    if "body" not in names:
        near = next((name for name in ("value", "payload", "data", "message") if name in names), None)
        rename = f'.withColumnRenamed("{near}", "body")' if near else '.select(... .alias("body"))'
        raise OptionError(f"the sink needs a column 'body' (binary or string), got {_listed(names)}; use {rename}")
    strange = [name for name in names if name not in SINK_COLUMNS]
    if strange:
        keep = ", ".join(f'"{name}"' for name in names if name in SINK_COLUMNS)
        raise OptionError(
            f"unknown columns {_listed(strange)}; the sink accepts {', '.join(SINK_COLUMNS)}: use .select({keep})"
        )
    for field in schema.fields:
        _refuse_unless_fitting(field)


def _refuse_unless_fitting(field: StructField) -> None:
    got = field.dataType.simpleString()
    if field.name == "properties":
        _refuse_unless_properties(field.dataType)
        return
    allowed = {"binary", "string"} if field.name == "body" else {SCHEMA[field.name].dataType.simpleString()}
    if got not in allowed:
        first = min(allowed)
        cure = "use to_json() or cast it" if field.name == "body" else f'use .cast("{first}")'
        raise OptionError(f"the sink's column '{field.name}' is {' or '.join(sorted(allowed))}, not {got}; {cure}")


def _refuse_unless_properties(kind: DataType) -> None:
    if not isinstance(kind, StructType):
        raise OptionError(
            f"the sink's column 'properties' is a struct, not {kind.simpleString()}; use struct(... .alias(name))"
        )
    for field in kind.fields:
        if field.name not in PROPERTIES.fieldNames():
            raise OptionError(
                f"the sink's column 'properties' has no field '{field.name}'; "
                f"choose among {', '.join(PROPERTIES.fieldNames())}"
            )
        promised = PROPERTIES[field.name].dataType.simpleString()
        if field.dataType.simpleString() != promised:
            raise OptionError(
                f"the sink's field 'properties.{field.name}' is {promised}, not {field.dataType.simpleString()}; "
                f'use .cast("{promised}")'
            )


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
