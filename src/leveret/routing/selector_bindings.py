"""The bindings of one exchange that have a selector.

Key and arguments are matched by a private exchange of the same type, the *view*, which holds only these bindings. In it
each binding leads to a placeholder destination of its own, so the result names the bindings that matched, not only
their destinations. Only the selectors of those are evaluated: a thousand bindings with other keys cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from leveret.delivery.selector import Selector
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import RoutingWork

if TYPE_CHECKING:
    from leveret.routing.exchange import Exchange


class SelectorBinding(NamedTuple):
    binding: Binding
    selector: Selector


class SelectorBindings:
    def __init__(self, view: Exchange) -> None:
        self._view = view
        self._in_view: dict[Binding, Binding] = {}
        self._by_placeholder: dict[Destination, SelectorBinding] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._in_view)

    def __contains__(self, binding: Binding) -> bool:
        return binding in self._in_view

    def add(self, binding: Binding, selector: Selector) -> None:
        self._made += 1
        # of kind exchange: a queue that the view reaches by x-implicit-bindings is no placeholder
        placeholder = Destination("exchange", str(self._made))
        seen = Binding(binding.source, placeholder, binding.key, binding.arguments)
        self._in_view[binding] = seen
        self._by_placeholder[placeholder] = SelectorBinding(binding, selector)
        self._view.link(seen)

    def remove(self, binding: Binding) -> None:
        seen = self._in_view.pop(binding)
        del self._by_placeholder[seen.destination]
        self._view.unlink(seen)

    def matching(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> list[Binding]:
        """The bindings that match the message, by key and by selector."""
        matched: list[Binding] = []
        for stop in self._view.reach(key, headers, work):
            found = self._by_placeholder.get(stop)
            if found is not None:
                matches, steps = found.selector.asked(headers)
                work.spend(steps)
                if matches:
                    matched.append(found.binding)
        return matched
