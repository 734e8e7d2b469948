"""Headers of all AMQP types, from structs, maps and Spark's variants."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from leveret.http.errors import BadRequest
from leveret.pipeline.arrow_headers import are_headers, encoded_headers
from leveret.pipeline.variants import Budget, InvalidVariant, variant_of
from leveret.wire.fields import decode_table
from tests.support.arrow_bombs import NAMELESS, VARIANT, variant_array

MOST = 1_000
# As Spark 4.1 writes parse_json('{"x":[1,2.5,true,null]}').
NESTED = (
    b"\x02\x01\x00\x00\x11\x03\x04\x00\x02\x08\t\n\x0c\x01 \x01\x19\x00\x00\x00\x04\x00",
    b"\x01\x01\x00\x01x",
)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def tables(column: pa.Array) -> list[object]:
    assert are_headers(column.type)
    return [decode_table(table, 0, len(table))[0] if table else None for table in encoded_headers(column)]


@pytest.mark.parametrize(
    "value",
    [1, -(1 << 40), 0.5, True, "é", b"\xff", AT, Decimal("1.25"), ["a", "b"], [1, None], {"x": {"y": [1]}}],
)
def test_each_type_arrives_as_it_is(value: object) -> None:
    assert tables(pa.array([{"h": value}, {"h": None}, None])) == [{"h": value}, None, None]


def test_maps_have_values_of_one_type_or_variants() -> None:
    numbers = pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int64()))
    assert tables(numbers) == [{"a": 1}, None]
    variants = [
        ("a", dict(zip(("value", "metadata"), NESTED, strict=True))),
        ("b", {"value": b"\x0c\x05", "metadata": NAMELESS}),
    ]
    assert tables(pa.array([variants], pa.map_(pa.string(), VARIANT))) == [
        {"a": {"x": [1, Decimal("2.5"), True, None]}, "b": 5}
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00", None),
        (b"\x08", False),
        (b"\x10\x39\x30", 12345),
        (b"\x18" + (1 << 40).to_bytes(8, "little"), 1 << 40),
        (b"\x1c\x00\x00\x00\x00\x00\x00\xe0\x3f", 0.5),
        (b"\x30" + (1_767_323_045_000_000).to_bytes(8, "little"), AT),
        (b"\x3c\x02\x00\x00\x00\x00\xff", b"\x00\xff"),
        (b"\x40\x02\x00\x00\x00hi", "hi"),
        (b"\x09hi", "hi"),
    ],
)
def test_scalars_of_variants(value: bytes, expected: object) -> None:
    assert variant_of(value, NAMELESS, Budget(MOST)) == expected


def bomb() -> bytes:
    """Arrays of 255 values that are all the same array."""
    value = b"\x00"
    for _ in range(4):
        value = b"\x07\xff" + bytes(2 * 255) + len(value).to_bytes(2, "little") + value
    return value


def texts(number: int, size: int) -> bytes:
    """An array whose values are all the same text."""
    return variant_array(number, b"\x40" + size.to_bytes(4, "little") + b"x" * size)


def test_the_values_of_variants_have_a_limited_size() -> None:
    assert variant_of(texts(10, 89), NAMELESS, Budget(MOST)) == ["x" * 89] * 10
    with pytest.raises(InvalidVariant, match="more than 1000 bytes"):
        variant_of(texts(10, 100), NAMELESS, Budget(MOST))
    with pytest.raises(InvalidVariant, match="more than 10000 values"):
        variant_of(variant_array(10_001, b"\x00"), NAMELESS, Budget(1 << 20))


def test_the_limit_is_that_of_one_row() -> None:
    value = {"value": texts(400, 100), "metadata": NAMELESS}
    of_one = pa.array([[("a", value)]] * 3, pa.map_(pa.string(), VARIANT))
    assert tables(of_one) == [{"a": ["x" * 100] * 400}] * 3
    of_two = pa.array([[("a", value), ("b", value)]], pa.map_(pa.string(), VARIANT))
    with pytest.raises(BadRequest, match="more than 65536 bytes"):
        encoded_headers(of_two)


def test_many_rows_with_many_values_are_converted_in_parts() -> None:
    kind = pa.struct([("n", pa.int32()), ("list", pa.large_list(pa.int16())), ("map", pa.map_(pa.string(), pa.int8()))])
    rows = [{"n": row, "list": [*range(row % 300)], "map": {"a": 1, "b": row % 100}} for row in range(1_500)]
    column = pa.array([*rows, None], kind)
    assert tables(column) == [*rows, None]
    assert tables(column.slice(700)) == [*rows[700:], None]
    by_text = pa.array([{str(number): "v" for number in range(100)}] * 1_000, pa.map_(pa.string(), pa.string()))
    assert tables(by_text.slice(1)) == [{str(number): "v" for number in range(100)}] * 999


@pytest.mark.parametrize(
    "values",
    [pa.nulls(70_000), pa.array([False] * 70_000), pa.array([[("a", None)] * 70_000], pa.map_(pa.string(), pa.null()))],
)
def test_a_row_has_a_limited_number_of_values(values: pa.Array) -> None:
    column = values if pa.types.is_map(values.type) else pa.ListArray.from_arrays([0, len(values)], values)
    with pytest.raises(BadRequest, match="values in one row: at most 65536 fit"):
        encoded_headers(pa.StructArray.from_arrays([column], ["h"]))


@pytest.mark.parametrize(
    "value", [b"", b"\x18\x00", b"\x41", b"\x03\x09\x00", b"\x02\x01\x07\x00\x01\x00", b"\x2c", bomb()]
)
def test_damaged_variants_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidVariant):
        variant_of(value, NAMELESS, Budget(MOST))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([{"h" * 256: 1}]), "256"),
        (pa.array([{"h": "x" * 70_000}]), "at most 65536 fit"),
        (pa.array([{"h": Decimal("1e20")}], pa.struct([("h", pa.decimal128(38, 0))])), "does not fit"),
        (pa.array([{"h": 1}], pa.struct([("h", pa.timestamp("us", "Nowhere"))])), "cannot be sent"),
    ],
)
def test_values_that_do_not_fit_are_refused(column: pa.Array, text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        encoded_headers(column)


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("h", pa.date32())]),
        pa.struct([("h", pa.string_view())]),
        pa.struct([("h", pa.int8()), ("h", pa.int8())]),
        pa.map_(pa.int64(), pa.int64()),
        pa.list_(pa.string()),
        VARIANT,
    ],
)
def test_other_types_are_no_headers(kind: pa.DataType) -> None:
    assert not are_headers(kind)
