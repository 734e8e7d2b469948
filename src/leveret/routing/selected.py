"""The bindings of one exchange that have a selector.

Key and arguments are matched as the type of the exchange does it: a private exchange of that type, the *view*, holds
these bindings alone. There each leads to a stand-in, a destination of its own, so that what the view reaches says which
bindings took the message, not only where they lead. Only their selectors are asked then: a thousand bindings under
other keys cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from leveret.delivery.selector import Selector
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import RoutingWork

if TYPE_CHECKING:
    from leveret.routing.exchange import Exchange


class Selected(NamedTuple):
    binding: Binding
    selector: Selector


class SelectedBindings:
    def __init__(self, view: Exchange) -> None:
        self._view = view
        self._seen_as: dict[Binding, Binding] = {}
        self._behind: dict[Destination, Selected] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._seen_as)

    def __contains__(self, binding: Binding) -> bool:
        return binding in self._seen_as

    def add(self, binding: Binding, selector: Selector) -> None:
        self._made += 1
        # named as an exchange: the queues that a view reaches by itself (x-implicit-bindings) are never taken for one
        stand_in = Destination("exchange", str(self._made))
        seen = Binding(binding.source, stand_in, binding.key, binding.arguments)
        self._seen_as[binding] = seen
        self._behind[stand_in] = Selected(binding, selector)
        self._view.link(seen)

    def remove(self, binding: Binding) -> None:
        seen = self._seen_as.pop(binding)
        del self._behind[seen.destination]
        self._view.unlink(seen)

    def taking(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> list[Binding]:
        """The bindings that take the message, by key and by selector."""
        taken: list[Binding] = []
        for stop in self._view.reach(key, headers, work):
            found = self._behind.get(stop)
            if found is not None:
                matches, steps = found.selector.asked(headers)
                work.spend(steps)
                if matches:
                    taken.append(found.binding)
        return taken
