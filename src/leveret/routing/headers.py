"""Headers exchanges: the arguments of a binding are compared with the headers of the message.

``x-match`` is ``all`` (the default) or ``any`` of the arguments; arguments named ``x-...`` are ignored. ``all-with-x``
and ``any-with-x`` include them, except ``x-match`` itself. An argument without a value requires only that the header
exists. So a binding without arguments matches every message with ``all``, and none with ``any``. ``x-selector`` is
never compared either (routing/exchange.py). Values are compared as in RabbitMQ, see ``field_values.matchable``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from leveret.delivery.selector import X_SELECTOR
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import FREE_HEADERS, HEADER_STEPS, RULE_STEPS, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.field_values import matchable

X_MATCH = "x-match"
X_MATCH_VALUES = ("all", "any", "all-with-x", "any-with-x")


class MatchableValues(dict[str, Hashable]):
    """The headers of one message in the form that is compared, each converted when first needed."""

    def __init__(self, headers: Mapping[str, object]) -> None:
        self._headers = headers

    def __missing__(self, name: str) -> Hashable:
        value = self[name] = matchable(self._headers[name])
        return value


class HeaderRule(NamedTuple):
    """The arguments of one binding, parsed once: required values by header, None if the header only has to exist."""

    needs_all: bool
    wanted: tuple[tuple[str, Hashable], ...]

    def takes(self, headers: Mapping[str, object], values: MatchableValues) -> bool:
        for name, value in self.wanted:
            met = name in headers and (value is None or values[name] == value)
            if met != self.needs_all:
                return met  # the first match decides 'any', the first mismatch decides 'all'
        return self.needs_all


def header_rule(arguments: Mapping[str, object]) -> HeaderRule:
    """Parse the arguments of a binding; PreconditionFailed if ``x-match`` is not one of the four values."""
    how = arguments.get(X_MATCH, "all")
    if not isinstance(how, str):
        raise PreconditionFailed(f"Invalid x-match field type {type(how).__name__} (value {how!r}); expected longstr")
    if how not in X_MATCH_VALUES:
        raise PreconditionFailed(f"Invalid x-match field value {how!r}; expected all, any, all-with-x, or any-with-x")
    with_x = how.endswith("-with-x")
    wanted = tuple(
        (name, None if value is None else matchable(value))
        for name, value in arguments.items()
        if name not in (X_MATCH, X_SELECTOR) and (with_x or not name.startswith("x-"))
    )
    return HeaderRule(how.startswith("all"), wanted)


def steps_of(arguments: Mapping[str, object]) -> int:
    """The maximum number of steps to compare a message with these arguments."""
    return RULE_STEPS + HEADER_STEPS * max(_leaves(arguments) - FREE_HEADERS, 0)


def _leaves(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(map(_leaves, value.values()))
    return sum(map(_leaves, value)) if isinstance(value, (list, tuple)) else 1


class HeadersExchange(Exchange):
    """Compares one binding after the other; the routing key is ignored."""

    kind = "headers"
    looks_at_headers = True
    looks_at_all_keys = False

    def prepare(self) -> None:
        self._rules: dict[Binding, HeaderRule] = {}
        self._steps = 0  # to compare a message with all bindings

    def accept(self, binding: Binding) -> None:
        header_rule(binding.arguments)

    def link(self, binding: Binding) -> None:
        self._rules[binding] = header_rule(binding.arguments)
        self._steps += steps_of(binding.arguments)

    def unlink(self, binding: Binding) -> None:
        del self._rules[binding]
        self._steps -= steps_of(binding.arguments)

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        work.spend(self._steps)
        values = MatchableValues(headers)
        return [binding.destination for binding, rule in self._rules.items() if rule.takes(headers, values)]
