"""What is checked of an Avro schema when it is added to the registry, beyond what is needed to read it.

A schema that fastavro refuses, or that no value can match, would fail every message that refers to it. Schemas that are
stored already are not checked again.
"""

from __future__ import annotations

from typing import Any

from leveret.schemas.avro import NAME, AvroType, parsed_avro, shortened
from leveret.schemas.errors import SchemaError

RANGES = {"int": 1 << 31, "long": 1 << 63}
MOST_STEPS = 50_000  # to compare all defaults with their types
DEEPEST_DEFAULT = 64  # types inside each other
MOST_FIELDS = 100_000  # of a record and of those inside it, each counted wherever it is used


def check_avro(text: str) -> None:
    """SchemaError: the text is not an Avro schema, or not one that can be used."""
    parsed = parsed_avro(text)
    for problem in parsed.problems:
        raise SchemaError(f"the Avro schema {problem}")
    for kind in parsed.named.values():
        if kind.kind == "enum":
            _refuse_bad_symbols(kind)
        elif kind.kind == "fixed" and kind.logical == "decimal":
            _refuse_large_decimal(kind)
    records = [kind for kind in parsed.named.values() if kind.kind == "record"]
    _refuse_endless(records)
    _refuse_many_fields(records)
    _refuse_empty_items(parsed.arrays, records)
    defaults = _Defaults()
    for record, name, kind, value in parsed.defaults:
        if not defaults.fits(kind, value):
            raise SchemaError(
                f"the default {value!r:.80} of the field '{shortened(name)}' of '{shortened(record)}' is not of the "
                f"type {kind}"
            )


def _refuse_bad_symbols(enum: AvroType) -> None:
    bad = next((symbol for symbol in enum.symbols if not NAME.fullmatch(symbol)), None)
    if bad is not None:
        raise SchemaError(f"the symbol {bad!r:.80} of the Avro {enum} is invalid: use letters, digits and underscores")
    if len({*enum.symbols}) < len(enum.symbols):
        raise SchemaError(f"the Avro {enum} has a symbol twice: remove one of them")


def _refuse_large_decimal(fixed: AvroType) -> None:
    """The largest number of ``size`` bytes, as a complement of two, has to have as many digits."""
    digits = len(str(1 << min(8 * fixed.size - 1, 10_000))) - 1 if fixed.size else 0
    if fixed.precision > digits:
        raise SchemaError(
            f"the Avro {fixed} has {fixed.size} bytes, which is not enough for decimals of {fixed.precision} digits"
        )


def _refuse_endless(records: list[AvroType]) -> None:
    finite: set[AvroType] = set()
    left = records
    while left:  # in turn forwards and backwards: a record refers to earlier ones, and contains later ones
        before = len(left)
        for record in left:
            if all(_is_finite(field.type, finite) for field in record.fields):
                finite.add(record)
        left = [record for record in reversed(left) if record not in finite]
        if len(left) == before:
            raise SchemaError(
                f"the Avro {left[-1]} contains itself in each of its values, which have no end: put a union with null, "
                "an array or a map between"
            )


def _is_finite(kind: AvroType, finite: set[AvroType]) -> bool:
    if kind.kind == "union":
        return any(_is_finite(branch, finite) for branch in kind.inner)
    return kind.kind != "record" or kind in finite


def _refuse_many_fields(records: list[AvroType]) -> None:
    """A record that has another one twice, which has another one twice, and so on, would be a value of any size, even
    from an empty body. Recursive records are left out: their size is that of the body."""
    sizes: dict[AvroType, int] = {}
    left = records
    while left:
        before = len(left)
        for record in left:
            parts = [_fields_in(field.type, sizes) for field in record.fields]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                sizes[record] = len(parts) + sum(known)
                if sizes[record] > MOST_FIELDS:
                    raise SchemaError(
                        f"the Avro {record} has more than {MOST_FIELDS} fields, with those of the records inside it, "
                        "counted wherever they are used: divide it"
                    )
        left = [record for record in reversed(left) if record not in sizes]
        if len(left) == before:
            return


def _fields_in(kind: AvroType, sizes: dict[AvroType, int]) -> int | None:
    """None: not known yet."""
    if kind.kind == "record":
        return sizes.get(kind)
    parts = [_fields_in(inner, sizes) for inner in kind.inner]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _refuse_empty_items(arrays: list[AvroType], records: list[AvroType]) -> None:
    """Refuse an array of values without bytes: a body of five bytes could have millions of them."""
    empty: set[AvroType] = set()
    before = -1
    while len(empty) > before:
        before = len(empty)
        for record in records:
            if all(_is_empty(field.type, empty) for field in record.fields):
                empty.add(record)
    for array in arrays:
        if _is_empty(array.inner[0], empty):
            raise SchemaError(
                f"the Avro schema has an array of {array.inner[0]}, whose values have no bytes: a short body could "
                "have any number of them; use a long for their number"
            )


def _is_empty(kind: AvroType, empty: set[AvroType]) -> bool:
    return kind.kind == "null" or (kind.kind == "fixed" and not kind.size) or kind in empty


class _Defaults:
    """Compares defaults with types, in a bounded number of steps: each branch of a union may have to be tried."""

    def __init__(self) -> None:
        self._steps = 0
        self._symbols: dict[AvroType, frozenset[str]] = {}

    def fits(self, kind: AvroType, value: Any, depth: int = 0) -> bool:
        """Whether the value, as JSON, is a default of this type."""
        self._steps += 1
        if self._steps > MOST_STEPS or depth > DEEPEST_DEFAULT:
            raise SchemaError("the defaults of the Avro schema are too complex: use smaller ones, and smaller unions")
        depth += 1
        if kind.kind == "union":
            return any(self.fits(branch, value, depth) for branch in kind.inner)
        if kind.kind == "array":
            return isinstance(value, list) and all(self.fits(kind.inner[0], each, depth) for each in value)
        if kind.kind == "map":
            return isinstance(value, dict) and all(self.fits(kind.inner[0], each, depth) for each in value.values())
        if kind.kind == "record":
            return isinstance(value, dict) and all(
                self.fits(field.type, value[field.name], depth) if field.name in value else field.has_default
                for field in kind.fields
            )
        if kind.kind == "enum":
            return isinstance(value, str) and value in self._symbols_of(kind)
        return _fits_simple(kind, value)

    def _symbols_of(self, enum: AvroType) -> frozenset[str]:
        if enum not in self._symbols:
            self._symbols[enum] = frozenset(enum.symbols)
        return self._symbols[enum]


def _fits_simple(kind: AvroType, value: Any) -> bool:
    if kind.kind == "null":
        return value is None
    if kind.kind == "boolean" or isinstance(value, bool):
        return kind.kind == "boolean" and isinstance(value, bool)
    if kind.kind in RANGES:
        return isinstance(value, int) and -RANGES[kind.kind] <= value < RANGES[kind.kind]
    if kind.kind in ("float", "double"):
        return isinstance(value, int | float)
    return isinstance(value, str) and (kind.kind != "fixed" or len(value) == kind.size)
