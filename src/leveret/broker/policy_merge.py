"""Merges arguments and policies into the effective values, and explains them.

The rules of merging, key by key:

- Of all policies that match, the first one sets the value; they are sorted by priority, then by name. Operator
  policies are sorted separately.
- For a limit, the smallest of argument, policy and operator policy applies. A negative limit means no limit.
- For all other keys, an argument wins over a policy.
- Keys that are not set have the defaults of queues/options.py. A default is listed if another key makes it relevant.
- A policy never makes a declaration fail: a value that conflicts with the arguments of the queue is ignored.

``effective_arguments`` and ``explain`` follow the same rules; a test compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from leveret.broker.policy import Policy
from leveret.broker.policy_keys import ARGUMENTS, BY_ARGUMENT, KEYS, LIMITS, About
from leveret.errors import PreconditionFailed
from leveret.queues.options import QueueOptions

Definition = Mapping[str, object]

DEFAULT = "default"


class Explained(NamedTuple):
    """A value and its source. A value that is overridden, or has no effect, is not effective."""

    key: str
    value: object
    source: str
    is_effective: bool


Explanation = list[Explained]


def merged(policies: Sequence[Policy]) -> dict[str, object]:
    """The values of policies; the first policy that has a key wins."""
    result: dict[str, object] = {}
    for policy in policies:
        for name, value in policy.definition.items():
            result.setdefault(name, value)
    return result


def effective_arguments(arguments: Definition, policy: Definition, operator: Definition) -> dict[str, object]:
    """The arguments of a queue as if it had been declared with its effective values."""
    effective = dict(arguments)
    for definition in (policy, operator):
        for name, value in definition.items():
            if KEYS[name].about == "queues":
                argument = ARGUMENTS[name]
                current = effective.get(argument)
                if current is None:
                    effective[argument] = value
                elif argument in LIMITS:
                    effective[argument] = min(current, value, key=_tightness)
    return effective


def _tightness(limit: object) -> float:
    return float("inf") if not isinstance(limit, int) or limit < 0 else limit


def exchange_definition(arguments: Definition, policy: Definition) -> dict[str, object]:
    """The effective values of an exchange that policies can set, by their keys."""
    given = _exchange_arguments(arguments)
    about = {name: value for name, value in policy.items() if KEYS[name].about == "exchanges"}
    return {name: given.get(ARGUMENTS[name], value) for name, value in about.items()}


def _exchange_arguments(arguments: Definition) -> dict[str, object]:
    """The arguments that have an effect: most policy keys of exchanges cannot be set by arguments."""
    policy_only = {argument for argument, key in BY_ARGUMENT.items() if not key.argument}
    return {name: value for name, value in arguments.items() if name not in policy_only and value is not None}


# ---- conflicts


def fitting_options(
    arguments: Definition, policy: Definition, operator: Definition, durable: bool, exclusive: bool
) -> tuple[QueueOptions, frozenset[str]]:
    """The options of a queue, and the policy keys that conflict with its arguments and are ignored."""
    try:
        return QueueOptions.of(effective_arguments(arguments, policy, operator), durable, exclusive), frozenset()
    except PreconditionFailed:
        pass
    options = QueueOptions.of(arguments, durable, exclusive)
    taken: set[str] = set()
    waiting = [*dict.fromkeys([*policy, *operator])]  # in order of precedence
    is_growing = True
    while is_growing:  # a key may require another key that follows it
        is_growing = False
        for name in [*waiting]:
            trial = effective_arguments(arguments, _only(policy, {*taken, name}), _only(operator, {*taken, name}))
            try:
                options = QueueOptions.of(trial, durable, exclusive)
            except PreconditionFailed:
                continue
            taken.add(name)
            waiting.remove(name)
            is_growing = True
    return options, frozenset(waiting)


def _only(definition: Definition, names: Collection[str]) -> dict[str, object]:
    return {name: value for name, value in definition.items() if name in names}


# ---- reasons


class _Offer(NamedTuple):
    value: object
    source: str


def explain(
    about: About,
    arguments: Definition,
    policies: Sequence[Policy],
    operators: Sequence[Policy],
    options: QueueOptions | None = None,
    left_out: Collection[str] = (),
) -> Explanation:
    """All values from all sources, key by key: first the effective value, then the values that it overrides.

    ``options``: the effective options of a queue; ``left_out``: policy keys that conflict with its arguments.
    """
    given = _exchange_arguments(arguments) if about == "exchanges" else arguments
    names = {argument: _key_of(argument) for argument, value in given.items() if value is not None}
    said = {name for policy in (*policies, *operators) for name in policy.definition}
    names |= {ARGUMENTS[name]: name for name in said if KEYS[name].about in (about, "nothing")}
    found: list[Explained] = []
    for argument, name in sorted(names.items(), key=lambda pair: pair[1]):
        offers = _offers(given.get(argument), name, policies, operators)
        winner = _winner(argument, name, about, offers, left_out)
        if winner is not None:
            found.append(Explained(name, *winner, True))
        found += (Explained(name, *offer, False) for group in offers for offer in group if offer is not winner)
    settled = {each.key for each in found if each.is_effective}
    defaults = _defaults(settled, options) if options is not None else {}
    return found + [Explained(name, value, DEFAULT, True) for name, value in defaults.items() if name not in settled]


def _defaults(settled: Collection[str], options: QueueOptions) -> dict[str, object]:
    """The defaults that other keys make relevant."""
    found: dict[str, object] = {}
    target = options.dead_letter
    by_strategy = target is not None and target.makes_queue
    if target is not None and by_strategy:
        shared = target.key is not None
        found["dead-letter-queue" if shared else "dead-letter-queue-prefix"] = target.key or target.key_prefix
        found |= {"process-expired": target.takes_expired, "process-non-persistent": target.takes_transient}
    if options.delivery_limit is not None and not {"delivery-limit", "max-redeliveries"} & {*settled}:
        found["max-redeliveries" if by_strategy else "delivery-limit"] = options.delivery_limit
    if "max-length" in settled or "max-length-bytes" in settled:
        found["overflow"] = options.overflow
    if options.duplicates is not None:
        found["deduplication-header"] = options.duplicates.header
    return found


def _key_of(argument: str) -> str:
    key = BY_ARGUMENT.get(argument)
    return argument.removeprefix("x-") if key is None else key.name


def _offers(
    argument: object, name: str, policies: Sequence[Policy], operators: Sequence[Policy]
) -> tuple[list[_Offer], list[_Offer], list[_Offer]]:
    """The values set by the argument, by policies and by operator policies; each list in order of precedence."""

    def by(policies: Sequence[Policy]) -> list[_Offer]:
        return [_Offer(each.definition[name], each.label) for each in policies if name in each.definition]

    return [] if argument is None else [_Offer(argument, "argument")], by(policies), by(operators)


def _winner(
    argument: str, name: str, about: About, offers: Sequence[Sequence[_Offer]], left_out: Collection[str]
) -> _Offer | None:
    key = KEYS.get(name)
    by_policies_too = key is not None and key.about == about and name not in left_out
    firsts = [group[0] for group in (offers if by_policies_too else offers[:1]) if group]
    if argument in LIMITS and firsts:
        return min(firsts, key=lambda offer: _tightness(offer.value))
    return firsts[0] if firsts else None
