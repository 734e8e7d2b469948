"""What exchanges and bindings look like in JSON.

A binding is named by its ``properties_key`` between its two ends: the routing key, percent-encoded, and a hash of the
arguments behind a ``~`` if there are any; for an empty key nothing stands before the ``~``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from leveret.api.views.message import plain
from leveret.broker.policy import EXCHANGE
from leveret.broker.vhost import Vhost
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats
from leveret.wire.fields import encode_table

Row = dict[str, Any]

HASH_BYTES = 6


def exchange_row(vhost: Vhost, exchange: Exchange, stats: Stats, windows: Windows = NO_WINDOWS) -> Row:
    row: Row = {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }
    if exchange.name and vhost.policies.in_order():
        policies, _ = vhost.policies.matching(EXCHANGE, exchange.name)
        if policies:
            row["policy"] = policies[0].name
            row["effective_policy_definition"] = dict(vhost.policies.definitions.get(exchange.name, {}))
    return row | stats.of_exchange(vhost.name, exchange.name, windows)


def exchange_detail(vhost: Vhost, exchange: Exchange, stats: Stats, windows: Windows = NO_WINDOWS) -> Row:
    return exchange_row(vhost, exchange, stats, windows) | {"incoming": [], "outgoing": []}


# ---- bindings


def binding_row(vhost: Vhost, binding: Binding) -> Row:
    return {
        "source": binding.source,
        "vhost": vhost.name,
        "destination": binding.destination.name,
        "destination_type": binding.destination.kind,
        "routing_key": binding.key,
        "arguments": plain(binding.arguments),
        "properties_key": properties_key(binding),
    }


def default_binding(queue: str) -> Binding:
    """By which the default exchange reaches the queue; it is in no table."""
    return Binding("", Destination("queue", queue), queue)


def properties_key(binding: Binding) -> str:
    key = quote_plus(binding.key).replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    digest = hashlib.sha256(encode_table(_in_order(binding.arguments))).digest()[:HASH_BYTES]
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def named_by(given: str, bindings: list[Binding]) -> Binding | None:
    """The binding that a path names: by its properties key, or by its plain routing key if it has no arguments."""
    by_key = {properties_key(binding): binding for binding in bindings}
    if given in by_key:
        return by_key[given]
    keys = (given, unquote_plus(given))
    return next((each for each in bindings if not each.arguments and each.key in keys), None)


def _in_order(value: Mapping[str, object]) -> dict[str, object]:
    """The same table, equal for equal bindings: the order of names means nothing in AMQP."""
    return {name: _ordered(value[name]) for name in sorted(value)}


def _ordered(value: object) -> object:
    if isinstance(value, Mapping):
        return _in_order(value)
    return [_ordered(member) for member in value] if isinstance(value, list | tuple) else value
