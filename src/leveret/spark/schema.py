"""The columns of a message, for Spark and for Arrow, and those that a sink accepts.

Sources have a fixed schema. `.schema(...)` or the option `columns` can select some of its columns; then only these are
fetched, since Spark does not report the columns of a query to a Python source. Spark compares Arrow schemas exactly, so
`Shape` converts every batch to the declared schema (spark/shape.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
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
SINK_COLUMNS = ("body", "routing_key", "exchange", "headers", "properties", "mandatory")
HEADER_SCALARS = (
    NumericType,
    BooleanType,
    StringType,
    BinaryType,
    TimestampType,
    TimestampNTZType,
    VariantType,
    NullType,
)


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


def columns_of(names: Sequence[str]) -> StructType:
    """The schema with these columns, in their order; with all columns if there are none."""
    for name in names:
        if name not in SCHEMA.fieldNames():
            raise OptionError(
                f"option columns: a message has no column '{name}'; choose among {', '.join(SCHEMA.fieldNames())}"
            )
    return StructType([SCHEMA[name] for name in names]) if names else SCHEMA


def refuse_unless_columns(schema: StructType, names: Sequence[str]) -> None:
    """A schema that the user gives decides instead of the option: they must not differ."""
    if names and schema.fieldNames() != list(names):
        raise OptionError(
            f"option columns is '{','.join(names)}', and the schema has the columns "
            f"{', '.join(schema.fieldNames())}; remove one of the two"
        )


def refuse_unknown_columns(schema: StructType) -> None:
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
    if field.name == "headers":
        if not isinstance(field.dataType, StructType | MapType):
            raise OptionError(f"the sink's column 'headers' is a map or a struct, not {got}; use map() or struct()")
        _refuse_unless_header(field.dataType, "headers")
        return
    several = {"body": {"binary", "string"}, "mandatory": {"boolean"}}
    allowed = several[field.name] if field.name in several else {SCHEMA[field.name].dataType.simpleString()}
    if got not in allowed:
        first = min(allowed)
        cure = "use to_json() or cast it" if field.name == "body" else f'use .cast("{first}")'
        raise OptionError(f"the sink's column '{field.name}' is {' or '.join(sorted(allowed))}, not {got}; {cure}")


def _refuse_unless_header(kind: DataType, path: str) -> None:
    """Refuse types that no AMQP header has, in structs, maps and arrays."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            _refuse_unless_header(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        _refuse_unless_header(kind.valueType, f"{path}[...]")
    elif isinstance(kind, ArrayType):
        _refuse_unless_header(kind.elementType, f"{path}[...]")
    elif not isinstance(kind, HEADER_SCALARS):
        raise OptionError(
            f"the sink's column '{path}' is {kind.simpleString()}, and headers are numbers, booleans, strings, "
            'binaries, timestamps, variants, arrays, structs or maps with names; use .cast("string")'
        )


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
