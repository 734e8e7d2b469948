"""Avro bodies (the binary encoding, one value without a file header) as Python values, and back."""

from __future__ import annotations

import json
from functools import lru_cache
from io import BytesIO
from typing import Any

from pyspark.sql.types import DataType

from leveret.schemas.avro import parse_avro
from leveret.schemas.schema import AVRO, Schema
from leveret.spark.avro_types import type_of_avro, without_other_logical
from leveret.spark.body_columns import DecodingError, missing_extra, writer_of
from leveret.spark.schema_registry import SchemaRegistry

try:
    import fastavro
except ImportError as problem:
    raise missing_extra("avro", "fastavro") from problem


class AvroCodec:
    """Reads bodies into the type of ``schema``, whichever version of it they were written with."""

    def __init__(self, schema: Schema, registry: SchemaRegistry | None = None) -> None:
        self.schema, self._registry = schema, registry

    @property
    def type(self) -> DataType:
        return type_of_avro(parse_avro(self.schema.text))

    def decode(self, body: bytes, schema_id: str | None) -> Any:
        writer = writer_of(self.schema, self._registry, schema_id, AVRO)
        stream = BytesIO(body)
        reader = _parsed(self.schema.text)
        written = _parsed(writer.text)
        value = fastavro.schemaless_reader(stream, written, None if written is reader else reader)
        if stream.tell() != len(body):
            raise DecodingError(f"the Avro value ends after {stream.tell()} of {len(body)} bytes")
        return value

    def encode(self, value: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, _parsed(self.schema.text), value, strict=True)
        return stream.getvalue()


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(without_other_logical(json.loads(text)))
