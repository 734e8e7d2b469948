"""Field tables and strings of AMQP 0-9-1, with the type letters RabbitMQ uses.

    t bool     b int8    B uint8    s int16   u uint16   I int32   i uint32   l int64   L uint64
    f float    d double  D decimal  S long string        x bytes   A array    T time    F table   V void

Every ``decode_*`` takes (data, offset, end) with ``end <= len(data)``, reads nothing at or after ``end`` and returns
the value with the offset after it. Malformed values, nesting that is too deep and too many fields
always raise FrameError, and nothing else. Encoding has the same limits, so every encoded value can also be decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct
from sys import getsizeof
from typing import Any, TypeAlias

from leveret.errors import FrameError
from leveret.wire.constants import MAX_SHORT_STRING, MAX_TABLE_DEPTH, MAX_TABLE_FIELDS

FieldValue: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | datetime | list[FieldValue] | dict[str, FieldValue] | None"
)
Table: TypeAlias = dict[str, FieldValue]

UINT8 = Struct(">B")
UINT16 = Struct(">H")
UINT32 = Struct(">I")
UINT64 = Struct(">Q")
INT32 = Struct(">i")
INT64 = Struct(">q")
DOUBLE = Struct(">d")
DECIMAL = Struct(">Bi")  # places after the point, then all digits as a signed number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LAST_SECOND = 253402300799  # the end of year 9999, the limit of datetime

NUMBERS = {ord(letter): Struct(f">{code}") for letter, code in zip("bBsuIilLfd", "bBhHiIqQfd", strict=True)}


class FarTime(int):
    """A timestamp beyond year 9999, in seconds, usually of a publisher that counts in milliseconds. It is passed on
    unchanged; datetime cannot represent it."""


class Quota:
    """Counts depth and fields of one top-level table against the limits; shared by all tables and arrays inside it."""

    __slots__ = ("depth", "fields")

    def __init__(self) -> None:
        self.depth = 0
        self.fields = 0

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_TABLE_DEPTH:
            raise FrameError(f"table nested deeper than {MAX_TABLE_DEPTH}")

    def leave(self) -> None:
        self.depth -= 1

    def count(self) -> None:
        self.fields += 1
        if self.fields > MAX_TABLE_FIELDS:
            raise FrameError(f"table with more than {MAX_TABLE_FIELDS} fields")


# --- numbers and strings


def pack(layout: Struct, *values: object) -> bytes:
    """Pack numbers; one that is out of range raises FrameError instead of struct.error."""
    try:
        return layout.pack(*values)
    except (struct.error, OverflowError) as error:
        raise FrameError(f"value does not fit: {error}") from None


def take(layout: Struct, data: bytes, offset: int, end: int) -> tuple[Any, ...]:
    """Unpack the values at ``offset``; they must end at or before ``end``."""
    if offset + layout.size > end:
        raise FrameError("truncated")
    return layout.unpack_from(data, offset)


def expect_end(offset: int, end: int) -> None:
    if offset != end:
        raise FrameError(f"{end - offset} bytes too many")


def encode_octet(value: int) -> bytes:
    return pack(UINT8, value)


def decode_octet(data: bytes, offset: int, end: int) -> tuple[int, int]:
    return take(UINT8, data, offset, end)[0], offset + 1


def encode_uint16(value: int) -> bytes:
    return pack(UINT16, value)


def decode_uint16(data: bytes, offset: int, end: int) -> tuple[int, int]:
    return take(UINT16, data, offset, end)[0], offset + 2


def encode_uint32(value: int) -> bytes:
    return pack(UINT32, value)


def decode_uint32(data: bytes, offset: int, end: int) -> tuple[int, int]:
    return take(UINT32, data, offset, end)[0], offset + 4


def encode_uint64(value: int) -> bytes:
    return pack(UINT64, value)


def decode_uint64(data: bytes, offset: int, end: int) -> tuple[int, int]:
    return take(UINT64, data, offset, end)[0], offset + 8


def encode_bits(*bits: bool) -> bytes:
    """Up to eight bits in one octet, the first one lowest."""
    octet = 0
    for place, bit in enumerate(bits):
        if bit:
            octet |= 1 << place
    return UINT8.pack(octet)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except (UnicodeEncodeError, AttributeError):
        raise FrameError(f"a {type(text).__name__} that has no UTF-8 form") from None


def encode_short(text: str) -> bytes:
    raw = _utf8(text)
    if len(raw) > MAX_SHORT_STRING:
        raise FrameError(f"short string of {len(raw)} bytes, at most {MAX_SHORT_STRING} fit")
    return UINT8.pack(len(raw)) + raw


def decode_short(data: bytes, offset: int, end: int) -> tuple[str, int]:
    if offset >= end:
        raise FrameError("truncated")
    start = offset + 1
    stop = start + data[offset]
    if stop > end:
        raise FrameError("short string exceeds the remaining data")
    try:
        return data[start:stop].decode(), stop
    except UnicodeDecodeError:
        raise FrameError("short string is not UTF-8") from None


def encode_long(raw: bytes) -> bytes:
    return pack(UINT32, len(raw)) + raw


def decode_long(data: bytes, offset: int, end: int) -> tuple[bytes, int]:
    start, stop = _span(data, offset, end)
    return data[start:stop], stop


def _span(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """The start and end of the bytes after a 4-byte length."""
    start = offset + 4
    stop: int = start + take(UINT32, data, offset, end)[0]
    if stop > end:
        raise FrameError("length exceeds the remaining data")
    return start, stop


# --- times and decimals


def encode_time(value: datetime | FarTime) -> bytes:
    """Whole seconds since 1970; a time without a time zone is UTC."""
    if isinstance(value, FarTime):
        return pack(UINT64, value)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return pack(UINT64, (aware - EPOCH) // SECOND)


def decode_time(data: bytes, offset: int, end: int) -> tuple[datetime | FarTime, int]:
    seconds, stop = decode_uint64(data, offset, end)
    if seconds > LAST_SECOND:
        return FarTime(seconds), stop
    return EPOCH + timedelta(seconds=seconds), stop


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise FrameError(f"decimal {value} cannot be encoded")
    number = int("".join(map(str, digits)))
    if exponent > 0:
        if number and exponent > 10:  # refuse before 10**exponent becomes a very long number
            raise FrameError(f"decimal {value} is too large")
        number *= 10 ** min(exponent, 10)
        exponent = 0
    return pack(DECIMAL, -exponent, -number if sign else number)


def _decode_decimal(data: bytes, offset: int, end: int) -> tuple[Decimal, int]:
    places, number = take(DECIMAL, data, offset, end)
    # Built from digits, since arithmetic would round according to the caller's decimal context.
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -places)), offset + DECIMAL.size


# --- decoding values


def decode_table(data: bytes, offset: int, end: int) -> tuple[Table, int]:
    return _decode_table(data, offset, end, Quota())


def decode_value(data: bytes, offset: int, end: int) -> tuple[FieldValue, int]:
    """One value after its type letter."""
    return _decode_value(data, offset, end, Quota())


def _decode_table(data: bytes, offset: int, end: int, quota: Quota) -> tuple[Table, int]:
    offset, stop = _span(data, offset, end)
    quota.enter()
    table: Table = {}
    while offset < stop:
        name, offset = decode_short(data, offset, stop)
        table[name], offset = _decode_value(data, offset, stop, quota)
    quota.leave()
    return table, stop


def _decode_array(data: bytes, offset: int, end: int, quota: Quota) -> tuple[list[FieldValue], int]:
    offset, stop = _span(data, offset, end)
    quota.enter()
    values: list[FieldValue] = []
    while offset < stop:
        value, offset = _decode_value(data, offset, stop, quota)
        values.append(value)
    quota.leave()
    return values, stop


def _decode_value(data: bytes, offset: int, end: int, quota: Quota) -> tuple[FieldValue, int]:
    if offset >= end:
        raise FrameError("truncated")
    quota.count()
    letter = data[offset]
    number = NUMBERS.get(letter)
    if number is not None:
        return take(number, data, offset + 1, end)[0], offset + 1 + number.size
    simple = DECODERS.get(letter)
    if simple is not None:
        return simple(data, offset + 1, end)
    if letter == TABLE:
        return _decode_table(data, offset + 1, end, quota)
    if letter == ARRAY:
        return _decode_array(data, offset + 1, end, quota)
    if letter == VOID:
        return None, offset + 1
    raise FrameError(f"unknown field type 0x{letter:02x}")


def _decode_text(data: bytes, offset: int, end: int) -> tuple[FieldValue, int]:
    raw, stop = decode_long(data, offset, end)
    try:
        return raw.decode(), stop
    except UnicodeDecodeError:
        return raw, stop  # in RabbitMQ a long string may contain any bytes


def _decode_bool(data: bytes, offset: int, end: int) -> tuple[bool, int]:
    return take(UINT8, data, offset, end)[0] != 0, offset + 1


TABLE = ord("F")
ARRAY = ord("A")
VOID = ord("V")
DECODERS: dict[int, Callable[[bytes, int, int], tuple[FieldValue, int]]] = {
    ord("t"): _decode_bool,
    ord("D"): _decode_decimal,
    ord("S"): _decode_text,
    ord("x"): decode_long,
    ord("T"): decode_time,
}


# --- encoding values


def encode_table(table: Mapping[str, object]) -> bytes:
    return _encode_table(table, Quota())


def encode_value(value: object) -> bytes:
    """One value after its type letter, which follows from the Python type."""
    return _encode_value(value, Quota())


def _encode_table(table: Mapping[str, object], quota: Quota) -> bytes:
    quota.enter()
    parts = []
    for name, value in table.items():
        parts.append(encode_short(name))
        parts.append(_encode_value(value, quota))
    quota.leave()
    return encode_long(b"".join(parts))


def _encode_array(values: list[object] | tuple[object, ...], quota: Quota) -> bytes:
    quota.enter()
    parts = [_encode_value(value, quota) for value in values]
    quota.leave()
    return encode_long(b"".join(parts))


def _encode_value(value: object, quota: Quota) -> bytes:
    quota.count()
    if isinstance(value, dict):
        return b"F" + _encode_table(value, quota)
    if isinstance(value, list | tuple):
        return b"A" + _encode_array(value, quota)
    for kind in type(value).__mro__:  # bool before int, and subclasses such as IntEnum as their base
        encoder = ENCODERS.get(kind)
        if encoder is not None:
            return encoder(value)
    raise FrameError(f"a {type(value).__name__} has no field type")


def _encode_int(value: int) -> bytes:
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return b"I" + INT32.pack(value)
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return b"l" + INT64.pack(value)
    return b"L" + pack(UINT64, value)


ENCODERS: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: b"t\x01" if value else b"t\x00",
    int: _encode_int,
    FarTime: lambda value: b"T" + encode_time(value),
    float: lambda value: b"d" + DOUBLE.pack(value),
    Decimal: lambda value: b"D" + _encode_decimal(value),
    datetime: lambda value: b"T" + encode_time(value),
    bytes: lambda value: b"x" + encode_long(value),
    bytearray: lambda value: b"x" + encode_long(value),
    str: lambda value: b"S" + encode_long(_utf8(value)),
    type(None): lambda value: b"V",
}


def table_memory(value: object) -> int:
    """Bytes that a decoded table takes in memory."""
    size = getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum([getsizeof(name) + table_memory(member) for name, member in value.items()])
    if isinstance(value, list | tuple):
        return size + sum([table_memory(member) for member in value])
    return size
