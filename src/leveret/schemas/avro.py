"""Avro schemas as trees of types, parsed from JSON.

Named types (records, enums, fixed) are resolved: a reference is the same object as its definition, so the tree of a
recursive schema has cycles. Attributes that do not matter for decoding (doc, order) are dropped. A schema that is added
to the registry is checked further (avro_rules.py); stored ones, also of earlier versions, only have to be read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from leveret.schemas.errors import SchemaError

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED = frozenset(("record", "error", "enum", "fixed"))
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DEEPEST = 32  # nested types
MOST_SHOWN = 10  # branches of a union in an error
PARSED_BY_FASTAVRO = "__fastavro_parsed"
LONGEST_NAME = 1_000  # characters, with the namespace: it is repeated for each name inside


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
    aliases: frozenset[str] = frozenset()
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
            more = " or ..." if len(self.inner) > MOST_SHOWN else ""
            return " or ".join(map(str, self.inner[:MOST_SHOWN])) + more
        return f"{self.kind} {shortened(self.name)}" if self.name else self.logical or self.kind


class AvroDefault(NamedTuple):
    record: str
    field: str
    type: AvroType
    value: Any


class ParsedAvro(NamedTuple):
    """``problems``: what Avro does not allow, or other implementations refuse, although it can be read here."""

    type: AvroType
    named: dict[str, AvroType]
    arrays: list[AvroType]
    defaults: list[AvroDefault]
    problems: list[str]


def parse_avro(text: str) -> AvroType:
    """SchemaError: the text is not an Avro schema."""
    return parsed_avro(text).type


def parsed_avro(text: str) -> ParsedAvro:
    try:
        node = json.loads(text)
        parser = _Parser()
        return ParsedAvro(parser.parse(node, "", 0), parser.names, parser.arrays, parser.defaults, parser.problems)
    except ValueError as problem:
        raise SchemaError(f"the Avro schema is not JSON: {problem}") from None
    except RecursionError:
        raise SchemaError("the Avro schema is not JSON, or nested too deeply") from None


class _Parser:
    def __init__(self) -> None:
        self.names: dict[str, AvroType] = {}
        self.arrays: list[AvroType] = []
        self.defaults: list[AvroDefault] = []
        self.problems: list[str] = []

    def parse(self, node: Any, namespace: str, depth: int) -> AvroType:
        if depth > DEEPEST:
            raise SchemaError(f"the Avro schema is nested deeper than {DEEPEST} levels: give inner records a name")
        if isinstance(node, str):
            return self._named_or_primitive(node, namespace)
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if not isinstance(node, dict) or "type" not in node:
            raise SchemaError(f"{_short(node)} is not an Avro type: use a name, a list or an object with 'type'")
        if PARSED_BY_FASTAVRO in node:
            self.problems.append(f"has '{PARSED_BY_FASTAVRO}': add the schema as it was before fastavro parsed it")
        kind = node["type"]
        if not isinstance(kind, str):
            self.problems.append(f"has {_short(kind)} as the 'type' of a type: write the inner type alone")
            return self.parse(kind, namespace, depth + 1)
        if kind in NAMED:
            return self._declared(kind, node, namespace, depth)
        if kind in ("array", "map"):
            item = node.get("items" if kind == "array" else "values")
            if item is None:
                raise SchemaError(f"an Avro {kind} is missing '{'items' if kind == 'array' else 'values'}'")
            found = AvroType(kind, inner=(self.parse(item, namespace, depth + 1),))
            if kind == "array":
                self.arrays.append(found)
            return found
        found = self._named_or_primitive(kind, namespace)
        if found.name:
            self.problems.append(f"has {{'type': '{shortened(kind)}'}}: write the name of a defined type alone")
            return found
        return self._with_logical(found, node)

    def _named_or_primitive(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self.names.get(_full(name, namespace))
        if found is None and (found := self.names.get(name)) is not None:
            self.problems.append(
                f"refers to '{shortened(name)}' in the namespace '{shortened(namespace)}', where it is not defined: "
                "define it there"
            )
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
        if len(name) > LONGEST_NAME or not all(NAME.fullmatch(part) for part in name.split(".")):
            raise SchemaError(
                f"the Avro name {_short(name)} is invalid: use letters, digits and underscores, "
                f"and at most {LONGEST_NAME} of them"
            )
        if name in self.names or name in PRIMITIVES:
            raise SchemaError(f"the Avro type '{name}' is defined twice: use its name the second time")
        space = name.rpartition(".")[0]
        found = self.names[name] = AvroType("record" if kind == "error" else kind, name)
        found.aliases = frozenset(_full(alias, space) for alias in _texts(node, "aliases", name))
        if found.kind == "record":
            found.fields = self._fields(node, name, space, depth)
        elif kind == "enum":
            found.symbols = tuple(_texts(node, "symbols", name))
            found.default = node.get("default")
            if not found.symbols or (found.default is not None and found.default not in found.symbols):
                raise SchemaError(f"the Avro enum '{name}' needs symbols, and its default must be one of them")
        else:
            found.size = _whole(node, "size", name)
            self._with_logical(found, node)
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
        if "default" in row:
            self.defaults.append(AvroDefault(record, name, kind, row["default"]))
        return AvroField(name, kind, tuple(_texts(row, "aliases", record)), "default" in row)

    def _with_logical(self, kind: AvroType, node: dict[str, Any]) -> AvroType:
        """A logical type that is unknown or invalid is ignored, as Avro demands."""
        logical = node.get("logicalType")
        if not isinstance(logical, str):
            return kind
        precision, scale = node.get("precision", 0), node.get("scale", 0)
        if logical == "decimal":
            if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision > 0:
                self.problems.append(
                    f"has a decimal with the precision {_short(precision)} and the scale {_short(scale)}: the "
                    "precision is at least 1, the scale from 0 to the precision"
                )
                return kind
            if kind.kind not in ("bytes", "fixed"):
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


def shortened(text: str) -> str:
    return f"{text:.80}"


def _short(value: object) -> str:
    return f"{value!r:.80}"
