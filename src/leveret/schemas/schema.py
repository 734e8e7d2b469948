"""A schema of message bodies: its type, its text, and an ID that follows from both.

The ID is a fingerprint, so the same schema has the same ID in every virtual host, broker and import. Messages refer to
it in the header ``x-schema-id``, or in their content type: ``avro/binary; schema=ID``.

A schema that cannot be read by consumers of another one is *incompatible*, in one or both directions::

    backward    the new version reads data of the version before
    forward     the version before reads data of the new one
    full        both
    none        not checked
"""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from typing import NamedTuple

from leveret.schemas.avro import parse_avro
from leveret.schemas.avro_compatibility import unreadable_avro
from leveret.schemas.avro_rules import check_avro
from leveret.schemas.ddl import parse_ddl
from leveret.schemas.ddl_compatibility import unreadable_ddl
from leveret.schemas.ddl_rules import check_ddl
from leveret.schemas.errors import SchemaError
from leveret.schemas.protobuf import parse_protobuf
from leveret.schemas.protobuf_compatibility import unreadable_protobuf
from leveret.schemas.resolution import MOST_PROBLEMS

AVRO, PROTOBUF, JSON = "avro", "protobuf", "json"
TYPES = (AVRO, PROTOBUF, JSON)
MODES = ("backward", "forward", "full", "none")
HEADER = "x-schema-id"
LARGEST = 64 << 10  # bytes of a text
LARGEST_MESSAGE = 500  # bytes of the name of a Protobuf message


class Schema(NamedTuple):
    """``text``: JSON of Avro, base64 of a FileDescriptorSet, or Spark's DDL. ``message``: for Protobuf only."""

    type: str
    text: str
    message: str = ""

    @property
    def id(self) -> str:
        return hashlib.sha256("\0".join((self.type, self.message, self.text)).encode()).hexdigest()[:16]


def checked_schema(type_: str, text: str, message: str = "") -> Schema:
    """The schema without insignificant white space. SchemaError: it is invalid."""
    if type_ not in TYPES:
        raise SchemaError(f"unknown schema type {type_!r:.80}: choose one of {', '.join(TYPES)}")
    if (type_ == PROTOBUF) != bool(message):
        raise SchemaError("name the message of a Protobuf schema in 'message', and only there")
    _refuse_large(text, message)
    schema = Schema(type_, " ".join(text.split("\n")).strip() if type_ == JSON else text.strip(), message)
    if type_ == AVRO:
        check_avro(text)
        schema = schema._replace(text=_compact(text))
        _refuse_large(schema.text, message)  # again: characters were unescaped, and numbers written in full
        return schema
    if type_ == PROTOBUF:
        parse_protobuf(schema.text, message)
    else:
        check_ddl(schema.text)
    return schema


def _refuse_large(text: str, message: str) -> None:
    try:
        size = len(text.encode())
        is_large = size > LARGEST or len(message.encode()) > LARGEST_MESSAGE
    except UnicodeEncodeError as problem:
        raise SchemaError(f"the schema has text that is not Unicode, as half a surrogate pair: {problem}") from None
    if is_large:
        raise SchemaError(f"the schema has {size} bytes: at most {LARGEST} are stored; split it, or leave out docs")


def _compact(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as problem:
        raise SchemaError(f"the Avro schema is not JSON, or nested too deeply: {problem}") from None


def incompatibilities(new: Schema, before: Schema, mode: str) -> list[str]:
    """The reasons why ``new`` may not follow ``before``; at most MOST_PROBLEMS."""
    if new == before or mode == "none":
        return []
    if new.type != before.type:
        return [f"the type changed from {before.type} to {new.type}: use another name"]
    found: list[str] = []
    if mode in ("backward", "full"):
        found += [f"data of the version before: {text}" for text in unreadable(new, before)]
    if mode in ("forward", "full"):
        found += [f"data of the new version, read with the version before: {text}" for text in unreadable(before, new)]
    return found[:MOST_PROBLEMS]


def unreadable(reader: Schema, writer: Schema) -> list[str]:
    """The reasons why ``reader`` cannot read data of ``writer``; at most MOST_PROBLEMS."""
    if reader.type == AVRO:
        found = unreadable_avro(parse_avro(reader.text), parse_avro(writer.text))
    elif reader.type == PROTOBUF:
        files = (parse_protobuf(each.text, each.message) for each in (reader, writer))
        found = unreadable_protobuf(next(files), reader.message, next(files), writer.message)
    else:
        found = unreadable_ddl(parse_ddl(reader.text), parse_ddl(writer.text))
    return list(islice(found, MOST_PROBLEMS))
