"""x-delayed-message: an exchange of any other type whose messages may be delayed.

The broker keeps a message with ``x-delay`` (broker/schedules.py) and routes it here when it is due. This type only
routes, in the same way as the type named by its argument ``x-delayed-type``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import Bounds, RoutingWork
from leveret.routing.exchange import Exchange

DELAYED = "x-delayed-message"
DELAYED_TYPE = "x-delayed-type"


class KnownTypes(Protocol):
    def kinds(self) -> list[str]: ...

    def make(
        self,
        kind: str,
        name: str,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> Exchange: ...


class DelayedExchange(Exchange):
    kind = DELAYED

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner
        super().__init__(inner.name, inner.durable, inner.auto_delete, inner.internal, inner.arguments)

    def prepare(self) -> None:
        self.looks_at_headers = self._inner.looks_at_headers
        self.looks_at_all_keys = self._inner.looks_at_all_keys

    @property
    def routes_as(self) -> str:
        return self._inner.routes_as

    def accept(self, binding: Binding) -> None:
        self._inner.accept(binding)

    def exceeds(self, binding: Binding, bounds: Bounds) -> str | None:
        return self._inner.exceeds(binding, bounds)

    def link(self, binding: Binding) -> None:
        self._inner.link(binding)

    def unlink(self, binding: Binding) -> None:
        self._inner.unlink(binding)

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return self._inner.reach(key, headers, work)

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        return self._inner.reach_with(taking, key, headers, work)

    def selector_view(self) -> Exchange:
        return self._inner.selector_view()


def make_delayed(
    types: KnownTypes, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, object]
) -> Exchange:
    kind = arguments.get(DELAYED_TYPE)
    others = [each for each in types.kinds() if each != DELAYED]
    if not isinstance(kind, str) or kind not in others:
        given = "none" if kind is None else repr(kind)
        raise PreconditionFailed(
            f"invalid arg '{DELAYED_TYPE}' for exchange '{name}': {given}; must be an existing exchange type: "
            f"{', '.join(others)}"
        )
    return DelayedExchange(types.make(kind, name, durable, auto_delete, internal, arguments))
