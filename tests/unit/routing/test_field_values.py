"""Field values keep their kind when they are compared (S4-08, S4-79)."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum

import pytest

from leveret.routing.field_values import identity, matchable


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, 1.0),
        (1, Decimal(1)),
        (1.0, Decimal("1.0")),
        (Decimal("1.0"), Decimal("1.00")),
        ("a", b"a"),
        (None, ""),
        (None, False),
        (5, datetime.fromtimestamp(5, UTC)),
        ([], {}),
        ([1], [True]),
        ({"a": {"b": [1]}}, {"a": {"b": [1.0]}}),
        ([1, 2], [2, 1]),
        (0.0, -0.0),
    ],
)
def test_values_of_another_kind_are_another_identity(one: object, other: object) -> None:
    assert identity(one) != identity(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [{"c": None}]}, {"b": [{"c": None}], "a": 1}),
        ([1, 2], (1, 2)),
        (math.nan, float("nan")),
        (b"a", bytearray(b"a")),
        (b"a", memoryview(b"a")),
        (1, Level.LOW),
    ],
)
def test_the_same_value_has_one_identity_that_can_be_hashed(one: object, other: object) -> None:
    assert identity(one) == identity(other)
    assert hash(identity(one)) == hash(identity(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", b"a"),
        (b"\xff", bytearray(b"\xff")),
        ("é", memoryview("é".encode())),
        (5, datetime.fromtimestamp(5, UTC)),
        (1, Level.LOW),
        ({"a": ["x", 1]}, {"a": [b"x", 1]}),
        (1.5, 1.5),
        (None, None),
    ],
)
def test_a_header_matches_by_value_whatever_its_width_or_encoding(one: object, other: object) -> None:
    assert matchable(one) == matchable(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), ("1", 1), (None, ""), ([1], [True]), ({"a": 1}, {"a": 1.0}), ([], {})],
)
def test_a_header_of_another_kind_does_not_match(one: object, other: object) -> None:
    assert matchable(one) != matchable(other)
