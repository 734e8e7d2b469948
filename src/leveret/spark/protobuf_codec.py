"""Protobuf bodies as Python values, and back."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

from pyspark.sql.types import StructType

from leveret.schemas.errors import SchemaError
from leveret.schemas.schema import PROTOBUF, Schema
from leveret.spark.body_columns import DecodingError, missing_extra, writer_of
from leveret.spark.errors import OptionError
from leveret.spark.schema_registry import SchemaRegistry

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError, EncodeError, Message
except ImportError as problem:
    raise missing_extra("protobuf", "protobuf") from problem

from leveret.schemas.schema import unreadable
from leveret.spark.protobuf_types import fill, row_of, type_of_message


class ProtobufCodec:
    """Reads bodies as the message of ``schema``. Protobuf needs no schema of the writer to read a body; it is looked up
    only to refuse a body of another type, or of a version that cannot be read with this one."""

    def __init__(self, schema: Schema, registry: SchemaRegistry | None = None) -> None:
        self.schema, self._registry = schema, registry

    @property
    def type(self) -> StructType:
        self.refuse_unusable()
        return type_of_message(_class_of(self.schema).DESCRIPTOR)

    def refuse_unusable(self) -> None:
        try:
            _class_of(self.schema)
        except (TypeError, ValueError, LookupError) as problem:
            raise OptionError(f"the Protobuf schema cannot be used to read bodies: {problem}; correct it") from problem

    def decode(self, body: bytes, schema_id: str | None) -> dict[str, Any]:
        writer = writer_of(self.schema, self._registry, schema_id, PROTOBUF)
        if reason := _reason(self.schema, writer):
            raise DecodingError(f"schema ID '{schema_id}' cannot be read with this schema: {reason}")
        message = _class_of(self.schema)()
        try:
            message.ParseFromString(body)
        except DecodeError as error:
            raise DecodingError(f"the body is not a {self.schema.message}: {error}") from error
        return row_of(message)

    def encode(self, value: Any) -> bytes:
        message = _class_of(self.schema)()
        fill(message, value)
        try:
            return bytes(message.SerializeToString())
        except EncodeError as error:
            raise ValueError(f"the row is not a whole {self.schema.message}: {error}") from error


@lru_cache(maxsize=1_000)
def _reason(reader: Schema, writer: Schema) -> str:
    try:
        return "" if reader == writer else "; ".join(unreadable(reader, writer)[:1])
    except SchemaError as problem:  # kept like any other reason: the comparison took long
        return str(problem)


@lru_cache(maxsize=1_000)
def _class_of(schema: Schema) -> type[Message]:
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema.text))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.message))
    return found
