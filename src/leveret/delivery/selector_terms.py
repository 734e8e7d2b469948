"""The parts of a selector as closures: each takes the fields of a message and returns a value.

A value is a string, a number, True, False, or None for *unknown*: a missing field, arithmetic on types other than
numbers, a comparison of different types. Logic has three values: *unknown* AND FALSE is FALSE, *unknown* OR TRUE is
TRUE, and any other operation with *unknown*, including NOT, is *unknown*. A selector matches only if it is TRUE.

No closure raises, whatever the fields contain. The cost of each is at most the length of its text times the length of
its field: LIKE follows all paths through its pattern at once, one bit for each, instead of one after the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeGuard

from leveret.wire.fields import EPOCH, SECOND

Fields = Mapping[str, object]
Term = Callable[[Fields], object]

LONGEST_LIKE = 4_096  # characters; LIKE is unknown for longer texts
LIKE_STEPS, LIKE_BITS_PER_STEP = 3, 1_000  # measured, in steps of about 40 ns
ORDERINGS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def seconds_of(time: datetime) -> int:
    """Seconds since 1970, as on the wire; a time without a time zone is taken as UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // SECOND


def plain(value: object) -> object:
    """A field value for selectors. Tables and arrays are unchanged: they exist, but equal nothing."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return seconds_of(value)
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ---- values


def constant(value: object) -> Term:
    return lambda fields: value


def field(name: str) -> Term:
    def read(fields: Fields) -> object:
        try:
            value = fields[name]
        except KeyError:
            return None
        return value if value.__class__ is str else plain(value)

    return read


def negative(term: Term) -> Term:
    def negate(fields: Fields) -> object:
        value = term(fields)
        return -value if is_number(value) else None

    return negate


def positive(term: Term) -> Term:
    def keep(fields: Fields) -> object:
        value = term(fields)
        return value if is_number(value) else None

    return keep


def arithmetic(first: Term, rest: Sequence[tuple[str, Term]]) -> Term:
    """A sequence of operators of the same precedence, from left to right."""
    steps = [(ARITHMETIC[sign], term) for sign, term in rest]

    def calculate(fields: Fields) -> object:
        value = first(fields)
        if not is_number(value):
            return None
        for step, term in steps:
            other = term(fields)
            if not is_number(other):
                return None
            try:
                value = step(value, other)
            except ArithmeticError:  # division by zero, or a whole number too large for a float
                return None
        return value

    return calculate


def divide(left: float, right: float) -> float:
    """Division of whole numbers rounds towards zero, as in Java."""
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


# ---- comparisons


def equal(left: Term, right: Term) -> Term:
    def compare(fields: Fields) -> object:
        one, other = left(fields), right(fields)
        return one == other if _are_alike(one, other) else None

    return compare


def _are_alike(one: object, other: object) -> bool:
    if isinstance(one, str):
        return isinstance(other, str)
    if isinstance(one, bool):
        return isinstance(other, bool)
    return is_number(one) and is_number(other)


def ordered(sign: str, left: Term, right: Term) -> Term:
    holds = ORDERINGS[sign]

    def compare(fields: Fields) -> object:
        one, other = left(fields), right(fields)
        return holds(one, other) if is_number(one) and is_number(other) else None

    return compare


def between(term: Term, low: Term, high: Term) -> Term:
    return all_of([ordered(">=", term, low), ordered("<=", term, high)])


def one_of(term: Term, members: Sequence[str | int | float]) -> Term:
    """Whether the term equals a member; unknown if none is equal and a member has another type."""
    strings = frozenset(member for member in members if isinstance(member, str))
    numbers = frozenset(member for member in members if not isinstance(member, str))

    def search(fields: Fields) -> object:
        value = term(fields)
        if isinstance(value, str):
            return True if value in strings else None if numbers else False
        if is_number(value):
            return True if value in numbers else None if strings else False
        return None

    return search


def is_null(term: Term) -> Term:
    return lambda fields: term(fields) is None


class Meter:
    """Counts the work of the LIKE conditions of one selector, the only conditions whose work grows with the field."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


def like(term: Term, pattern: str, escape: str | None, meter: Meter) -> Term:
    matches = _like_matcher(pattern, escape)
    steps = LIKE_STEPS + len(pattern) // LIKE_BITS_PER_STEP  # for each character of the field

    def search(fields: Fields) -> object:
        value = term(fields)
        if not isinstance(value, str) or len(value) > LONGEST_LIKE:
            return None
        meter.steps += steps * len(value)
        return matches(value)

    return search


def _like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Bit n of ``reached`` is set if the first n single characters of the pattern match the text so far.

    A character moves a bit up if the pattern has that character, or ``_``, at its position; at ``%`` it may also stay.
    """
    accepting: dict[str, int] = {}
    anything = staying = 0
    place = 1
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            character = next(characters)
            accepting[character] = accepting.get(character, 0) | place
        elif character == "%":
            staying |= place
            continue
        elif character == "_":
            anything |= place
        else:
            accepting[character] = accepting.get(character, 0) | place
        place <<= 1
    accepting = {character: places | anything for character, places in accepting.items()}

    def matches(text: str) -> bool:
        reached = 1
        for character in text:
            reached = ((reached & accepting.get(character, anything)) << 1) | (reached & staying)
            if not reached:
                return False
        return bool(reached & place)

    return matches


# ---- logic


def negation(term: Term) -> Term:
    def deny(fields: Fields) -> object:
        value = term(fields)
        return not value if isinstance(value, bool) else None

    return deny


def all_of(terms: Sequence[Term]) -> Term:
    def conjoin(fields: Fields) -> object:
        result: bool | None = True
        for term in terms:
            value = term(fields)
            if value is False:
                return False
            if value is not True:
                result = None
        return result

    return conjoin


def any_of(terms: Sequence[Term]) -> Term:
    def disjoin(fields: Fields) -> object:
        result: bool | None = False
        for term in terms:
            value = term(fields)
            if value is True:
                return True
            if value is not False:
                result = None
        return result

    return disjoin
