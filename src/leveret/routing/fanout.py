"""Exchanges that ignore binding keys: fanout, and the base of types that choose one destination. Hot path."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from leveret.routing.bindings import Binding, Destination, DestinationCounts
from leveret.routing.bounds import NODE_STEPS, RoutingWork
from leveret.routing.exchange import Exchange


class FanoutExchange(Exchange):
    """Routes to all bound destinations, whatever the binding key and the routing key are."""

    kind = "fanout"
    looks_at_all_keys = False

    def prepare(self) -> None:
        self._bound = DestinationCounts()

    def link(self, binding: Binding) -> None:
        self._bound.gain(binding.destination)

    def unlink(self, binding: Binding) -> None:
        self._bound.lose(binding.destination)

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return self._bound


class SingleDestinationExchange(Exchange):
    """The base of exchange types that route each message to one of the bound destinations, by ``choose``.

    The destinations are sorted by kind and name, whatever the order of binding, so that equal sets of bindings lead to
    the same choice, also after a restart. A destination that is bound several times counts once. A binding with a
    selector is considered only for messages that it selects. Binding keys are ignored.
    """

    looks_at_all_keys = False  # one choice per message, not one per key

    def prepare(self) -> None:
        self._bound = DestinationCounts()
        self._in_order: list[Destination] = []

    @abstractmethod
    def choose(self, number: int, key: str) -> int:
        """An index below ``number``, which is at least 1."""

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

    def selector_view(self) -> Exchange:
        return FanoutExchange(self.name)  # every selector is evaluated

    def _one_of(self, candidates: Sequence[Destination], key: str) -> Iterable[Destination]:
        return (candidates[self.choose(len(candidates), key)],) if candidates else ()
