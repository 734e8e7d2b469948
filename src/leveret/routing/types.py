"""The exchange types by name, and a register to which a node adds further ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from leveret.errors import PreconditionFailed
from leveret.routing.direct import DirectExchange
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange
from leveret.routing.headers import HeadersExchange
from leveret.routing.topic import TopicExchange


class ExchangeFactory(Protocol):
    """Makes an exchange of one type; a subclass of Exchange is one."""

    def __call__(
        self, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, object], /
    ) -> Exchange: ...


EXCHANGE_TYPES: Mapping[str, ExchangeFactory] = MappingProxyType(
    {"direct": DirectExchange, "fanout": FanoutExchange, "topic": TopicExchange, "headers": HeadersExchange}
)


class ExchangeTypes:
    """The types one broker knows: the built-in four, and what was registered here."""

    def __init__(self) -> None:
        self._factories: dict[str, ExchangeFactory] = dict(EXCHANGE_TYPES)

    def register(self, kind: str, factory: ExchangeFactory) -> None:
        """Make ``kind`` known; a later registration of the same name replaces the earlier."""
        self._factories[kind] = factory

    def kinds(self) -> list[str]:
        """The known names, in order of registration."""
        return list(self._factories)

    def make(
        self,
        kind: str,
        name: str,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> Exchange:
        """A new exchange without bindings; PreconditionFailed if the type is unknown or an argument is bad."""
        factory = self._factories.get(kind)
        if factory is None:
            raise PreconditionFailed(f"unknown exchange type '{kind}'")
        return factory(name, durable, auto_delete, internal, arguments or {})


def make_exchange(
    kind: str,
    name: str,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Mapping[str, object] | None = None,
) -> Exchange:
    """A new exchange of one of the built-in types, see ``ExchangeTypes.make``."""
    return ExchangeTypes().make(kind, name, durable, auto_delete, internal, arguments)
