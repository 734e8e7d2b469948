"""Explains a route: the walk of routing/router.py, with the bindings that a message matches on its way.

Whether a binding matches is tested with an exchange of the same type that has only this binding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from leveret.api.views.exchange import BINDING_ROWS
from leveret.api.views.message import plain
from leveret.broker.vhost import Vhost
from leveret.delivery.selector import selectable
from leveret.http.amqp_values import table_of
from leveret.http.rows import Row
from leveret.http.time_slice import TimeSlice
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.random_exchange import RandomExchange
from leveret.wire.fields import Table
from leveret.wire.properties import Properties

HEADER = "headers."
STAND_IN = Destination("exchange", "\x00")  # not a valid name of a queue or exchange


def headers_of(query: Mapping[str, str]) -> Table:
    """Headers of a query, ``headers.NAME=value``. Values are JSON numbers, booleans or strings, else plain text."""
    given = {name.removeprefix(HEADER): _value(text) for name, text in query.items() if name.startswith(HEADER)}
    return table_of({"headers": given}, "headers")


def _value(text: str) -> object:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str | int | float) else text


async def route_row(vhost: Vhost, exchange: Exchange, key: str, headers: Table) -> Row:
    fields = selectable(Properties(headers=headers))
    steps: list[Row] = []
    queues: dict[str, None] = {}
    seen, to_visit = {exchange.name}, [exchange]
    for current in to_visit:  # grows during the walk
        reached = [stop for stop in dict.fromkeys(current.destinations(key, fields)) if _is_there(vhost, stop)]
        steps += await _bindings_taken(vhost, current, reached, key, fields)
        if not reached and current.alternate is not None:
            reached = [Destination("exchange", current.alternate)]
            steps.append(_step(vhost, current.name, reached[0], "alternate-exchange"))
        for kind, name in reached:
            if kind == "queue":
                queues[name] = None
            elif name not in seen:
                seen.add(name)
                found = vhost.exchanges.get(name)
                if found is not None:
                    to_visit.append(found)
    reached_queues = [name for name in queues if name in vhost.queues]
    return {
        "exchange": exchange.name,
        "vhost": vhost.name,
        "routing_key": key,
        "headers": plain(headers),
        "routed": bool(reached_queues),
        "by_chance": any(isinstance(each, RandomExchange) for each in to_visit),
        "queues": reached_queues,
        "bindings": steps,
    }


def _is_there(vhost: Vhost, stop: Destination) -> bool:
    """As in the router: a queue that is reached by its name, without a binding, may not exist."""
    return stop.kind == "exchange" or vhost.has_queue(stop.name)


async def _bindings_taken(
    vhost: Vhost, exchange: Exchange, reached: list[Destination], key: str, fields: Mapping[str, object]
) -> list[Row]:
    """Rows of the bindings that match; a destination without one was reached by its name."""
    wanted = set(reached)
    bindings = [binding for binding in vhost.bindings.of_source(exchange.name) if binding.destination in wanted]
    taken: list[Binding] = []
    time_slice = TimeSlice()
    for binding in bindings:
        if _takes(exchange, binding, key, fields):
            taken.append(binding)
        await time_slice.pause_if_over()
    rows = [BINDING_ROWS.row((vhost, binding)) | {"by": "binding"} for binding in taken]
    explained = {binding.destination for binding in taken}
    return rows + [_step(vhost, exchange.name, stop, "name") for stop in reached if stop not in explained]


def _takes(exchange: Exchange, binding: Binding, key: str, fields: Mapping[str, object]) -> bool:
    alone = exchange.selector_view()
    alone.bind(Binding(binding.source, STAND_IN, binding.key, binding.arguments))
    return STAND_IN in alone.destinations(key, fields)


def _step(vhost: Vhost, source: str, stop: Destination, by: str) -> Row:
    return {
        "source": source,
        "vhost": vhost.name,
        "destination": stop.name,
        "destination_type": stop.kind,
        "by": by,
    }
