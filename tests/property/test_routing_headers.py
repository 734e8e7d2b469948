"""The headers exchange equals a slow, obvious reading of the rules (S4-79)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.routing.bindings import Binding, Destination
from leveret.routing.field_values import identity, matchable
from leveret.routing.headers import HeadersExchange

leaves = st.sampled_from([None, 0, 1, False, True, 0.0, 1.0, "", "1", "a", b"a"])
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("k"), inner))
names = st.sampled_from(["a", "b", "x-a", "X-b", "x-match"])
tables = st.dictionaries(names, values, max_size=5)
ways = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def same(one: object, other: object) -> bool:
    """By kind and value, text and bytes alike, spelt out."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    one = one.decode() if isinstance(one, bytes) else one
    other = other.decode() if isinstance(other, bytes) else other
    return type(one) is type(other) and one == other


def slowly(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    how = str(arguments.get("x-match", "all"))
    results = []
    for name, value in arguments.items():
        if name == "x-match" or (name.startswith("x-") and how in ("all", "any")):
            continue
        results.append(name in headers and (value is None or same(value, headers[name])))
    return all(results) if how in ("all", "all-with-x") else any(results)


@given(ways, tables, tables)
def test_headers_exchange_equals_the_slow_matcher(
    how: str | None, arguments: dict[str, object], headers: dict[str, object]
) -> None:
    arguments = {name: value for name, value in arguments.items() if name != "x-match"}
    if how is not None:
        arguments["x-match"] = how
    exchange, queue = HeadersExchange("x"), Destination("queue", "q")
    exchange.bind(Binding("x", queue, "", arguments))
    assert list(exchange.destinations("", headers)) == ([queue] if slowly(arguments, headers) else [])


@given(values, values)
def test_matchable_forms_are_equal_exactly_for_values_that_are_the_same(one: object, other: object) -> None:
    assert (matchable(one) == matchable(other)) == same(one, other)


@given(tables, tables)
def test_like_bindings_are_equal_and_hash_alike(one: dict[str, object], other: dict[str, object]) -> None:
    first, second = (Binding("x", Destination("queue", "q"), "", table) for table in (one, other))
    turned = Binding("x", Destination("queue", "q"), "", dict(reversed(one.items())))
    assert first == turned
    assert hash(first) == hash(turned)
    if first == second:
        assert hash(first) == hash(second)
        assert same(one, other)
    assert (first == second) == (identity(one) == identity(other))
