"""Schemas that are small, and that take much time or memory to be checked or compared."""

from __future__ import annotations

import base64
import json
from typing import Any


def record(name: str, *fields: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: object, **more: object) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def default_of_many_branches(depth: int) -> str:
    """A default that does not fit, in two records that contain each other: each level doubles the attempts."""
    value: dict[str, Any] = {"n": "bad"}
    for _ in range(depth):
        value = {"n": value}
    both = record("A", field("n", ["null", "A", record("B", field("n", ["null", "A", "B"]))]))
    return json.dumps(record("T", field("a", both), field("z", ["A", "B"], default=value)))


def repeated_namespace(size: int, number: int) -> str:
    """Aliases of one letter, each in a namespace of ``size`` bytes."""
    return json.dumps({"type": "fixed", "name": "F", "size": 1, "namespace": "n" * size, "aliases": ["a"] * number})


def many_missing_fields(depth: int, size: int, number: int) -> tuple[str, str]:
    """A reader and a writer: at each of ``depth`` levels ``number`` fields are missing, below a name of ``size`` bytes
    for each level."""
    inner: list[Any] = [record("n0.A", field("k", "int"))]
    inner += [record(f"n{level}.A", field("n", _array(f"n{level - 1}.A"))) for level in range(1, depth)]
    writer = record("top.A", field("defined", inner), field("n", _array(f"n{depth - 1}.A")))
    missing = [field(f"f{place}", "int") for place in range(number)]
    reader = record("A", field("x" * size, _array("A"), aliases=["n"]), *missing)
    return json.dumps(reader, separators=(",", ":")), json.dumps(writer, separators=(",", ":"))


def _array(items: str) -> dict[str, str]:
    return {"type": "array", "items": items}


def nested_in_a_long_name(size: int, number: int) -> str:
    """A FileDescriptorSet: messages in a message whose name has ``size`` bytes."""
    inner = b"".join(_part(3, _part(1, b"%x" % place)) for place in range(number))
    return base64.b64encode(_part(1, _part(4, _part(1, b"P" * size) + inner))).decode()


def _part(number: int, data: bytes) -> bytes:
    """A field of Protobuf."""
    length, rest = b"", len(data)
    while rest >= 0x80:
        length += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return bytes([number << 3 | 2]) + length + bytes([rest]) + data
