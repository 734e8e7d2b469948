"""Selectors against a slow obvious model: three-valued logic over a tree, LIKE by trying everything (S1-16, S1-28)."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leveret.delivery.selector import compile_selector, selectable
from leveret.delivery.selector_parser import KEYWORDS
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.wire.properties import Properties
from tests.support.exchanges import make_exchange

Tree = tuple[str, ...] | tuple[object, ...]
FIELDS = ["a", "b", "c"]
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, float("inf"), float("nan")]),
    st.sampled_from(["", "x", "y"]),
    st.just([1]),
)
WORDS = [*sorted(KEYWORDS), *"abc(),+-*/=<>", "<=", ">=", "<>", "'x'", "1", ".5", "1e3"]
messages = st.dictionaries(st.sampled_from(FIELDS), values)

# ---- conditions as trees: ("=", left, right), ("and", one, other), ("not", one), ("null", name), ...

numbers = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("name"), st.sampled_from(FIELDS)),
        st.tuples(st.just("value"), st.integers(0, 3)),
        st.tuples(st.sampled_from("+-*/"), numbers, numbers),
    )
)
operands = st.one_of(numbers, st.tuples(st.just("value"), st.sampled_from(["x", "y", True, False])))
conditions = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(["=", "<>"]), operands, operands),
        st.tuples(st.sampled_from(["<", "<=", ">", ">="]), numbers, numbers),
        st.tuples(st.just("null"), st.sampled_from(FIELDS)),
        st.tuples(st.just("name"), st.sampled_from(FIELDS)),
    ),
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=8,
)


def written(tree: Tree) -> str:
    match tree:
        case ("name", name):
            return str(name)
        case ("value", bool() as value):
            return str(value).upper()
        case ("value", str() as value):
            return f"'{value}'"
        case ("value", value):
            return str(value)
        case ("null", name):
            return f"{name} IS NULL"
        case ("not", inner):
            return f"NOT ({written(inner)})"  # type: ignore[arg-type]
        case (sign, left, right):
            return f"({written(left)}) {str(sign).upper()} ({written(right)})"  # type: ignore[arg-type]
    raise AssertionError(tree)


def kind_of(value: object) -> str | None:
    if isinstance(value, bool):
        return "truth"
    return "number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else None


def slowly(tree: Tree, fields: dict[str, object]) -> object:
    match tree:
        case ("name", name):
            return fields.get(str(name))
        case ("value", value):
            return value
        case ("null", name):
            return fields.get(str(name)) is None
        case ("not", inner):
            value = slowly(inner, fields)  # type: ignore[arg-type]
            return (not value) if kind_of(value) == "truth" else None
        case (sign, left, right):
            one, other = slowly(left, fields), slowly(right, fields)  # type: ignore[arg-type]
            return combined(str(sign), one, other)
    raise AssertionError(tree)


def combined(sign: str, one: object, other: object) -> object:
    if sign in ("and", "or"):
        truths = [value if kind_of(value) == "truth" else None for value in (one, other)]
        decisive = sign == "or"
        return decisive if decisive in truths else None if None in truths else not decisive
    kinds = {kind_of(one), kind_of(other)}
    if len(kinds) != 1 or None in kinds or (sign not in ("=", "<>") and kinds != {"number"}):
        return None
    if sign == "/" and isinstance(one, int) and isinstance(other, int):
        return int(one / other) if other else None
    try:
        return {
            "=": lambda: one == other,
            "<>": lambda: one != other,
            "<": lambda: one < other,  # type: ignore[operator]
            "<=": lambda: one <= other,  # type: ignore[operator]
            ">": lambda: one > other,  # type: ignore[operator]
            ">=": lambda: one >= other,  # type: ignore[operator]
            "+": lambda: one + other,  # type: ignore[operator]
            "-": lambda: one - other,  # type: ignore[operator]
            "*": lambda: one * other,  # type: ignore[operator]
            "/": lambda: one / other,  # type: ignore[operator]
        }[sign]()
    except ArithmeticError:
        return None


def refusal_of(text: str) -> str:
    """Empty if it is none."""
    try:
        compile_selector(text)
    except PreconditionFailed as refusal:
        return refusal.text
    return ""


def fits(text: str) -> bool:
    refusal = refusal_of(text)
    assert not refusal or "at most" in refusal, "only a limit may refuse it"
    return not refusal


@given(conditions, messages)
@pytest.mark.feature("S1-28")
def test_selector_agrees_with_its_tree(tree: Tree, fields: dict[str, object]) -> None:
    """TRUE, FALSE and unknown alike."""
    text = written(tree)
    if not fits(text):
        return
    expected = slowly(tree, fields)
    assert compile_selector(text).matches(fields) is (expected is True), text
    if fits(f"NOT ({text})"):
        assert compile_selector(f"NOT ({text})").matches(fields) is (expected is False), text


@given(st.text("ab%_!'\n", max_size=8), st.text("ab%_!'\n", max_size=10))
@example("%a%a%", "aa")
@pytest.mark.feature("S1-28")
def test_like_agrees_with_trying_everything(pattern: str, text: str) -> None:

    @cache
    def takes(at: int, place: int) -> bool:
        if at == len(pattern):
            return place == len(text)
        if pattern[at] == "%":
            return any(takes(at + 1, later) for later in range(place, len(text) + 1))
        if place == len(text):
            return False
        return pattern[at] in ("_", text[place]) and takes(at + 1, place + 1)

    quoted = pattern.replace("'", "''")
    selector = compile_selector(f"a LIKE '{quoted}'")
    assert selector.matches({"a": text}) is takes(0, 0)
    matches, steps = selector.asked({"a": text})
    assert matches is takes(0, 0)
    assert steps >= len(text), "the work grows with the field"


@pytest.mark.fuzz
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(WORDS),
            max_size=20,
        ).map(" ".join),
    ),
    st.dictionaries(st.sampled_from(["a", "b"]), values),
)
@pytest.mark.feature("S1-28")
def test_any_text_is_refused_in_words_or_never_fails(text: str, fields: dict[str, object]) -> None:
    """At match time there is no error."""
    refusal = refusal_of(text)
    if refusal:
        assert refusal.startswith("invalid arg 'x-selector': expected")
    else:
        assert compile_selector(text).matches(fields) in (True, False)


@given(
    st.sampled_from(["direct", "fanout", "topic", "headers"]),
    st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from(["k", "l"]), st.sampled_from(["", "a = 1", "a = 2"]))),
    st.sampled_from(["k", "l"]),
    st.sampled_from([1, 2, 3]),
)
@pytest.mark.feature("S1-16")
def test_exchange_with_selectors_reaches_what_each_binding_reaches_alone(
    kind: str, links: list[tuple[str, str, str]], key: str, value: int
) -> None:
    together = make_exchange(kind, "x")
    fields = selectable(Properties(headers={"a": value}))
    expected: set[Destination] = set()
    for queue, bound_by, text in dict.fromkeys(links):
        binding = Binding("x", Destination("queue", queue), bound_by, {"x-selector": text})
        together.bind(binding)
        alone = make_exchange(kind, "x")
        alone.bind(Binding("x", binding.destination, bound_by))
        if not text or compile_selector(text).matches(fields):
            expected |= set(alone.destinations(key, {}))
    assert set(together.destinations(key, fields)) == expected
