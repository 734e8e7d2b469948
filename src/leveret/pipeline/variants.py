"""Spark's VARIANT values: JSON-like values of any type, in the binary encoding of Parquet's specification.

A value begins with a byte whose two lowest bits tell a scalar, a short text, an object or an array; the other six bits
tell the type of a scalar, the length of a text, or the widths of the numbers that follow. The names of fields are in
the metadata, a list of texts. All numbers are little-endian. The bytes are untrusted: the values of an array may
overlap, so their number and their decoded size are limited, not only the bytes of the variant.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct, error
from typing import Any

SCALAR, SHORT_TEXT, OBJECT, ARRAY = range(4)
BINARY, TEXT = 15, 16
MOST_VALUES = 10_000
DEEPEST = 32
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidVariant(ValueError):
    """The bytes are damaged, or have a type that cannot be sent."""


def _number(layout: str) -> Callable[[bytes, int], Any]:
    unpack = Struct(layout).unpack_from
    return lambda data, at: unpack(data, at)[0]


def _decimal(width: int) -> Callable[[bytes, int], Decimal]:
    def decode(data: bytes, at: int) -> Decimal:
        digits = int.from_bytes(_cut(data, at + 1, width), "little", signed=True)
        return Decimal(digits).scaleb(-data[at])

    return decode


def _time(data: bytes, at: int) -> datetime:
    return EPOCH + timedelta(microseconds=int.from_bytes(_cut(data, at, 8), "little", signed=True))


SCALARS: dict[int, Callable[[bytes, int], object]] = {
    0: lambda data, at: None,
    1: lambda data, at: True,
    2: lambda data, at: False,
    3: _number("<b"),
    4: _number("<h"),
    5: _number("<i"),
    6: _number("<q"),
    7: _number("<d"),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    12: _time,
    13: _time,  # without a time zone: taken as UTC
    14: _number("<f"),
}


class Budget:
    """Bytes that the values of some variants may have together: each value at least one, and those of its text."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def reset(self) -> None:
        self._left = self._most

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise InvalidVariant(f"the values of variants have more than {self._most} bytes")


def variant_of(value: bytes, metadata: bytes, budget: Budget) -> object:
    """The Python value; InvalidVariant if there is none."""
    try:
        return _Decoder(value, _Names(metadata), budget).value_at(0, 0)
    except (IndexError, error, ValueError, OverflowError) as problem:
        raise InvalidVariant(f"a variant is damaged: {problem}") from None


class _Decoder:
    def __init__(self, data: bytes, names: _Names, budget: Budget) -> None:
        self._data = data
        self._names = names
        self._budget = budget
        self._values = 0

    def value_at(self, at: int, depth: int) -> object:
        self._values += 1
        if self._values > MOST_VALUES or depth > DEEPEST:
            raise InvalidVariant(f"more than {MOST_VALUES} values, or nested deeper than {DEEPEST}")
        self._budget.spend(1)
        kind, header = self._data[at] & 3, self._data[at] >> 2
        if kind == SCALAR:
            return self._scalar(header, at + 1)
        if kind == SHORT_TEXT:
            return self._cut(at + 1, header).decode()
        if kind == OBJECT:
            return self._object(header, at + 1, depth)
        number, at = self._length(at + 1, is_large=bool(header & 4))
        offsets, first = self._offsets(at, (header & 3) + 1, number)
        return [self.value_at(first + offset, depth + 1) for offset in offsets]

    def _scalar(self, kind: int, at: int) -> object:
        if kind in (BINARY, TEXT):
            raw = self._cut(at + 4, _unsigned(self._data, at, 4))
            return raw if kind == BINARY else raw.decode()
        decode = SCALARS.get(kind)
        if decode is None:
            raise InvalidVariant(f"values of its type {kind} cannot be sent; cast them to string or timestamp")
        return decode(self._data, at)

    def _object(self, header: int, at: int, depth: int) -> dict[str, object]:
        width = (header >> 2 & 3) + 1  # of the ids of the fields
        number, at = self._length(at, is_large=bool(header & 16))
        ids = _numbers(self._data, at, width, number)
        offsets, first = self._offsets(at + number * width, (header & 3) + 1, number)
        found: dict[str, object] = {}
        for id_, offset in zip(ids, offsets, strict=True):
            name = self._names.name(id_)
            self._budget.spend(len(name))
            found[name] = self.value_at(first + offset, depth + 1)
        return found

    def _offsets(self, at: int, width: int, number: int) -> tuple[list[int], int]:
        """The place of each value, relative to that of the first, which is returned as well."""
        return _numbers(self._data, at, width, number), at + (number + 1) * width

    def _length(self, at: int, *, is_large: bool) -> tuple[int, int]:
        width = 4 if is_large else 1
        number = _unsigned(self._data, at, width)
        if number > MOST_VALUES:
            raise InvalidVariant(f"more than {MOST_VALUES} values")
        return number, at + width

    def _cut(self, at: int, length: int) -> bytes:
        self._budget.spend(length)
        return _cut(self._data, at, length)


class _Names:
    """The names of fields, in the metadata, which may have many more than one variant uses."""

    def __init__(self, metadata: bytes) -> None:
        self._data = metadata
        self._width = (metadata[0] >> 6) + 1
        self._number = _unsigned(metadata, 1, self._width)

    def name(self, id_: int) -> str:
        if id_ >= self._number:
            raise InvalidVariant(f"it has no name {id_}")
        start, end = _numbers(self._data, 1 + self._width * (1 + id_), self._width, 2)
        first = 1 + self._width * (self._number + 2)
        return _cut(self._data, first + start, end - start).decode()


def _numbers(data: bytes, at: int, width: int, number: int) -> list[int]:
    if at + number * width > len(data):
        raise InvalidVariant("it ends too early")
    return [_unsigned(data, place, width) for place in range(at, at + number * width, width)]


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_cut(data, at, width), "little")


def _cut(data: bytes, at: int, length: int) -> bytes:
    if length < 0 or at + length > len(data):
        raise InvalidVariant("it ends too early")
    return data[at : at + length]
