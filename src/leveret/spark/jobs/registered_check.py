"""Checks of bodies against schemas of the broker's registry: one of a name, or the one that each message refers to.

JSON is checked strictly (json_check.py). Avro and Protobuf are decoded, so a body matches if it can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import DataFrame

from leveret.errors import ConfigError
from leveret.schemas.schema import AVRO, JSON, Schema
from leveret.spark.body_columns import Codec, arrow_column, error_of
from leveret.spark.ddl_types import struct_of_ddl
from leveret.spark.formats import schema_id
from leveret.spark.jobs.json_check import checker_of
from leveret.spark.jobs.text_lengths import too_long
from leveret.spark.schema_registry import SchemaRegistry

NO_REFERENCE = "the message refers to no schema"


def with_registered_reason(messages: DataFrame, registry: SchemaRegistry, named: Schema | None) -> DataFrame:
    """Adds the column ``reason``: null if the body matches. ``named``: None for the schema that a message refers to."""
    if named is not None:
        refuse_unusable(named)

    def reasons(bodies: pa.Array, ids: pa.Array) -> pa.Array:
        pairs = zip(bodies.to_pylist(), ids.to_pylist(), strict=True)
        return pa.array([reason_of(registry, named, body, id_) for body, id_ in pairs], pa.string())

    return messages.withColumn("reason", arrow_column(reasons, "string")("body", schema_id()))


def refuse_unusable(schema: Schema) -> None:
    """Refuse, before the query starts, a schema that no body can be checked with."""
    if schema.type == JSON:
        checker_of(struct_of_ddl(schema.text))
    else:
        _codec_of(schema, None).refuse_unusable()


def reason_of(registry: SchemaRegistry, named: Schema | None, body: bytes | None, id_: str | None) -> str | None:
    schema = named
    if schema is None:
        if id_ is None:
            return NO_REFERENCE
        schema = registry.by_id(id_)
        if schema is None:
            return f"schema ID '{id_[:80]}' is unknown"
    reason = check_of(schema, registry)(body, id_)
    if reason is None and schema.type == JSON and body is not None:
        return too_long(schema.text, body)
    return reason


@lru_cache(maxsize=1_000)
def check_of(schema: Schema, registry: SchemaRegistry) -> Callable[[bytes | None, str | None], str | None]:
    """The function from a body and the ID of its schema to the reason why it does not match."""
    if schema.type == JSON:
        return _json_check(schema)
    codec = _codec_of(schema, registry)
    return lambda body, id_: "the body is missing" if body is None else error_of(codec, body, id_)


def _json_check(schema: Schema) -> Callable[[bytes | None, str | None], str | None]:
    """A schema that messages refer to may have types that cannot be checked: then none of them match."""
    try:
        check = checker_of(struct_of_ddl(schema.text))
    except ConfigError as problem:
        text = f"the schema cannot be checked: {problem}"
        return lambda body, _: text
    return lambda body, _: check(body)


def _codec_of(schema: Schema, registry: SchemaRegistry | None) -> Codec:
    if schema.type == AVRO:
        from leveret.spark.avro_codec import AvroCodec  # needs fastavro

        return AvroCodec(schema, registry)
    from leveret.spark.protobuf_codec import ProtobufCodec  # needs protobuf

    return ProtobufCodec(schema, registry)
