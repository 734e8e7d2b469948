"""Bodies as columns: ``from_avro``, ``from_protobuf``, ``from_json``, and back with ``to_avro``, ``to_protobuf``.

    registry = SchemaRegistry(endpoint="http://127.0.0.1:15672")
    messages = spark.readStream.format("leveret").option("queue", "orders").option("includeHeaders", "true").load()
    decoded = messages.withColumn("decoded", from_avro("body", registry.schema("orders"), registry=registry))
    orders = decoded.where("decoded.error IS NULL").select("decoded.value.*")

``schema`` decides the columns: a text, or a schema of the registry. With a ``registry``, each body is read with the
schema that its message refers to (``schema_id``: by default the header ``x-schema-id``, or ``schema=`` in the content
type), and converted to ``schema`` by the rules of the format. Bodies without a reference are read with ``schema``.

The result is ``STRUCT<value, error>``: of the two, one is null. With ``on_error="raise"`` it is the value alone, and a
body that cannot be decoded fails the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from leveret.schemas.schema import AVRO, HEADER, JSON, PROTOBUF, Schema, checked_schema
from leveret.spark.body_columns import RAISE, REPORT, arrow_column, decoded_column, encoded_column, refuse_unknown
from leveret.spark.ddl_types import struct_of_ddl
from leveret.spark.errors import OptionError
from leveret.spark.jobs.json_check import CORRUPT, checker_of
from leveret.spark.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from leveret.spark.body_columns import Codec

__all__ = [
    "SchemaRegistry",
    "from_avro",
    "from_json",
    "from_protobuf",
    "from_schema",
    "schema_id",
    "to_avro",
    "to_protobuf",
]

CONTENT_TYPE = r'(?i);\s*schema\s*=\s*"?([^;"\s]+)'


def schema_id(headers: str = "headers", properties: str = "properties") -> Column:
    """The ID of the schema that a message refers to; null if it refers to none."""
    header = F.col(headers)[HEADER]
    parameter = F.regexp_extract(F.col(properties)["content_type"], CONTENT_TYPE, 1)
    return F.coalesce(header, F.when(parameter != "", parameter))


def from_avro(
    body: Column | str,
    schema: str | Schema,
    *,
    registry: SchemaRegistry | None = None,
    id: Column | None = None,
    on_error: str = REPORT,
) -> Column:
    """``schema``: JSON, or a schema of the registry. ``id``: another place of the reference than the usual ones."""
    return _decoded(_avro(schema, registry), body, registry, id, on_error)


def from_protobuf(
    body: Column | str,
    schema: str | Schema,
    message: str = "",
    *,
    registry: SchemaRegistry | None = None,
    id: Column | None = None,
    on_error: str = REPORT,
) -> Column:
    """``schema``: a FileDescriptorSet in base64 and the full name of its ``message``, or a schema of the registry."""
    return _decoded(_protobuf(schema, message, registry), body, registry, id, on_error)


def from_json(body: Column | str, schema: str | Schema, *, on_error: str = REPORT) -> Column:
    """``schema``: Spark's DDL, or a schema of the registry. Bodies are checked strictly: types are not converted."""
    refuse_unknown(on_error)
    fields = struct_of_ddl(_checked(schema, JSON).text)
    checker_of(fields)  # refuses types that it has no check for

    def reasons(bodies: pa.Array) -> pa.Array:
        check = checker_of(fields)
        return pa.array([None if body is None else check(body) for body in bodies.to_pylist()], pa.string())

    column = F.col(body) if isinstance(body, str) else body
    with_corrupt = StructType([*fields.fields, StructField(CORRUPT, StringType())])
    parsed = F.from_json(column.cast("string"), with_corrupt, {"columnNameOfCorruptRecord": CORRUPT})
    # What the strict check lets pass and Spark cannot read would be null.
    unread = F.when(parsed[CORRUPT].isNotNull(), "a part of the body has another type than in the schema")
    reason, value = F.coalesce(arrow_column(reasons, "string")(column), unread), parsed.dropFields(CORRUPT)
    if on_error == RAISE:
        raised = F.raise_error(F.concat(F.lit("a body cannot be decoded: "), reason)).cast(fields)
        return F.when(reason.isNull(), value).otherwise(raised)
    return F.struct(F.when(reason.isNull(), value).alias("value"), reason.alias("error"))


def from_schema(
    body: Column | str,
    schema: Schema,
    *,
    registry: SchemaRegistry | None = None,
    id: Column | None = None,
    on_error: str = REPORT,
) -> Column:
    """``from_avro``, ``from_protobuf`` or ``from_json``, by the type of a schema of the registry."""
    if schema.type == JSON:
        return from_json(body, schema, on_error=on_error)
    if schema.type == AVRO:
        return from_avro(body, schema, registry=registry, id=id, on_error=on_error)
    return from_protobuf(body, schema, registry=registry, id=id, on_error=on_error)


def to_avro(value: Column | str, schema: str | Schema) -> Column:
    """A struct as Avro, for the body of a message. A row that does not match the schema fails the query."""
    return encoded_column(_avro(schema, None), value)


def to_protobuf(value: Column | str, schema: str | Schema, message: str = "") -> Column:
    """A struct as Protobuf, for the body of a message. Fields are matched by name; null leaves a field unset."""
    return encoded_column(_protobuf(schema, message, None), value)


def _decoded(
    codec: Codec, body: Column | str, registry: SchemaRegistry | None, id: Column | None, on_error: str
) -> Column:
    if registry is None:
        if id is not None:
            raise OptionError("id is given without a registry; pass the SchemaRegistry to look it up in")
        return decoded_column(codec, body, None, on_error)
    return decoded_column(codec, body, schema_id() if id is None else id, on_error)


def _avro(schema: str | Schema, registry: SchemaRegistry | None) -> Codec:
    from leveret.spark.avro_codec import AvroCodec  # needs fastavro

    return AvroCodec(_checked(schema, AVRO), registry)


def _protobuf(schema: str | Schema, message: str, registry: SchemaRegistry | None) -> Codec:
    from leveret.spark.protobuf_codec import ProtobufCodec  # needs protobuf

    return ProtobufCodec(_checked(schema, PROTOBUF, message), registry)


def _checked(schema: str | Schema, type_: str, message: str = "") -> Schema:
    if isinstance(schema, str):
        return checked_schema(type_, schema, message)
    if schema.type != type_:
        raise OptionError(f"the schema is of type {schema.type}, not {type_}; use from_{schema.type}")
    return schema
