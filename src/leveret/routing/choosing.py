"""Exchanges that give each message to one of the bound destinations: by the hash of its key, or by chance.

The destinations stand in one order, by kind and name, whatever the order of binding, so that equal sets of bindings
choose alike, also after a restart. However often a destination is bound, it stands there once. A binding with a
selector takes part in the choice of the messages that it selects, and in no other.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from xxhash import xxh3_64_intdigest

from leveret.delivery.selector import selector_of
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination, DestinationCounts
from leveret.routing.bounds import NODE_STEPS, RoutingWork
from leveret.routing.chance import Chance
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange


class ChoosingExchange(Exchange):
    """A type says by ``choose`` which of so many destinations it is; binding keys play no part."""

    looks_at_all_keys = False  # one choice for each message, not one for each key

    def prepare(self) -> None:
        self._bound = DestinationCounts()
        self._in_order: list[Destination] = []

    @abstractmethod
    def choose(self, number: int, key: str) -> int:
        """A place below ``number``, which is at least 1."""

    def link(self, binding: Binding) -> None:
        if binding.destination not in self._bound:
            insort(self._in_order, binding.destination)
        self._bound.gain(binding.destination)

    def unlink(self, binding: Binding) -> None:
        self._bound.lose(binding.destination)
        if binding.destination not in self._bound:
            del self._in_order[bisect_left(self._in_order, binding.destination)]

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return self._one_of(self._in_order, key)

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        work.spend(NODE_STEPS * (len(self._bound) + len(taking)))
        return self._one_of(sorted({*self._bound, *(binding.destination for binding in taking)}), key)

    def view_of_selected(self) -> Exchange:
        return FanoutExchange(self.name)  # all of them are asked, not one

    def _one_of(self, candidates: Sequence[Destination], key: str) -> Iterable[Destination]:
        return (candidates[self.choose(len(candidates), key)],) if candidates else ()


class Spread(Protocol):
    """Somebody who says for an exchange which of its destinations a key goes to."""

    def reach(self, key: str) -> Iterable[Destination]: ...

    def rebound(self) -> None:
        """The destinations of the exchange are others now."""


class ModulusHashExchange(ChoosingExchange):
    """The hash of the routing key, modulo the number of destinations: a key stays where it is while the set does.

    With a ``spread`` that one decides. It keeps the order of a key when the set changes, by knowing its queues: hence
    the exchange leads to queues only, and to all that it is bound to alike.
    """

    kind = "x-modulus-hash"

    def prepare(self) -> None:
        super().prepare()
        self.spread: Spread | None = None

    def choose(self, number: int, key: str) -> int:
        return xxh3_64_intdigest(key.encode()) % number

    def bound(self) -> list[Destination]:
        """Where it leads, in order."""
        return self._in_order[:]

    def accept(self, binding: Binding) -> None:
        if self.spread is None:
            return
        if binding.destination.kind != "queue" or selector_of(binding.arguments) is not None:
            raise PreconditionFailed(
                f"cannot bind {binding.destination.kind} '{binding.destination.name}' to exchange '{self.name}', which "
                "is resized in order by a policy: bind a queue, without x-selector"
            )

    def link(self, binding: Binding) -> None:
        super().link(binding)
        if self.spread is not None:
            self.spread.rebound()

    def unlink(self, binding: Binding) -> None:
        super().unlink(binding)
        if self.spread is not None:
            self.spread.rebound()

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return super().reach(key, headers, work) if self.spread is None else self.spread.reach(key)

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        return super().reach_with(taking, key, headers, work) if self.spread is None else self.spread.reach(key)


class RandomExchange(ChoosingExchange):
    """Any of them, anew for each message. ``chance`` may be replaced by one with another seed."""

    kind = "x-random"
    looks_at_headers = True

    def prepare(self) -> None:
        super().prepare()
        self.chance = Chance(0)

    def choose(self, number: int, key: str) -> int:
        return self.chance.below(number)


class LocalRandomExchange(RandomExchange):
    """The same among the queues of this node; it leads to queues only, and its bindings have no key."""

    kind = "x-local-random"

    def accept(self, binding: Binding) -> None:
        if binding.key:
            raise PreconditionFailed(
                f"Non empty binding '{binding.key}' key not permitted for exchange '{self.name}' of type "
                f"'{self.kind}': bind with an empty key"
            )
        if binding.destination.kind != "queue":
            raise PreconditionFailed(
                f"exchange '{binding.destination.name}' cannot be bound to exchange '{self.name}': type "
                f"'{self.kind}' leads to queues only"
            )
