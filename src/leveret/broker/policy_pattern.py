"""Which names a policy is for.

A pattern is a regular expression that matches anywhere in the name, with the rules of ``auth/permissions.py``; the
empty one matches every name. After ``activemq:`` it is a destination as ActiveMQ writes them: words between dots,
``*`` for any one word, ``>`` at the end for everything from there on (``a.>`` takes ``a`` too).
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.auth.permissions import LONGEST_PATTERN, SECONDS_PER_MATCH, compile_pattern
from leveret.errors import ConfigError, PreconditionFailed

ACTIVEMQ = "activemq:"
ONE_WORD, THE_REST = "*", ">"

Matches = Callable[[str], bool]  # may raise TimeoutError


def name_matcher(pattern: str) -> Matches:
    """PreconditionFailed says what is wrong with the pattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise PreconditionFailed(
            f"pattern {pattern[:40]!r}... is too long: at most {LONGEST_PATTERN} characters are accepted"
        )
    if pattern.startswith(ACTIVEMQ):
        return _destination_matcher(pattern.removeprefix(ACTIVEMQ))
    if not pattern:
        return lambda name: True
    try:
        search = compile_pattern(pattern).search
    except ConfigError as problem:
        raise PreconditionFailed(str(problem)) from None
    if _is_quick(pattern):
        return lambda name: search(name) is not None
    return lambda name: search(name, timeout=SECONDS_PER_MATCH) is not None


def _is_quick(pattern: str) -> bool:
    """Without groups and with one repetition at most, a search grows with the square of a name at worst, and names are
    short. To look at the time costs four times the search itself, which counts when thousands of names are asked."""
    return "(" not in pattern and sum(map(pattern.count, "*+?{")) <= 1


def _destination_matcher(destination: str) -> Matches:
    words = destination.split(".")
    if not destination or THE_REST in words[:-1]:
        raise PreconditionFailed(
            f"pattern '{ACTIVEMQ}{destination}' is no destination: write words between dots, '*' for one of them, and "
            "'>' only as the last"
        )
    if words[-1] != THE_REST:
        return lambda name: _agree(words, name.split("."))
    before = words[:-1]
    return lambda name: _agree(before, name.split(".")[: len(before)])


def _agree(words: list[str], name: list[str]) -> bool:
    return len(words) == len(name) and all(word in (ONE_WORD, part) for word, part in zip(words, name, strict=True))
