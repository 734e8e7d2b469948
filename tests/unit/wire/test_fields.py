from __future__ import annotations

import decimal
import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from leveret.errors import FrameError
from leveret.wire import fields
from leveret.wire.fields import decode_short, decode_table, decode_value, encode_short, encode_table, encode_value

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decoded(data: bytes) -> Any:
    value, offset = decode_value(data, 0, len(data))
    assert offset == len(data)
    return value


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        (b"t\x00", False),
        (b"t\x02", True),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65534),
        (b"I\xff\xff\xff\xff", -1),
        (b"i\xff\xff\xff\xff", 4294967295),
        (b"l" + b"\xff" * 8, -1),
        (b"L" + b"\xff" * 8, 2**64 - 1),
        (b"f\x3f\x80\x00\x00", 1.0),
        (b"d\x3f\xf0\x00\x00\x00\x00\x00\x00", 1.0),
        (b"D\x02\xff\xff\xff\x85", Decimal("-1.23")),
        (b"D\x00\x00\x00\x00\x00", Decimal(0)),
        (b"S\x00\x00\x00\x02\xc3\xa9", "é"),
        (b"S\x00\x00\x00\x01\xff", b"\xff"),
        (b"x\x00\x00\x00\x01a", b"a"),
        (b"A\x00\x00\x00\x03t\x01V", [True, None]),
        (b"T\x00\x00\x00\x00\x00\x00\x00\x3c", EPOCH + timedelta(minutes=1)),
        (b"F\x00\x00\x00\x03\x01aV", {"a": None}),
        (b"V", None),
    ],
)
def test_every_type_letter_is_read_as_rabbitmq_reads_it(wire: bytes, value: object) -> None:
    got = decoded(wire)
    assert got == value
    assert type(got) is type(value)


class Colour(IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (True, b"t\x01"),
        (False, b"t\x00"),
        (0, b"I\x00\x00\x00\x00"),
        (Colour.RED, b"I\x00\x00\x00\x03"),
        (2**31 - 1, b"I\x7f\xff\xff\xff"),
        (-(2**31), b"I\x80\x00\x00\x00"),
        (2**31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
        (-(2**31) - 1, b"l\xff\xff\xff\xff\x7f\xff\xff\xff"),
        (2**63 - 1, b"l\x7f" + b"\xff" * 7),
        (-(2**63), b"l\x80" + b"\x00" * 7),
        (2**63, b"L\x80" + b"\x00" * 7),
        (2**64 - 1, b"L" + b"\xff" * 8),
        (1.0, b"d\x3f\xf0\x00\x00\x00\x00\x00\x00"),
        (Decimal("1.23"), b"D\x02\x00\x00\x00\x7b"),
        (Decimal("-1E+3"), b"D\x00\xff\xff\xfc\x18"),
        (Decimal("0E+999999"), b"D\x00\x00\x00\x00\x00"),
        (b"a", b"x\x00\x00\x00\x01a"),
        (bytearray(b"a"), b"x\x00\x00\x00\x01a"),
        ("a", b"S\x00\x00\x00\x01a"),
        ([None], b"A\x00\x00\x00\x01V"),
        ((None,), b"A\x00\x00\x00\x01V"),
        ({"a": None}, b"F\x00\x00\x00\x03\x01aV"),
        (None, b"V"),
        (datetime(1970, 1, 1, 0, 1), b"T" + bytes(7) + b"\x3c"),
        (datetime(1970, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), b"T" + bytes(7) + b"\x3c"),
        (datetime(1970, 1, 1, 0, 1, 0, 999999, tzinfo=UTC), b"T" + bytes(7) + b"\x3c"),
    ],
)
def test_every_python_type_has_its_letter(value: object, wire: bytes) -> None:
    assert encode_value(value) == wire


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        object(),
        {1, 2},
        "\ud800",
        {"k" * 256: 1},
        {"é" * 128: 1},
        {1: "a name that is no text"},
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("1E+11"),
        Decimal("1E-256"),
        Decimal(2**31),
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
)
def test_what_has_no_place_on_the_wire_is_a_frame_error(value: object) -> None:
    with pytest.raises(FrameError):
        encode_value(value)


def test_a_decimal_is_exact_whatever_the_context_of_the_caller() -> None:
    with decimal.localcontext(decimal.Context(prec=2)):
        assert str(decoded(b"D\x03\x00\x01\xe2\x40")) == "123.456"


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"t",
        b"I\x00\x00\x00",
        b"D\x00\x00",
        b"S",
        b"S\x00\x00\x00\x02a",
        b"x\xff\xff\xff\xff",
        b"A\x00\x00\x00\x02I",
        b"A\x00\x00\x00\x02Ia",
        b"F\x00\x00\x00\x01\x05",
        b"F\x00\x00\x00\x02\x01a",
        b"F\x00\x00\x00\x03\x01\xffV",
        b"T\x00",
        b"?",
        b"\x00",
    ],
)
def test_malformed_values_are_frame_errors(wire: bytes) -> None:
    with pytest.raises(FrameError):
        decode_value(wire, 0, len(wire))


