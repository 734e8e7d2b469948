"""One policy: a rule that gives values to all queues or exchanges whose names match its pattern.

A pattern is a regular expression that matches anywhere in the name, with the rules of ``auth/permissions.py``; the
empty one matches every name. After ``activemq:`` it is a destination as in ActiveMQ: words between dots, ``*`` for any
one word, ``>`` at the end for all remaining words (``a.>`` matches ``a`` too).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from leveret.auth.permissions import LONGEST_PATTERN, SECONDS_PER_MATCH, compile_pattern
from leveret.broker.policy_keys import check_definition
from leveret.errors import ConfigError, PreconditionFailed

ACTIVEMQ = "activemq:"
ONE_WORD, THE_REST = "*", ">"

Matches = Callable[[str], bool]  # may raise TimeoutError

EXCHANGE = "exchange"  # a policy may apply to exchanges, besides the queue types
QUEUES = frozenset({"classic", "quorum", "stream"})
APPLY_TO: dict[str, frozenset[str]] = {
    "all": QUEUES | {EXCHANGE},
    "queues": QUEUES,
    "classic_queues": frozenset({"classic"}),
    "quorum_queues": frozenset({"quorum"}),
    "streams": frozenset({"stream"}),
    "exchanges": frozenset({EXCHANGE}),
}
LONGEST_NAME = 255  # bytes
LARGEST_DEFINITION = 1 << 16  # bytes of JSON
LARGEST_PRIORITY = (1 << 31) - 1


def name_matcher(pattern: str) -> Matches:
    """The matcher for a pattern; PreconditionFailed names the error in the pattern."""
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
    """Without groups and with one repetition at most, a search takes time quadratic in the length of the name at worst,
    and names are short. Checking a timeout costs four times the search itself, which matters for thousands of names."""
    return "(" not in pattern and sum(map(pattern.count, "*+?{")) <= 1


def _destination_matcher(destination: str) -> Matches:
    words = destination.split(".")
    if not destination or THE_REST in words[:-1]:
        raise PreconditionFailed(
            f"pattern '{ACTIVEMQ}{destination}' is not a destination: write words between dots, '*' for one of them, "
            "and '>' only as the last"
        )
    if words[-1] != THE_REST:
        return lambda name: _agree(words, name.split("."))
    before = words[:-1]
    return lambda name: _agree(before, name.split(".")[: len(before)])


def _agree(words: list[str], name: list[str]) -> bool:
    return len(words) == len(name) and all(word in (ONE_WORD, part) for word, part in zip(words, name, strict=True))


@dataclass(slots=True, frozen=True)
class Policy:
    vhost: str
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: Mapping[str, object]
    operator: bool
    matches: Matches = field(repr=False, compare=False)

    def covers(self, kind: str, name: str) -> bool:
        """Whether the policy applies to this queue or exchange. TimeoutError: the pattern is too slow on its name."""
        return kind in APPLY_TO[self.apply_to] and self.matches(name)

    @property
    def label(self) -> str:
        return f"{'operator ' if self.operator else ''}policy {self.name}"

    @property
    def order(self) -> tuple[int, str]:
        """Sorts by precedence: higher priority first, then by name."""
        return -self.priority, self.name


def make_policy(
    vhost: str,
    name: str,
    pattern: str,
    definition: Mapping[str, object],
    apply_to: str,
    priority: int,
    operator: bool,
) -> Policy:
    """A validated policy; PreconditionFailed names the policy and the invalid part."""
    try:
        _check_head(name, pattern, apply_to, priority)
        matches = name_matcher(pattern)
        own = _as_json(definition)
        check_definition(own, operator)
    except PreconditionFailed as problem:
        kind = "operator policy" if operator else "policy"
        raise PreconditionFailed(f"{kind} {str(name)[:LONGEST_NAME]!r} in vhost '{vhost}': {problem.text}") from None
    return Policy(vhost, name, pattern, apply_to, priority, own, operator, matches)


def _check_head(name: object, pattern: object, apply_to: object, priority: object) -> None:
    if not isinstance(name, str) or not 1 <= len(name.encode(errors="replace")) <= LONGEST_NAME:
        raise PreconditionFailed(f"its name must be a text of 1 to {LONGEST_NAME} bytes")
    if not isinstance(pattern, str):
        raise PreconditionFailed(f"pattern {pattern!r} is not a string")
    if not isinstance(apply_to, str) or apply_to not in APPLY_TO:
        raise PreconditionFailed(f"apply-to {apply_to!r} is not one of {', '.join(APPLY_TO)}")
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > LARGEST_PRIORITY:
        raise PreconditionFailed(f"priority {priority!r} is not a whole number of up to {LARGEST_PRIORITY}")


def _as_json(definition: object) -> dict[str, object]:
    """A copy that contains only JSON values, which are the same after they are stored and restored."""
    if not isinstance(definition, Mapping):
        raise PreconditionFailed(f"definition {definition!r} is not an object of keys and values")
    try:
        text = json.dumps(dict(definition))
    except (TypeError, ValueError, RecursionError) as problem:
        raise PreconditionFailed(f"definition cannot be written as JSON: {problem}") from None
    if len(text) > LARGEST_DEFINITION:
        raise PreconditionFailed(f"definition takes more than {LARGEST_DEFINITION} bytes")
    return dict(json.loads(text))
