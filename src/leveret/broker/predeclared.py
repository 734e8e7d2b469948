"""The exchanges that every virtual host has."""

from __future__ import annotations

from leveret.routing.direct import DefaultExchange
from leveret.routing.exchange import Exchange
from leveret.routing.types import ExchangeTypes

TRACE_EXCHANGE = "amq.rabbitmq.trace"
PREDECLARED = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    (TRACE_EXCHANGE, "topic"),
)


def predeclared(types: ExchangeTypes) -> dict[str, Exchange]:
    made: dict[str, Exchange] = {"": DefaultExchange()}
    for name, kind in PREDECLARED:
        made[name] = types.make(kind, name, durable=True, internal=name == TRACE_EXCHANGE)
    return made
