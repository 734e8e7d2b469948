"""Exchanges: list, show, declare and delete them, and explain where a message would be routed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of, vhost_lists
from leveret.api.views.exchange import BINDING_ROWS, EXCHANGE_ROWS, FoundExchange, default_binding
from leveret.api.views.route import headers_of, route_row
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import (
    as_bad_request,
    declared,
    exchange_name,
    shown_exchange,
    table_of,
)
from leveret.http.authorization import caller_of, entered_vhost, seen_vhost
from leveret.http.listings import object_response
from leveret.http.responses import json_response
from leveret.http.values import boolean_of, query_parameter, text_of
from leveret.routing.bindings import Destination
from leveret.stats.samples import windows_of

ONE = "/api/exchanges/{vhost}/{name}"


def routes(context: ApiContext) -> list[Route]:
    def exchanges(request: Request, vhosts: Sequence[Vhost]) -> Iterator[FoundExchange]:
        windows = windows_of(request.query_params)
        for vhost in vhosts:
            for exchange in [vhost.exchanges[name] for name in sorted(vhost.exchanges)]:
                yield FoundExchange(vhost, exchange, context, windows)

    api = _Exchanges(context)
    return [
        *vhost_lists(context, "/api/exchanges", EXCHANGE_ROWS, exchanges),
        *routes_of(ONE, GET=api.show, PUT=api.declare, DELETE=api.delete),
        Route(f"{ONE}/bindings/source", api.bindings_away),
        Route(f"{ONE}/bindings/destination", api.bindings_to),
        Route(f"{ONE}/route", api.where_to),
    ]


class _Exchanges(Endpoints):
    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        exchange = shown_exchange(vhost, exchange_name(request))
        found = FoundExchange(vhost, exchange, self._context, windows_of(request.query_params))
        return object_response(request, EXCHANGE_ROWS.row(found) | {"incoming": [], "outgoing": []})

    async def bindings_away(self, request: Request) -> Response:
        vhost, name = seen_vhost(request), exchange_name(request)
        bindings = vhost.bindings.of_source(name) if name else [default_binding(queue) for queue in vhost.queues]
        return await self._listed(request, [(vhost, binding) for binding in bindings], BINDING_ROWS)

    async def bindings_to(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        bindings = vhost.bindings.of_destination(Destination("exchange", exchange_name(request)))
        return await self._listed(request, [(vhost, binding) for binding in bindings], BINDING_ROWS)

    async def where_to(self, request: Request) -> Response:
        """The queues that a message would reach, and the bindings on the way; nothing is published."""
        vhost = seen_vhost(request)
        exchange = shown_exchange(vhost, exchange_name(request))
        key = query_parameter(request, "routing_key", "")
        return json_response(await route_row(vhost, exchange, key, headers_of(request.query_params)))

    async def declare(self, request: Request) -> Response:
        given = await declared(request)  # first: the virtual host may change until the body is received
        vhost, name = entered_vhost(request), exchange_name(request)
        kind, arguments = text_of(given, "type", "direct"), table_of(given, "arguments")
        options = {option: boolean_of(given, option) for option in ("durable", "auto_delete", "internal")}
        is_new = name not in vhost.exchanges
        with as_bad_request():
            caller_of(request, vhost).declare_exchange(name, kind, arguments=arguments, **options)
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), exchange_name(request)
        if_unused = boolean_of(request.query_params, "if-unused")
        caller = caller_of(request, vhost)
        caller.access.check("delete exchange", name)
        shown_exchange(vhost, name)
        with as_bad_request():
            caller.delete_exchange(name, if_unused=if_unused)
        return await self._changed()
