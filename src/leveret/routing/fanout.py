"""Fanout exchanges: every bound destination, keys ignored. Hot path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leveret.routing.bindings import Binding, Destination, DestinationCounts
from leveret.routing.bounds import RoutingWork
from leveret.routing.exchange import Exchange


class FanoutExchange(Exchange):
    """All bound destinations, whatever the key of the binding or of the message."""

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
