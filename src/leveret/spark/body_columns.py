"""Columns of decoded bodies: what Avro and Protobuf have in common.

Bodies are decoded row by row in an Arrow UDF. A body that cannot be decoded does not affect the other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from leveret.errors import LeveretError
from leveret.schemas.errors import SchemaError
from leveret.schemas.schema import Schema
from leveret.spark.errors import OptionError
from leveret.spark.row_errors import row_error
from leveret.spark.schema_registry import SchemaRegistry

REPORT, RAISE = "report", "raise"


class DecodingError(LeveretError):
    """A body that does not match its schema, or a reference to a schema that does not exist."""


# What fastavro and protobuf raise for a body that is damaged, and what a schema raises that is invalid or too complex.
UNDECODABLE = (
    DecodingError,
    SchemaError,
    ArithmeticError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
)


class Codec(Protocol):
    @property
    def type(self) -> DataType:
        """Of the values."""

    def refuse_unusable(self) -> None:
        """OptionError: no body can be read with the schema."""

    def decode(self, body: bytes, schema_id: str | None) -> Any: ...

    def encode(self, value: Any) -> bytes: ...


def missing_extra(extra: str, package: str) -> OptionError:
    return OptionError(f"{package} is missing, on this machine: run pip install 'leveret[{extra}]' there")


def writer_of(reader: Schema, registry: SchemaRegistry | None, schema_id: str | None, type_: str) -> Schema:
    """The schema that a body was written with; without an ID, that of the reader."""
    if schema_id is None or registry is None:
        return reader
    found = registry.by_id(schema_id)
    if found is None:
        raise DecodingError(f"schema ID '{schema_id[:80]}' is unknown: add the schema, or correct the publisher")
    if found.type != type_:
        raise DecodingError(f"schema ID '{schema_id}' is a schema of type {found.type}, not {type_}")
    return found


def refuse_unknown(on_error: str) -> None:
    if on_error not in (REPORT, RAISE):
        raise OptionError(f"on_error is {on_error!r}; choose '{REPORT}' or '{RAISE}'")


def decoded_column(codec: Codec, body: Column | str, schema_id: Column | None, on_error: str) -> Column:
    refuse_unknown(on_error)
    reports = on_error == REPORT
    kind = codec.type
    result = reported(kind) if reports else kind
    arrow = to_arrow_type(result, timezone="UTC")

    def decode(bodies: pa.Array, ids: pa.Array) -> pa.Array:
        rows = [_row(codec, body, id_, reports) for body, id_ in zip(bodies.to_pylist(), ids.to_pylist(), strict=True)]
        return _array(rows, arrow, reports)

    ids = F.lit(None).cast("string") if schema_id is None else schema_id
    return arrow_column(decode, result)(F.col(body) if isinstance(body, str) else body, ids)


def encoded_column(codec: Codec, value: Column | str) -> Column:
    def encode(values: pa.Array) -> pa.Array:
        rows = values.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if row is None else codec.encode(row) for row in rows], pa.binary())

    return arrow_column(encode, "binary")(F.col(value) if isinstance(value, str) else value)


def reported(kind: DataType) -> StructType:
    return StructType([StructField("value", kind), StructField("error", StringType())])


def arrow_column(function: Callable[..., pa.Array], result: DataType | str) -> Callable[..., Column]:
    return arrow_udf(function, result)  # type: ignore[call-overload, no-any-return]  # stubs without structs


def error_of(codec: Codec, body: bytes, schema_id: str | None) -> str | None:
    """The reason why the body cannot be decoded; None if it can."""
    try:
        codec.decode(body, schema_id)
    except UNDECODABLE as error:
        return _text(error)
    return None


def _row(codec: Codec, body: bytes | None, schema_id: str | None, reports: bool) -> Any:
    if body is None:
        return None
    try:
        value = codec.decode(body, schema_id)
    except UNDECODABLE as error:
        if not reports:
            raise DecodingError(f"a body of {len(body)} bytes cannot be decoded: {_text(error)}") from error
        return {"error": _text(error)}
    return {"value": value} if reports else value


def _array(rows: list[Any], arrow: pa.DataType, reports: bool) -> pa.Array:
    try:
        return pa.array(rows, arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        if not reports:
            raise
    return pa.array([_storable(row, arrow) for row in rows], arrow)


def _storable(row: Any, arrow: pa.DataType) -> Any:
    """The row, or its error if a value is outside the range of its Spark type."""
    try:
        pa.array([row], arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        return {"error": _text(error)}
    return row


def _text(error: Exception) -> str:
    return row_error(str(error) if isinstance(error, DecodingError) else f"{type(error).__name__}: {error}")
