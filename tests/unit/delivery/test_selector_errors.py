"""Selectors that are refused: where they are wrong, what was expected, and how large they may be (S1-28)."""

from __future__ import annotations

import pytest

from leveret.delivery.selector import LONGEST, compile_selector
from leveret.delivery.selector_parser import DEEPEST, MOST_TERMS
from leveret.errors import PreconditionFailed


def refusal(text: str) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        compile_selector(text)
    begin = "invalid arg 'x-selector': "
    assert caught.value.text.startswith(begin)
    return caught.value.text.removeprefix(begin)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a name, a literal or '(', found the end at position 1"),
        ("a =", "expected a name, a literal or '(', found the end at position 4"),
        ("a = AND b", "expected a name, a literal or '(', found 'AND' at position 5"),
        ("a = 1 b", "expected AND, OR or the end, found 'b' at position 7"),
        ("a = 1)", "expected AND, OR or the end, found ')' at position 6"),
        ("(a = 1", "expected ')', found the end at position 7"),
        ("a = b = c", "expected AND, OR or the end, found '=' at position 7"),
        ("a == 1", "expected a name, a literal or '(', found '=' at position 4"),
        ("a = 'x", "expected a closing ' (a quote inside a string is written '') at position 7"),
        ("a = 'x''", "expected a closing ' (a quote inside a string is written '') at position 9"),
        ('"a', 'expected a closing " at position 3'),
        ("a != 1", "expected a name, a literal or an operator, found '!' at position 3"),
        ("a = 1 ; b", "expected a name, a literal or an operator, found ';' at position 7"),
        ("a = 57L", "expected a space or an operator after the number 57 at position 7"),
        ("a = 9223372036854775808", "expected a whole number up to 9223372036854775807 at position 5"),
        ("a IS 5", "expected 'NULL', found '5' at position 6"),
        ("5 IS NULL", "expected a name before IS, found a number at position 1"),
        ("a NOT = 5", "expected BETWEEN, IN or LIKE, found '=' at position 7"),
        ("a BETWEEN 1 OR 2", "expected 'AND', found 'OR' at position 13"),
        ("a BETWEEN 'x' AND 2", "expected a number for BETWEEN, found a string at position 11"),
        ("'x' IN ('x')", "expected a name before IN, found a string at position 1"),
        ("a IN 'x'", "expected '(', found 'x' at position 6"),
        ("a IN ()", "expected a string or a number, found ')' at position 7"),
        ("a IN (-'x')", "expected a number, found 'x' at position 8"),
        ("a IN ('x' 'y')", "expected ')', found 'y' at position 11"),
        ("a LIKE b", "expected a pattern in single quotes, found 'b' at position 8"),
        ("1 LIKE 'b'", "expected a name before LIKE, found a number at position 1"),
        ("a LIKE 'b' ESCAPE 'xy'", "expected one character in single quotes after ESCAPE, found 'xy' at position 19"),
        ("a LIKE 'b' ESCAPE", "expected one character in single quotes after ESCAPE, found the end at position 18"),
        ("a LIKE 'b!' ESCAPE '!'", "expected a character after the last escape of the pattern at position 8"),
        ("5", "expected a condition, found a number at position 1"),
        ("'x'", "expected a condition, found a string at position 1"),
        ("a + 1", "expected a condition, found a number at position 1"),
        ("a AND 5", "expected a condition, found a number at position 7"),
        ("NOT 'x'", "expected a condition, found a string at position 5"),
        ("a < 'x'", "expected a number for '<', found a string at position 5"),
        ("TRUE > a", "expected a number for '>', found a condition at position 1"),
        ("a + 'x' = 1", "expected a number for '+', found a string at position 5"),
        ("-'x' = a", "expected a number for '-', found a string at position 2"),
        ("(a = 1) * 2 = 2", "expected a number for '*', found a condition at position 2"),
        ("a = 1 'much longer than twenty characters'", "expected AND, OR or the end, found 'much longer than twe...'"),
    ],
)
@pytest.mark.feature("S1-28")
def test_error_says_where_and_what_was_expected(text: str, expected: str) -> None:
    assert refusal(text).startswith(expected)


def test_text_is_bounded() -> None:
    name = "a" * (LONGEST - 4)
    compile_selector(f"{name} = 1")
    assert refusal(f"{name}a = 1") == "4097 characters, expected at most 4096; shorten the selector"


def nested(opening: str, inner: str, closing: str, levels: int) -> str:
    return f"{opening * levels}{inner}{closing * levels}"


@pytest.mark.parametrize(
    ("opening", "inner", "closing"), [("(", "a", ")"), ("NOT ", "a", ""), ("- ", "1 = 1", ""), ("(NOT ", "a", ")")]
)
def test_nesting_is_bounded(opening: str, inner: str, closing: str) -> None:
    deepest = DEEPEST // len(opening.replace("(", "( ").split())
    compile_selector(nested(opening, inner, closing, deepest))
    assert "expected at most 32 parentheses, NOT and signs within each other at position" in refusal(
        nested(opening, inner, closing, deepest + 1)
    )


def test_parts_side_by_side_are_not_nested() -> None:
    assert compile_selector(" AND ".join(["(NOT a)"] * 100)).matches({"a": False})


def test_a_thousand_parentheses_are_refused_before_they_exhaust_the_stack() -> None:
    assert "within each other" in refusal("(" * 4_000)


@pytest.mark.parametrize("join", [" AND ", " OR "])
def test_terms_are_bounded(join: str) -> None:
    compile_selector(join.join(["a"] * MOST_TERMS)).matches({"a": True})
    assert "expected at most 256 names and literals" in refusal(join.join(["a"] * (MOST_TERMS + 1)))


def test_members_patterns_and_sums_count_as_terms() -> None:
    members = ", ".join(["1"] * (MOST_TERMS - 1))
    assert compile_selector(f"a IN ({members})").matches({"a": 1})
    assert "at most 256" in refusal(f"a IN ({members}, 1)")
    sums = " + ".join(["1"] * (MOST_TERMS - 1))
    assert compile_selector(f"a = {sums}").matches({"a": MOST_TERMS - 1})
    assert "at most 256" in refusal(f"a = {sums} + 1")
    likes = " AND ".join(["a LIKE '%'"] * (MOST_TERMS // 2))
    assert compile_selector(likes).matches({"a": ""})
    assert "at most 256" in refusal(f"{likes} AND a")
