"""Filters that batch reads apply themselves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from leveret.spark.filters import PushedFilters
from leveret.spark.offsets import Range

OFFSET, QUEUE, KEY, TIME = ("offset",), ("queue",), ("routing_key",), ("timestamp",)
NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([GreaterThan(OFFSET, 4)], (5, 20)),
        ([GreaterThanOrEqual(OFFSET, 4), LessThan(OFFSET, 9)], (4, 9)),
        ([LessThanOrEqual(OFFSET, 9), LessThan(OFFSET, 50)], (2, 10)),
        ([EqualTo(OFFSET, 7)], (7, 8)),
        ([GreaterThan(OFFSET, 8), EqualTo(OFFSET, 3)], (9, 4)),
    ],
)
def test_offsets_are_clipped(filters: list[Filter], left: tuple[int, int]) -> None:
    pushed = PushedFilters()
    assert all(pushed.take(one) for one in filters)
    assert pushed.clipped(Range("q", 2, 20)) == Range("q", *left)


def test_queues_and_keys_are_narrowed() -> None:
    pushed = PushedFilters()
    assert pushed.take(In(QUEUE, ["a", "b"]))
    assert pushed.take(EqualTo(QUEUE, "b"))
    assert (pushed.reads("a"), pushed.reads("b")) == (False, True)
    assert pushed.take(EqualTo(KEY, "eu.orders"))
    assert not pushed.take(EqualTo(KEY, "us.orders")), "one key at a time: Spark finds that no row fulfils both"
    assert pushed.routing_key == "eu.orders"


def test_a_lower_bound_of_the_time_moves_the_start_and_is_evaluated_again() -> None:
    pushed = PushedFilters()
    assert not pushed.take(GreaterThan(TIME, NOON))
    assert not pushed.take(GreaterThanOrEqual(TIME, datetime(2031, 5, 1, 11)))
    assert pushed.since == int(NOON.timestamp() * 1000) - 1


@pytest.mark.parametrize(
    "one",
    [
        LessThan(TIME, NOON),
        EqualTo(KEY, "a.*"),
        EqualTo(KEY, "#"),
        EqualTo(KEY, ""),
        Not(EqualTo(OFFSET, 1)),
        IsNotNull(OFFSET),
        EqualTo(("properties", "type"), "x"),
        GreaterThan(QUEUE, "a"),
    ],
)
def test_other_filters_are_left_to_spark(one: Filter) -> None:
    pushed = PushedFilters()
    assert not pushed.take(one)
    assert pushed == PushedFilters()


def test_a_pattern_of_the_options_stays() -> None:
    assert not PushedFilters(takes_routing_key=False).take(EqualTo(KEY, "a"))
