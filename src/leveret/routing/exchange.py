"""The interface of an exchange type.

An exchange indexes the bindings that lead away from it for fast matching, and returns the destinations that a message
reaches. It has no reference to queues and stores no messages.

The broker calls ``validate_binding``, ``bind``, ``unbind`` and ``destinations``. They handle bindings with a selector
(see ``SelectorBindings``) and leave the rest to the type: a new type creates its empty index in ``prepare`` and
implements ``link``, ``unlink`` and ``reach``; everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from leveret.delivery.selector import Selector, selector_of
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import Bounds, RoutingWork

ALTERNATE_EXCHANGE = "alternate-exchange"


class Exchange(ABC):
    """One exchange of a virtual host.

    ``alternate`` comes from the argument; a policy may set it if the argument is absent. Two flags belong to the type,
    and ``prepare`` may change them for an instance, depending on its arguments:

    - ``looks_at_headers``: routes by more than the key (headers, random numbers), so a route must not be cached.
      Also True while a binding has a selector.
    - ``looks_at_all_keys``: if False, only the first key of a message with several (CC, BCC) is routed.

    The ``headers`` arguments hold the properties too, see ``delivery.selector.MessageFields``.
    """

    kind: ClassVar[str]
    looks_at_headers: bool = False
    looks_at_all_keys: bool = True

    def __init__(
        self,
        name: str,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments: Mapping[str, object] = {} if arguments is None else arguments
        self.alternate: str | None = self._alternate_from_arguments()
        self.prepare()
        self._looks_without_selectors = self.looks_at_headers
        self._selected: SelectorBindings | None = None

    @property
    def routes_as(self) -> str:
        """The exchange type whose rules decide where messages go."""
        return self.kind

    @property
    def names_queues(self) -> bool:
        """Whether it reaches queues by their names, without a binding."""
        return self.alternate == "" or bool(self.arguments.get("x-implicit-bindings"))

    # ---- for the broker

    def validate_binding(self, binding: Binding) -> None:
        """Raise PreconditionFailed for a binding that cannot be used. Called before ``bind``; changes nothing."""
        selector_of(binding.arguments)
        self.accept(binding)

    def bind(self, binding: Binding) -> None:
        """Add a binding that is valid and does not exist yet."""
        selector = selector_of(binding.arguments)
        if selector is None:
            self.link(binding)
            return
        if self._selected is None:
            self._selected = SelectorBindings(self.selector_view())
            self.looks_at_headers = True
        self._selected.add(binding, selector)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that was added before."""
        if self._selected is None or binding not in self._selected:
            self.unlink(binding)
            return
        self._selected.remove(binding)
        if not self._selected:
            self._selected = None
            self.looks_at_headers = self._looks_without_selectors

    def destinations(
        self, key: str, headers: Mapping[str, object], work: RoutingWork | None = None
    ) -> Iterable[Destination]:
        """The destinations of a message. May repeat one; the result is read at once, before any bind or unbind.

        RoutingRefused if routing takes more steps than ``work`` has left.
        """
        if work is None:
            work = RoutingWork()
        if self._selected is None:
            return self.reach(key, headers, work)
        return self.reach_with(self._selected.matching(key, headers, work), key, headers, work)

    # ---- for exchange types

    def prepare(self) -> None:  # noqa: B027 - a hook with nothing to do by default
        """Read the arguments of the type (PreconditionFailed if one is invalid), and create the empty index."""

    def accept(self, binding: Binding) -> None:  # noqa: B027 - most types accept every binding
        """Raise PreconditionFailed for a binding that this type cannot use; change nothing."""

    @abstractmethod
    def link(self, binding: Binding) -> None:
        """Add a binding without a selector to the index."""

    @abstractmethod
    def unlink(self, binding: Binding) -> None:
        """Remove a binding from the index."""

    def exceeds(self, binding: Binding, bounds: Bounds) -> str | None:
        """The reason to refuse a valid new binding, or None; bindings created before the limit was set stay."""
        return None

    @abstractmethod
    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        """The destinations of the bindings in the index that match the message.

        A type that examines more than it returns spends steps of ``work`` on that, before or during the work.
        """

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        """As ``reach``, including bindings that match the message by key and selector.

        A type that chooses one of its bindings also chooses among these.
        """
        return [*self.reach(key, headers, work), *(binding.destination for binding in taking)]

    def selector_view(self) -> Exchange:
        """An empty exchange with the same matching rules, for the bindings with selectors."""
        return type(self)(self.name, self.durable, self.auto_delete, self.internal, self.arguments)

    def _alternate_from_arguments(self) -> str | None:
        alternate = self.arguments.get(ALTERNATE_EXCHANGE)
        if alternate is None or isinstance(alternate, str):
            return alternate
        raise PreconditionFailed(
            f"invalid type '{type(alternate).__name__}' for arg '{ALTERNATE_EXCHANGE}' in exchange '{self.name}': "
            "expected a string"
        )


class SelectorBinding(NamedTuple):
    binding: Binding
    selector: Selector


class SelectorBindings:
    """The bindings of one exchange that have a selector.

    Key and arguments are matched by a private exchange of the same type, the *view*, which holds only these bindings.
    In it each binding leads to a placeholder destination of its own, so the result shows the bindings that matched, not
    only their destinations. Only the selectors of these are evaluated: bindings with other keys cost nothing.
    """

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
        # an exchange, because a queue that the view reaches by x-implicit-bindings is not a placeholder
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
