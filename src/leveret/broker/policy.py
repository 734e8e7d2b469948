"""One policy: a rule that gives values to all queues or exchanges whose names it matches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from leveret.broker.policy_keys import check_definition
from leveret.broker.policy_pattern import Matches, name_matcher
from leveret.errors import PreconditionFailed

EXCHANGE = "exchange"  # besides the queue types, what a policy may apply to
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
        """Whether it applies to this queue or exchange. TimeoutError: the pattern takes too long on that name."""
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
    """A copy that contains only JSON values, which are restored unchanged from disk."""
    if not isinstance(definition, Mapping):
        raise PreconditionFailed(f"definition {definition!r} is not an object of keys and values")
    try:
        text = json.dumps(dict(definition))
    except (TypeError, ValueError, RecursionError) as problem:
        raise PreconditionFailed(f"definition cannot be written as JSON: {problem}") from None
    if len(text) > LARGEST_DEFINITION:
        raise PreconditionFailed(f"definition takes more than {LARGEST_DEFINITION} bytes")
    return dict(json.loads(text))
