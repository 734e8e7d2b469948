"""Avro schemas as trees of types, parsed from JSON.

Named types (records, enums, fixed) are resolved: a reference is the same object as its definition, so the tree of a
recursive schema has cycles. Attributes that do not matter for decoding (doc, order) are dropped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from leveret.schemas.errors import SchemaError

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED = frozenset(("record", "error", "enum", "fixed"))
RANGES = {"int": 1 << 31, "long": 1 << 63}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DEEPEST = 32  # nested types


@dataclass(eq=False, slots=True)
class AvroField:
    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False


@dataclass(eq=False, slots=True)
class AvroType:
    """``inner``: the items of an array, the values of a map, or the branches of a union."""

    kind: str
    name: str = ""  # full name of a record, enum or fixed
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None  # symbol of an enum
    size: int = 0  # of a fixed
    logical: str = ""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "union":
            return " or ".join(map(str, self.inner))
        return f"{self.kind} {self.name}" if self.name else self.logical or self.kind


def parse_avro(text: str) -> AvroType:
    """SchemaError: the text is not an Avro schema."""
    try:
        node = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SchemaError(f"the Avro schema is not JSON: {problem}") from None
    return _Parser().parse(node, "", 0)


class _Parser:
    def __init__(self) -> None:
        self._names: dict[str, AvroType] = {}

    def parse(self, node: Any, namespace: str, depth: int) -> AvroType:
        if depth > DEEPEST:
            raise SchemaError(f"the Avro schema is nested deeper than {DEEPEST} levels: give inner records a name")
        if isinstance(node, str):
            return self._named_or_primitive(node, namespace)
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if not isinstance(node, dict) or "type" not in node:
            raise SchemaError(f"{_short(node)} is not an Avro type: use a name, a list or an object with 'type'")
        kind = node["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace, depth + 1)
        if kind in NAMED:
            return self._declared(kind, node, namespace, depth)
        if kind in ("array", "map"):
            item = node.get("items" if kind == "array" else "values")
            if item is None:
                raise SchemaError(f"an Avro {kind} is missing '{'items' if kind == 'array' else 'values'}'")
            return AvroType(kind, inner=(self.parse(item, namespace, depth + 1),))
        found = self._named_or_primitive(kind, namespace)
        return found if found.name else _with_logical(found, node)

    def _named_or_primitive(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self._names.get(_full(name, namespace)) or self._names.get(name)
        if found is None:
            raise SchemaError(f"the Avro type {_short(name)} is unknown: define it before its first use")
        return found

    def _union(self, node: list[Any], namespace: str, depth: int) -> AvroType:
        branches = tuple(self.parse(branch, namespace, depth + 1) for branch in node)
        names = [branch.name or branch.kind for branch in branches]
        if not branches or "union" in names or len({*names}) < len(names):
            raise SchemaError(f"the Avro union {_short(node)} is invalid: list each type once, and no other union")
        return AvroType("union", inner=branches)

    def _declared(self, kind: str, node: dict[str, Any], namespace: str, depth: int) -> AvroType:
        name = _full(_text(node, "name", f"an Avro {kind}"), node.get("namespace", namespace) or "")
        if not all(NAME.fullmatch(part) for part in name.split(".")):
            raise SchemaError(f"the Avro name {_short(name)} is invalid: use letters, digits and underscores")
        if name in self._names or name in PRIMITIVES:
            raise SchemaError(f"the Avro type '{name}' is defined twice: use its name the second time")
        space = name.rpartition(".")[0]
        found = self._names[name] = AvroType("record" if kind == "error" else kind, name)
        found.aliases = tuple(_full(alias, space) for alias in _texts(node, "aliases", name))
        if found.kind == "record":
            found.fields = self._fields(node, name, space, depth)
        elif kind == "enum":
            found.symbols = tuple(_texts(node, "symbols", name))
            found.default = node.get("default")
            if not found.symbols or (found.default is not None and found.default not in found.symbols):
                raise SchemaError(f"the Avro enum '{name}' needs symbols, and its default must be one of them")
        else:
            found.size = _whole(node, "size", name)
            _with_logical(found, node)
        return found

    def _fields(self, node: dict[str, Any], record: str, namespace: str, depth: int) -> tuple[AvroField, ...]:
        rows = node.get("fields")
        if not isinstance(rows, list):
            raise SchemaError(f"the Avro record '{record}' is missing its list of 'fields'")
        fields = tuple(self._field(row, record, namespace, depth) for row in rows)
        if len({field.name for field in fields}) < len(fields):
            raise SchemaError(f"the Avro record '{record}' has a field twice: rename one of them")
        return fields

    def _field(self, row: Any, record: str, namespace: str, depth: int) -> AvroField:
        if not isinstance(row, dict) or "type" not in row:
            raise SchemaError(f"a field of the Avro record '{record}' is {_short(row)}: give 'name' and 'type'")
        name = _text(row, "name", f"a field of the Avro record '{record}'")
        if not NAME.fullmatch(name):
            raise SchemaError(f"the field {_short(name)} of the Avro record '{record}' has an invalid name")
        kind = self.parse(row["type"], namespace, depth + 1)
        if "default" in row and not fits(kind, row["default"]):
            raise SchemaError(
                f"the default {_short(row['default'])} of the field '{name}' of '{record}' is not of the type {kind}"
            )
        return AvroField(name, kind, tuple(_texts(row, "aliases", record)), "default" in row)


def fits(kind: AvroType, value: Any) -> bool:
    """Whether the value, as JSON, is a default of this type."""
    if kind.kind == "union":
        return any(fits(branch, value) for branch in kind.inner)
    if kind.kind == "array":
        return isinstance(value, list) and all(fits(kind.inner[0], each) for each in value)
    if kind.kind == "map":
        return isinstance(value, dict) and all(fits(kind.inner[0], each) for each in value.values())
    if kind.kind == "record":
        return isinstance(value, dict) and all(
            fits(field.type, value[field.name]) if field.name in value else field.has_default for field in kind.fields
        )
    return _fits_simple(kind, value)


def _fits_simple(kind: AvroType, value: Any) -> bool:
    if kind.kind == "null":
        return value is None
    if kind.kind == "boolean" or isinstance(value, bool):
        return kind.kind == "boolean" and isinstance(value, bool)
    if kind.kind in RANGES:
        return isinstance(value, int) and -RANGES[kind.kind] <= value < RANGES[kind.kind]
    if kind.kind in ("float", "double"):
        return isinstance(value, int | float)
    if kind.kind == "enum":
        return value in kind.symbols
    return isinstance(value, str) and (kind.kind != "fixed" or len(value) == kind.size)


def _with_logical(kind: AvroType, node: dict[str, Any]) -> AvroType:
    """A logical type that is unknown or invalid is ignored, as Avro demands."""
    logical = node.get("logicalType")
    if not isinstance(logical, str):
        return kind
    precision, scale = node.get("precision", 0), node.get("scale", 0)
    if logical == "decimal":
        is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0
        if kind.kind not in ("bytes", "fixed") or not is_valid:
            return kind
        kind.precision, kind.scale = precision, scale
    kind.logical = logical
    return kind


def _full(name: object, namespace: object) -> str:
    return f"{namespace}.{name}" if namespace and "." not in str(name) else str(name)


def _text(node: dict[str, Any], key: str, what: str) -> str:
    value = node.get(key)
    if not isinstance(value, str) or not value:
        raise SchemaError(f"{what} is missing '{key}'")
    return value


def _texts(node: dict[str, Any], key: str, what: str) -> list[str]:
    value = node.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SchemaError(f"'{key}' of '{what}' in the Avro schema must be a list of strings, not {_short(value)}")
    return value


def _whole(node: dict[str, Any], key: str, what: str) -> int:
    value = node.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SchemaError(f"'{key}' of '{what}' in the Avro schema must be a whole number, not {_short(value)}")
    return value


def _short(value: object) -> str:
    return f"{value!r:.80}"
