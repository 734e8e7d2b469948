"""Avro bodies (the binary encoding, one value without a file header) as Python values, and back.

The publisher chooses the body and the ID of its schema, so whatever is wrong with them is an error of the row.
The compiled fastavro has no limit of depth: with a recursive schema, a few kilobytes of body overflow the C stack and
end the process. Recursive schemas are read with its Python version, which raises RecursionError at about 200 levels.
"""

from __future__ import annotations

import json
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from pyspark.sql.types import DataType

from leveret.schemas.avro import parse_avro
from leveret.schemas.errors import SchemaError
from leveret.schemas.schema import AVRO, Schema
from leveret.spark.avro_types import is_recursive, type_of_avro, without_other_logical
from leveret.spark.body_columns import DecodingError, missing_extra, writer_of
from leveret.spark.errors import OptionError
from leveret.spark.schema_registry import SchemaRegistry

try:
    import fastavro
    from fastavro import _read_py as slow_fastavro
    from fastavro.read import SchemaResolutionError
    from fastavro.schema import SchemaParseException
except ImportError as problem:
    raise missing_extra("avro", "fastavro") from problem


class AvroCodec:
    """Reads bodies into the type of ``schema``, whichever version of it they were written with."""

    def __init__(self, schema: Schema, registry: SchemaRegistry | None = None) -> None:
        self.schema, self._registry = schema, registry

    @property
    def type(self) -> DataType:
        found = type_of_avro(parse_avro(self.schema.text))
        self.refuse_unusable()
        return found

    def refuse_unusable(self) -> None:
        try:
            _parsed(self.schema.text)
        except DecodingError as problem:
            raise OptionError(f"{problem}; correct the schema") from problem

    def decode(self, body: bytes, schema_id: str | None) -> Any:
        writer = writer_of(self.schema, self._registry, schema_id, AVRO)
        stream = BytesIO(body)
        reader = _parsed(self.schema.text)
        written = _parsed(writer.text)
        read = slow_fastavro.schemaless_reader if written.is_recursive else fastavro.schemaless_reader
        try:
            value = read(stream, written.schema, None if written is reader else reader.schema)
        except SchemaResolutionError as problem:
            raise DecodingError(f"the body cannot be read with this schema: {problem}") from problem
        if stream.tell() != len(body):
            raise DecodingError(f"the Avro value ends after {stream.tell()} of {len(body)} bytes")
        return value

    def encode(self, value: Any) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, _parsed(self.schema.text).schema, value, strict=True)
        return stream.getvalue()


class Parsed(NamedTuple):
    schema: Any
    is_recursive: bool


def _parsed(text: str) -> Parsed:
    """DecodingError: fastavro refuses the schema."""
    found = _parse(text)
    if isinstance(found, str):
        raise DecodingError(f"the Avro schema cannot be used to read bodies: {found}")
    return found


@lru_cache(maxsize=1_000)
def _parse(text: str) -> Parsed | str:
    """The schema, or the reason why fastavro refuses it: a reason is kept as well, for the next body."""
    try:
        schema = fastavro.parse_schema(without_other_logical(json.loads(text)))
        return Parsed(schema, is_recursive(parse_avro(text)))
    except (SchemaParseException, SchemaError, LookupError, TypeError, ValueError, RecursionError) as problem:
        return str(problem)
