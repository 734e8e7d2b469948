"""Direct exchanges: the routing key equals the binding key. Hot path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leveret.errors import AccessRefused, PreconditionFailed
from leveret.routing.bindings import Binding, Destination, DestinationCounts
from leveret.routing.bounds import RoutingWork
from leveret.routing.exchange import Exchange

IMPLICIT_BINDINGS = "x-implicit-bindings"


class DirectExchange(Exchange):
    """Bound destinations by key; with ``x-implicit-bindings`` also the queue whose name is the key."""

    kind = "direct"

    def prepare(self) -> None:
        self._by_key: dict[str, DestinationCounts] = {}
        implicit = self.arguments.get(IMPLICIT_BINDINGS, False)
        if not isinstance(implicit, bool):
            raise PreconditionFailed(
                f"invalid arg '{IMPLICIT_BINDINGS}' for exchange '{self.name}': expected a boolean"
            )
        self._implicit = implicit

    def link(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, DestinationCounts()).gain(binding.destination)

    def unlink(self, binding: Binding) -> None:
        bound = self._by_key[binding.key]
        bound.lose(binding.destination)
        if not bound:
            del self._by_key[binding.key]

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        # looked up without inserting: a publish with an unbound key must not add an empty entry
        bound = self._by_key.get(key, ())
        if self._implicit:
            return (*bound, Destination("queue", key))
        return bound


class DefaultExchange(Exchange):
    """The exchange without a name: every queue is bound to it by its own name, and no other binding is possible."""

    kind = "direct"

    def __init__(self) -> None:
        super().__init__("", durable=True)

    def accept(self, binding: Binding) -> None:
        raise AccessRefused("operation not permitted on the default exchange")

    def link(self, binding: Binding) -> None:
        """Never called for a valid binding: the bindings are implicit."""

    def unlink(self, binding: Binding) -> None:
        """Never called: there are no explicit bindings."""

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return (Destination("queue", key),)
