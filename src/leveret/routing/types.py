"""The exchange types by name. A node can register more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

from leveret.errors import PreconditionFailed
from leveret.routing.consistent_hash import ConsistentHashExchange
from leveret.routing.delayed import DELAYED, make_delayed
from leveret.routing.direct import DefaultExchange, DirectExchange
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange
from leveret.routing.headers import HeadersExchange
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.routing.random_exchange import LocalRandomExchange, RandomExchange, SeededRandom
from leveret.routing.topic import TopicExchange

BUILT_IN = (
    DirectExchange,
    FanoutExchange,
    TopicExchange,
    HeadersExchange,
    ModulusHashExchange,
    ConsistentHashExchange,
    RandomExchange,
    LocalRandomExchange,
)
TRACE_EXCHANGE = "amq.rabbitmq.trace"
PREDECLARED = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    (TRACE_EXCHANGE, "topic"),
)


class ExchangeFactory(Protocol):
    """Creates exchanges of one type; a subclass of Exchange is a factory."""

    def __call__(
        self, name: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, object], /
    ) -> Exchange: ...


EXCHANGE_TYPES: Mapping[str, ExchangeFactory] = MappingProxyType({kind.kind: kind for kind in BUILT_IN})


class ExchangeTypes:
    """The exchange types of one broker: the built-in types, and those that were registered.

    All random exchanges use one sequence of numbers, which ``seed`` determines.
    """

    def __init__(self, seed: int = 0) -> None:
        self._factories: dict[str, ExchangeFactory] = dict(EXCHANGE_TYPES)
        random = SeededRandom(seed)
        for kind in (RandomExchange, LocalRandomExchange):
            self._factories[kind.kind] = partial(_random_exchange, random, kind)
        self._factories[DELAYED] = partial(make_delayed, self)

    def register(self, kind: str, factory: ExchangeFactory) -> None:
        """Add an exchange type; a later registration of the same name replaces the earlier one."""
        self._factories[kind] = factory

    def kinds(self) -> list[str]:
        """The names of all types, in order of registration."""
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
        """A new exchange without bindings; PreconditionFailed if the type is unknown or an argument is invalid."""
        factory = self._factories.get(kind)
        if factory is None:
            raise PreconditionFailed(f"unknown exchange type '{kind}'")
        return factory(name, durable, auto_delete, internal, arguments or {})


def _random_exchange(
    random: SeededRandom,
    kind: type[RandomExchange],
    name: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Mapping[str, object],
) -> Exchange:
    made = kind(name, durable, auto_delete, internal, arguments)
    made.random = random
    return made


def predeclared(types: ExchangeTypes) -> dict[str, Exchange]:
    """The exchanges that every virtual host has, by name."""
    made: dict[str, Exchange] = {"": DefaultExchange()}
    for name, kind in PREDECLARED:
        made[name] = types.make(kind, name, durable=True, internal=name == TRACE_EXCHANGE)
    return made
