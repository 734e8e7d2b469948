"""Rows of exchanges and bindings.

A binding between two objects is identified by its ``properties_key``: the percent-encoded routing key, followed by
``~`` and a hash of the arguments if there are any. The ``properties_key`` of an empty routing key starts with ``~``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus

from leveret.api.context import ApiContext
from leveret.api.views.message import plain
from leveret.broker.policy import EXCHANGE
from leveret.broker.vhost import Vhost
from leveret.http.rows import Field, Row, RowDescription
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.stats.samples import Windows
from leveret.wire.fields import encode_table

HASH_BYTES = 6


class FoundExchange(NamedTuple):
    vhost: Vhost
    exchange: Exchange
    context: ApiContext
    windows: Windows


def _exists(found: FoundExchange) -> bool:
    vhost, exchange = found.vhost, found.exchange
    return found.context.broker.vhosts.get(vhost.name) is vhost and vhost.exchanges.get(exchange.name) is exchange


def _policy(found: FoundExchange) -> Row:
    vhost, name = found.vhost, found.exchange.name
    if not name or not vhost.policies.in_order():
        return {}
    policies, _ = vhost.policies.matching(EXCHANGE, name)
    if not policies:
        return {}
    return {
        "policy": policies[0].name,
        "effective_policy_definition": dict(vhost.policies.definitions.get(name, {})),
    }


def _message_stats(found: FoundExchange) -> Row:
    counted = found.context.stats.of_exchange(found.vhost.name, found.exchange.name, found.windows)
    stats: Row = counted["message_stats"]
    return stats


EXCHANGE_ROWS: RowDescription[FoundExchange] = RowDescription(
    [
        Field(("name",), lambda found: found.exchange.name),
        Field(("vhost",), lambda found: found.vhost.name),
        Field(("type",), lambda found: found.exchange.kind),
        Field(("durable",), lambda found: found.exchange.durable),
        Field(("auto_delete",), lambda found: found.exchange.auto_delete),
        Field(("internal",), lambda found: found.exchange.internal),
        Field(("arguments",), lambda found: plain(found.exchange.arguments)),
        Field(("policy", "effective_policy_definition"), _policy),
        Field(("message_stats",), _message_stats),
    ],
    _exists,
)


# ---- bindings

FoundBinding = tuple[Vhost, Binding]

BINDING_ROWS: RowDescription[FoundBinding] = RowDescription(
    [
        Field(("source",), lambda found: found[1].source),
        Field(("vhost",), lambda found: found[0].name),
        Field(("destination",), lambda found: found[1].destination.name),
        Field(("destination_type",), lambda found: found[1].destination.kind),
        Field(("routing_key",), lambda found: found[1].key),
        Field(("arguments",), lambda found: plain(found[1].arguments)),
        Field(("properties_key",), lambda found: properties_key(found[1])),
    ]
)


def default_binding(queue: str) -> Binding:
    """The implicit binding of the queue to the default exchange."""
    return Binding("", Destination("queue", queue), queue)


def properties_key(binding: Binding) -> str:
    key = quote_plus(binding.key).replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    digest = hashlib.sha256(encode_table(_in_order(binding.arguments))).digest()[:HASH_BYTES]
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def named_by(given: str, bindings: list[Binding]) -> Binding | None:
    """The binding in a path: by its properties key, or by its plain routing key if it has no arguments."""
    by_key = {properties_key(binding): binding for binding in bindings}
    if given in by_key:
        return by_key[given]
    keys = (given, unquote_plus(given))
    return next((each for each in bindings if not each.arguments and each.key in keys), None)


def _in_order(value: Mapping[str, object]) -> dict[str, object]:
    """The table sorted by name: in AMQP the order has no meaning, and equal bindings must have equal keys."""
    return {name: _ordered(value[name]) for name in sorted(value)}


def _ordered(value: object) -> object:
    if isinstance(value, Mapping):
        return _in_order(value)
    return [_ordered(member) for member in value] if isinstance(value, list | tuple) else value
