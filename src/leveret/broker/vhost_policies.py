"""The policies of one virtual host, and the effective values of its queues and exchanges.

The effective values of a queue are computed when it is declared and when a policy changes, and are kept in its options.
Those of an exchange are kept here, so that hooks are called only for changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from leveret.broker.policy import EXCHANGE, Policy
from leveret.broker.policy_keys import LOCATOR_KEY
from leveret.broker.policy_merge import Explanation, exchange_definition, explain, fitting_options, merged
from leveret.logs import get_log
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.leader_locator import LEADER_LOCATOR, LOCATORS
from leveret.queues.options import QUEUE_TYPE, USUAL, QueueOptions
from leveret.routing.exchange import ALTERNATE_EXCHANGE, Exchange

Matching = tuple[list[Policy], list[Policy]]  # ordinary and operator policies, each in their order
KnownOptions = dict[object, tuple[QueueOptions, frozenset[str]]]


class VhostPolicies:
    __slots__ = ("_all", "_on_change", "_operators", "_ordinary", "changes", "definitions")

    def __init__(self, on_change: Callable[[str, Mapping[str, object]], None]) -> None:
        self._all: dict[tuple[bool, str], Policy] = {}
        self.changes = 0
        self._ordinary: list[Policy] = []
        self._operators: list[Policy] = []
        self.definitions: dict[str, Mapping[str, object]] = {}  # of exchanges that a policy applies to
        self._on_change = on_change

    def get(self, name: str, operator: bool) -> Policy | None:
        return self._all.get((operator, name))

    def in_order(self) -> tuple[Policy, ...]:
        """The policies in order of precedence, operator policies last."""
        return (*self._ordinary, *self._operators)

    def put(self, policy: Policy) -> None:
        self._all[policy.operator, policy.name] = policy
        self._sort()

    def drop(self, policy: Policy) -> None:
        del self._all[policy.operator, policy.name]
        self._sort()

    def _sort(self) -> None:
        self.changes += 1
        everything = sorted(self._all.values(), key=lambda policy: policy.order)
        self._ordinary = [policy for policy in everything if not policy.operator]
        self._operators = [policy for policy in everything if policy.operator]

    def matching(self, kind: str, name: str) -> Matching:
        return _covering(self._ordinary, kind, name), _covering(self._operators, kind, name)

    # ---- queues

    def options_of(
        self, name: str, arguments: Mapping[str, object], durable: bool, exclusive: bool = False
    ) -> QueueOptions:
        """The effective options of a new queue; PreconditionFailed if its own arguments are invalid."""
        own = QueueOptions.of(arguments, durable, exclusive)
        if not self._all:
            return own
        policies, operators = self.matching(own.kind, name)
        if not policies and not operators:
            return own
        options, left_out = fitting_options(arguments, merged(policies), merged(operators), durable, exclusive)
        _say_left_out(name, left_out)
        return options

    def options_now(self, queue: DeclaredQueue, known: KnownOptions) -> QueueOptions:
        """The effective options of an existing queue. ``known`` caches the options of queues with the same arguments
        and policies: among thousands of queues, few differ in these."""
        policies, operators = self.matching(queue.options.kind, queue.name)
        arguments, exclusive = queue.arguments, queue.owner is not None
        names = tuple((each.operator, each.name) for each in (*policies, *operators))
        key = (names, queue.durable, exclusive, repr(arguments) if arguments else "")
        found = known.get(key)
        if found is None:
            given = (arguments, merged(policies), merged(operators), queue.durable, exclusive)
            found = known[key] = fitting_options(*given)
        _say_left_out(queue.name, found[1])
        return found[0]

    def leader_locator(self, name: str, arguments: Mapping[str, object]) -> str | None:
        """The locator of a queue that is about to be declared; None without a valid one."""
        given = arguments.get(LEADER_LOCATOR)
        if given is None and self._all:
            kind = arguments.get(QUEUE_TYPE) or USUAL[QUEUE_TYPE]
            given = merged(self.matching(str(kind), name)[0]).get(LOCATOR_KEY)
        return LOCATORS.get(str(given))

    # ---- exchanges

    def follow(self, exchange: Exchange) -> bool:
        """Apply the effective policies to the exchange; returns whether they changed."""
        if not self._all and exchange.name not in self.definitions:
            return False
        policies, _ = self.matching(EXCHANGE, exchange.name)
        definition = exchange_definition(exchange.arguments, merged(policies)) if policies else {}
        if definition == self.definitions.get(exchange.name, {}):
            return False
        alternate = exchange.arguments.get(ALTERNATE_EXCHANGE, definition.get(ALTERNATE_EXCHANGE))
        exchange.alternate = None if alternate is None else str(alternate)
        if definition:
            self.definitions[exchange.name] = definition
        else:
            del self.definitions[exchange.name]
        return True

    def tell_of(self, exchange: str) -> None:
        self._on_change(exchange, self.definitions.get(exchange, {}))

    def forget_exchange(self, name: str) -> None:
        """Forget a deleted exchange; hooks are called with an empty definition."""
        if self.definitions.pop(name, None) is not None:
            self.tell_of(name)

    def forget_exchanges(self) -> None:
        for name in [*self.definitions]:
            self.forget_exchange(name)

    # ---- reasons

    def explain(self, thing: DeclaredQueue | Exchange) -> Explanation:
        """The source of each effective value of a queue or exchange."""
        if isinstance(thing, Exchange):
            policies, operators = self.matching(EXCHANGE, thing.name) if thing.name else ([], [])
            return explain("exchanges", thing.arguments, policies, operators)
        policies, operators = self.matching(thing.options.kind, thing.name)
        exclusive = thing.owner is not None
        options, left_out = fitting_options(
            thing.arguments, merged(policies), merged(operators), thing.durable, exclusive
        )
        return explain("queues", thing.arguments, policies, operators, options, left_out)


def _say_left_out(queue: str, keys: frozenset[str]) -> None:
    if keys:
        get_log("broker").warning(
            "policy keys cannot be combined with the queue's arguments and are ignored",
            queue=queue,
            keys=", ".join(sorted(keys)),
        )


def _covering(policies: Sequence[Policy], kind: str, name: str) -> list[Policy]:
    found = []
    for policy in policies:
        try:
            if policy.covers(kind, name):
                found.append(policy)
        except TimeoutError:  # the pattern was fast on all names that existed when it was set
            get_log("broker").warning(
                "policy pattern takes too long to match and is ignored", policy=policy.name, name=name
            )
    return found
