"""The contract of an exchange type.

An exchange holds its own view of the bindings that lead away from it, in whatever shape makes matching fast, and
answers which destinations a message reaches. It knows no queues and keeps no messages.

The house calls ``validate_binding``, ``bind``, ``unbind`` and ``destinations``. They set bindings with a selector apart
(see selected.py) and leave the rest to the type: a new one makes its empty view in ``prepare`` and overrides ``link``,
``unlink`` and ``reach``; everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from leveret.delivery.selector import selector_of
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import Bounds, RoutingWork
from leveret.routing.selected import SelectedBindings

ALTERNATE_EXCHANGE = "alternate-exchange"


class Exchange(ABC):
    """One exchange of a virtual host.

    ``alternate`` comes from the argument; a policy may set it later where the argument is absent. The two questions
    are answered per type, and an instance whose arguments decide otherwise may answer for itself in ``prepare``:

    - ``looks_at_headers``: routes by more than the key (headers, chance, load), so a route must not be remembered.
      True as well while a binding has a selector.
    - ``looks_at_all_keys``: False lets the router ask by the first key only, where a message carries several (CC, BCC).

    What is given as headers holds more than headers, see ``delivery.selector.MessageFields``.
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
        self._looks_anyway = self.looks_at_headers
        self._selected: SelectedBindings | None = None

    @property
    def routes_as(self) -> str:
        """The exchange type whose rules decide where messages go."""
        return self.kind

    @property
    def names_queues(self) -> bool:
        """Whether it reaches queues by their names, without a binding."""
        return self.alternate == "" or bool(self.arguments.get("x-implicit-bindings"))

    # ---- what the house calls

    def validate_binding(self, binding: Binding) -> None:
        """Refuse, by PreconditionFailed, a binding that cannot be used. Called before ``bind``; changes nothing."""
        selector_of(binding.arguments)
        self.accept(binding)

    def bind(self, binding: Binding) -> None:
        """Take in a binding that is valid and not yet there."""
        selector = selector_of(binding.arguments)
        if selector is None:
            self.link(binding)
            return
        if self._selected is None:
            self._selected = SelectedBindings(self.view_of_selected())
            self.looks_at_headers = True
        self._selected.add(binding, selector)

    def unbind(self, binding: Binding) -> None:
        """Let go of a binding that was taken in before."""
        if self._selected is None or binding not in self._selected:
            self.unlink(binding)
            return
        self._selected.remove(binding)
        if not self._selected:
            self._selected = None
            self.looks_at_headers = self._looks_anyway

    def destinations(
        self, key: str, headers: Mapping[str, object], work: RoutingWork | None = None
    ) -> Iterable[Destination]:
        """Where the message goes. May repeat a destination; is read at once, before any further bind or unbind.

        RoutingRefused if that takes more steps than ``work`` has left.
        """
        if work is None:
            work = RoutingWork()
        if self._selected is None:
            return self.reach(key, headers, work)
        return self.reach_with(self._selected.taking(key, headers, work), key, headers, work)

    # ---- what a type says

    def prepare(self) -> None:  # noqa: B027 - a hook with nothing to do by default
        """Read the arguments of the type, refusing bad ones by PreconditionFailed, and make the empty view."""

    def accept(self, binding: Binding) -> None:  # noqa: B027 - most types take every binding
        """Refuse, by PreconditionFailed, a binding this type cannot use; change nothing."""

    @abstractmethod
    def link(self, binding: Binding) -> None:
        """Take a binding without a selector into the view."""

    @abstractmethod
    def unlink(self, binding: Binding) -> None:
        """Take a binding out of the view."""

    def exceeds(self, binding: Binding, bounds: Bounds) -> str | None:
        """Why a new binding is refused that this type could use; a binding from before the bound stays."""
        return None

    @abstractmethod
    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        """Where the bindings of the view lead the message.

        A type that looks at more than it returns spends steps of ``work`` for it, before or while it looks.
        """

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        """The same with further bindings, which take the message by key and selector.

        A type that chooses among its bindings lets these take part in the choice.
        """
        return [*self.reach(key, headers, work), *(binding.destination for binding in taking)]

    def view_of_selected(self) -> Exchange:
        """An exchange without bindings that matches as this one does; holds the bindings with selectors."""
        return type(self)(self.name, self.durable, self.auto_delete, self.internal, self.arguments)

    def _alternate_from_arguments(self) -> str | None:
        alternate = self.arguments.get(ALTERNATE_EXCHANGE)
        if alternate is None or isinstance(alternate, str):
            return alternate
        raise PreconditionFailed(
            f"invalid type '{type(alternate).__name__}' for arg '{ALTERNATE_EXCHANGE}' in exchange '{self.name}': "
            "expected a string"
        )