def test_the_last_second_of_year_9999_is_still_a_time() -> None:
    assert decoded(b"T" + struct.pack(">Q", 253402300799)) == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize("seconds", [253402300800, 2**64 - 1])
def test_a_time_beyond_year_9999_goes_round_as_it_came(seconds: int) -> None:
    wire = b"T" + struct.pack(">Q", seconds)
    assert decoded(wire) == seconds
    assert encode_value(decoded(wire)) == wire


def test_nothing_is_read_beyond_the_end() -> None:
    whole = encode_table({"a": "long enough"})
    for end in range(len(whole)):
        with pytest.raises(FrameError):
            decode_table(whole, 0, end)


def test_a_value_inside_a_table_cannot_reach_beyond_its_table() -> None:
    wire = b"\x00\x00\x00\x08" + b"\x01aS\x00\x00\x00\x04" + b"bcde"
    with pytest.raises(FrameError):
        decode_table(wire, 0, len(wire))


def test_decoding_starts_where_it_is_told_and_says_where_it_stopped() -> None:
    wire = b"??" + encode_table({"a": 1}) + b"rest"
    assert decode_table(wire, 2, len(wire)) == ({"a": 1}, len(wire) - 4)


def nested(depth: int) -> Any:
    table: dict[str, Any] = {}
    for level in range(depth - 1):
        table = {"k": table} if level % 2 else {"k": [table]}
    return table


def wire_nest(depth: int, letter: bytes) -> bytes:
    name = b"\x01k" if letter == b"F" else b""
    wire = b"\x00\x00\x00\x00"
    for _ in range(depth - 1):
        inner = name + letter + wire
        wire = struct.pack(">I", len(inner)) + inner
    return letter + wire


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_tables_and_arrays_nest_thirty_two_deep_and_no_deeper(letter: bytes) -> None:
    assert decoded(wire_nest(32, letter)) is not None
    with pytest.raises(FrameError, match="deeper"):
        decoded(wire_nest(33, letter))


def test_depth_counts_nesting_and_not_neighbours() -> None:
    table = {str(n): {"t": {}, "a": [[]]} for n in range(100)}
    assert decode_table(encode_table(table), 0, 10**6)[0] == table


def test_a_very_deep_table_is_refused_before_the_stack_ends() -> None:
    with pytest.raises(FrameError, match="deeper"):
        decoded(wire_nest(5000, b"A"))
    with pytest.raises(FrameError, match="deeper"):
        encode_value(nested(5000))


def test_a_table_that_holds_itself_is_refused() -> None:
    table: dict[str, object] = {}
    table["self"] = table
    with pytest.raises(FrameError, match="deeper"):
        encode_table(table)


def test_fields_are_counted_over_all_tables_and_arrays() -> None:
    full: list[object] = [None] * 4095
    wire = encode_table({"a": full})
    assert decode_table(wire, 0, len(wire))[0] == {"a": full}
    with pytest.raises(FrameError, match="4096"):
        encode_table({"a": [*full, None]})
    too_many = b"A" + struct.pack(">I", 4096) + b"V" * 4096
    with pytest.raises(FrameError, match="4096"):
        decode_value(too_many, 0, len(too_many))


def test_a_short_string_holds_255_bytes_and_no_more() -> None:
    wire = encode_short("x" * 255)
    assert decode_short(wire, 0, 256) == ("x" * 255, 256)
    with pytest.raises(FrameError):
        encode_short("x" * 256)


@pytest.mark.parametrize("wire", [b"", b"\x01", b"\x02a", b"\x01\xff", b"\x03\xed\xa0\x80"])
def test_a_short_string_is_whole_and_strict_utf8(wire: bytes) -> None:
    with pytest.raises(FrameError):
        decode_short(wire, 0, len(wire))


@pytest.mark.parametrize("name", ["octet", "uint16", "uint32", "uint64"])
def test_a_number_that_does_not_fit_is_a_frame_error(name: str) -> None:
    encode, decode = getattr(fields, f"encode_{name}"), getattr(fields, f"decode_{name}")
    wire = encode(1)
    assert decode(wire, 0, len(wire)) == (1, len(wire))
    for bad in (-1, 256 ** len(wire), "one", None):
        with pytest.raises(FrameError):
            encode(bad)
    with pytest.raises(FrameError):
        decode(wire, 0, len(wire) - 1)


def test_bits_are_packed_from_the_lowest() -> None:
    assert fields.encode_bits(True, False, True) == b"\x05"
