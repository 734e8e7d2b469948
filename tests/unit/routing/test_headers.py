"""Headers exchanges (S4-79)."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.headers import HeadersExchange

Q1, Q2 = Destination("queue", "q1"), Destination("queue", "q2")


def takes(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    exchange = HeadersExchange("x")
    binding = Binding("x", Q1, "ignored", arguments)
    exchange.validate_binding(binding)
    exchange.bind(binding)
    return list(exchange.destinations("any key", headers)) == [Q1]


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all", "a": 1, "b": "2"}, {"a": 1, "b": "2", "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": "2"}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": "2"}, {"a": 1, "b": "3"}, False),
        ({"a": 1, "b": "2"}, {"a": 1}, False),
        ({"a": 1, "b": "2"}, {"a": 1, "b": "2"}, True),
        ({"x-match": "any", "a": 1, "b": "2"}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "b": "2"}, {"b": "2", "a": 5}, True),
        ({"x-match": "any", "a": 1, "b": "2"}, {"a": 2, "b": "3"}, False),
        ({"x-match": "any", "a": 1}, {}, False),
        ({"x-match": "all", "a": 1}, {}, False),
    ],
)
@pytest.mark.feature("S4-79")
def test_all_or_any_of_the_arguments_must_be_met(
    arguments: dict[str, object], headers: dict[str, object], expected: bool
) -> None:
    """X-match all (the default) and any."""
    assert takes(arguments, headers) is expected


@pytest.mark.parametrize("headers", [{}, {"a": 1}, {"x-match": "any"}])
@pytest.mark.feature("S4-79")
def test_binding_without_arguments_takes_everything_under_all_and_nothing_under_any(headers: dict[str, object]) -> None:
    assert takes({}, headers)
    assert takes({"x-match": "all"}, headers)
    assert takes({"x-match": "all-with-x"}, headers)
    assert not takes({"x-match": "any"}, headers)
    assert not takes({"x-match": "any-with-x"}, headers)


@pytest.mark.feature("S4-79")
def test_arguments_named_x_count_only_where_asked_for() -> None:
    """All-with-x, any-with-x."""
    assert takes({"x-match": "all", "x-tag": 1}, {})
    assert not takes({"x-match": "all-with-x", "x-tag": 1}, {})
    assert takes({"x-match": "all-with-x", "x-tag": 1}, {"x-tag": 1})
    assert not takes({"x-match": "any", "x-tag": 1}, {"x-tag": 1})
    assert takes({"x-match": "any-with-x", "x-tag": 1}, {"x-tag": 1})
    assert not takes({"x-match": "any-with-x", "x-tag": 1}, {"x-tag": 2})


def test_x_match_itself_is_never_compared() -> None:
    assert takes({"x-match": "all-with-x"}, {})
    assert not takes({"x-match": "any-with-x"}, {"x-match": "any-with-x"})


@pytest.mark.feature("S4-79")
def test_argument_without_a_value_asks_only_for_the_header() -> None:
    """A void value means presence."""
    assert takes({"a": None}, {"a": "whatever"})
    assert takes({"a": None}, {"a": None})
    assert not takes({"a": None}, {"b": 1})
    assert takes({"x-match": "any", "a": None, "b": 1}, {"a": 0})


def test_header_without_a_value_meets_no_value() -> None:
    assert not takes({"a": ""}, {"a": None})
    assert not takes({"a": False}, {"a": None})


@pytest.mark.parametrize(
    ("wanted", "sent", "expected"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        ("1", 1, False),
        ("a", "a", True),
        ("a", b"a", True),
        ("a", "A", False),
        ({"n": [1, 2]}, {"n": [1, 2]}, True),
        ({"n": [1, 2]}, {"n": [2, 1]}, False),
    ],
)
@pytest.mark.feature("S4-79")
def test_values_compare_by_kind_and_value(wanted: object, sent: object, expected: bool) -> None:
    """As RabbitMQ compares."""
    assert takes({"a": wanted}, {"a": sent}) is expected


@pytest.mark.parametrize("how", ["", "none", "ALL", "all-with", "any "])
@pytest.mark.feature("S4-79")
def test_unknown_x_match_is_refused(how: str) -> None:
    with pytest.raises(PreconditionFailed, match="expected all, any, all-with-x, or any-with-x"):
        HeadersExchange("x").validate_binding(Binding("x", Q1, "", {"x-match": how}))


@pytest.mark.parametrize("how", [1, True, None, ["all"], b"all"])
def test_x_match_of_another_kind_is_refused(how: object) -> None:
    with pytest.raises(PreconditionFailed, match="expected longstr"):
        HeadersExchange("x").validate_binding(Binding("x", Q1, "", {"x-match": how}))


def test_each_binding_is_asked_and_leaves_alone() -> None:
    exchange = HeadersExchange("x")
    red, blue, other = (
        Binding("x", Q1, "", {"colour": "red"}),
        Binding("x", Q1, "", {"colour": "blue"}),
        Binding("x", Q2, "", {"colour": "red"}),
    )
    for binding in (red, blue, other):
        exchange.bind(binding)
    assert list(exchange.destinations("", {"colour": "red"})) == [Q1, Q2]
    exchange.unbind(red)
    assert list(exchange.destinations("", {"colour": "red"})) == [Q2]
    assert list(exchange.destinations("", {"colour": "blue"})) == [Q1]


def test_routes_by_headers_are_not_to_be_remembered_by_key() -> None:
    exchange = HeadersExchange("x")
    assert exchange.looks_at_headers
    assert not exchange.looks_at_all_keys
