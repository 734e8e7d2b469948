"""Protobuf schemas: the messages of a serialized FileDescriptorSet, as ``protoc --descriptor_set_out`` writes it.

Only what the compatibility of data depends on is read: field numbers, types and labels. The broker does not need the
protobuf package for this; its binary format is read here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

from leveret.schemas.errors import SchemaError

# Numbers of fields in descriptor.proto.
FILE = 1
FILE_PACKAGE, FILE_MESSAGES, FILE_ENUMS = 2, 4, 5
NAME, MESSAGE_FIELDS, NESTED, NESTED_ENUMS = 1, 2, 3, 4
NUMBER, LABEL, TYPE, TYPE_NAME = 3, 4, 5, 6
REQUIRED, REPEATED = 2, 3
GROUP, MESSAGE, ENUM = 10, 11, 14
TYPES = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message"),
    *("bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
DEEPEST = 32
LONGEST_NAME = 1_000  # characters, with the package and the messages around: it is repeated for each name inside
Values = dict[int, list[int | bytes]]


@dataclass(frozen=True, slots=True)
class ProtoField:
    name: str
    number: int
    kind: int  # index of TYPES
    label: int
    type_name: str  # full name of a message or enum

    def __str__(self) -> str:
        repeated = "repeated " if self.label == REPEATED else ""
        return f"{repeated}{self.type_name:.80}" if self.type_name else f"{repeated}{TYPES[self.kind]}"


@dataclass(slots=True)
class ProtoFiles:
    messages: dict[str, tuple[ProtoField, ...]] = field(default_factory=dict)
    enums: set[str] = field(default_factory=set)


def parse_protobuf(text: str, message: str) -> ProtoFiles:
    """``text`` is base64. SchemaError: it is no FileDescriptorSet, lacks an import, or does not define the message."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SchemaError("the Protobuf schema is not base64: encode the file that protoc wrote") from None
    found = ProtoFiles()
    for file in _parts(_values(data), FILE):
        values = _values(file)
        _collect(found, values, _text(values, FILE_PACKAGE), FILE_MESSAGES, FILE_ENUMS, 0)
    if message not in found.messages:
        known = ", ".join(sorted(found.messages)[:10]) or "none"
        raise SchemaError(f"the Protobuf schema has no message {message!r:.80}: it defines {known}")
    _refuse_unresolved(found)
    return found


def _collect(found: ProtoFiles, values: Values, scope: str, messages: int, enums: int, depth: int) -> None:
    if depth > DEEPEST:
        raise SchemaError(f"the Protobuf schema nests messages deeper than {DEEPEST} levels")
    for enum in _parts(values, enums):
        found.enums.add(_join(scope, _text(_values(enum), NAME)))
    for message in _parts(values, messages):
        inner = _values(message)
        name = _join(scope, _text(inner, NAME))
        found.messages[name] = tuple(_field(_values(each)) for each in _parts(inner, MESSAGE_FIELDS))
        _collect(found, inner, name, NESTED, NESTED_ENUMS, depth + 1)


def _field(values: Values) -> ProtoField:
    kind = _number(values, TYPE)
    if not 1 <= kind < len(TYPES):
        raise SchemaError(f"the Protobuf schema has a field of the unknown type {kind}")
    type_name = _text(values, TYPE_NAME).removeprefix(".")
    return ProtoField(_text(values, NAME), _number(values, NUMBER), kind, _number(values, LABEL), type_name)


def _refuse_unresolved(found: ProtoFiles) -> None:
    for name, fields in found.messages.items():
        for each in fields:
            known = found.enums if each.kind == ENUM else found.messages
            if each.kind in (GROUP, MESSAGE, ENUM) and each.type_name not in known:
                raise SchemaError(
                    f"the Protobuf schema lacks {each.type_name!r:.80}, the type of {name}.{each.name:.80}: call "
                    "protoc with --include_imports"
                )


# ---- the binary format


def _values(data: bytes) -> Values:
    found: Values = {}
    for number, value in _decoded(data):
        found.setdefault(number, []).append(value)
    return found


def _decoded(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _damaged()
        if at + size > len(data):
            raise _damaged()
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise _damaged()


def _damaged() -> SchemaError:
    return SchemaError("the Protobuf schema is not a FileDescriptorSet: encode the file that protoc wrote")


def _parts(values: Values, number: int) -> list[bytes]:
    found = values.get(number, [])
    if not all(isinstance(each, bytes) for each in found):
        raise _damaged()
    return found  # type: ignore[return-value]


def _text(values: Values, number: int) -> str:
    parts = _parts(values, number)
    try:
        return parts[-1].decode() if parts else ""
    except UnicodeDecodeError:
        raise _damaged() from None


def _number(values: Values, number: int) -> int:
    found = values.get(number, [0])[-1]
    if not isinstance(found, int):
        raise _damaged()
    return found


def _join(scope: str, name: str) -> str:
    if len(scope) + len(name) >= LONGEST_NAME:
        raise SchemaError(
            f"the Protobuf schema has the name {name!r:.80}, which is longer than {LONGEST_NAME} characters"
        )
    return f"{scope}.{name}" if scope else name
