"""FileDescriptorSets, as protoc would write them."""

from __future__ import annotations

import base64

from google.protobuf import descriptor_pb2, timestamp_pb2

FieldProto = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in FieldProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
LABELS = {"optional": 1, "required": 2, "repeated": 3}


def files(enums: dict[str, list[str]] | None = None, syntax: str = "proto3", **messages: list[str]) -> str:
    """One file of the package ``shop``. A field is written as in .proto: ``repeated string tags = 3``."""
    every = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(every.file.add())
    file = every.file.add(name="shop.proto", package="shop", syntax=syntax)
    file.dependency.append("google/protobuf/timestamp.proto")
    for name, symbols in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for number, symbol in enumerate(symbols):
            enum.value.add(name=symbol, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(message, text, enums or {})
    return base64.b64encode(every.SerializeToString()).decode()


def _add_field(message: descriptor_pb2.DescriptorProto, text: str, enums: dict[str, list[str]]) -> None:
    words = text.replace("=", " ").split()
    label = LABELS[words.pop(0)] if words[0] in LABELS else 1
    kind, name, number = words
    field = message.field.add(name=name, number=int(number), label=label)
    if kind.startswith("map:"):
        _, key, value = kind.split(":")
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        _add_field(entry, f"{key} key = 1", enums)
        _add_field(entry, f"{value} value = 2", enums)
        field.label, field.type, field.type_name = 3, FieldProto.TYPE_MESSAGE, f".shop.{message.name}.{entry.name}"
    elif kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type = FieldProto.TYPE_ENUM if kind in enums else FieldProto.TYPE_MESSAGE
        field.type_name = f".{kind}" if "." in kind else f".shop.{kind}"
        return
    if text.startswith("optional") and message.options.map_entry is False:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
