"""Exchanges: list, look, declare, delete, and where a message would go."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.exchange import Row, binding_row, default_binding, exchange_detail, exchange_row
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
from leveret.http.durability import wait_until_durable
from leveret.http.listings import list_response, object_response
from leveret.http.responses import json_response, no_content, put_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.values import boolean_of, query_parameter, text_of
from leveret.routing.bindings import Destination
from leveret.routing.exchange import Exchange
from leveret.stats.samples import windows_of

ONE = "/api/exchanges/{vhost}/{name}"


def routes(context: ApiContext) -> list[Route]:
    api = _Exchanges(context)
    return [
        Route("/api/exchanges", api.list_all),
        Route("/api/exchanges/{vhost}", api.list_of_vhost),
        Route(ONE, api.show),
        Route(ONE, api.declare, methods=["PUT"]),
        Route(ONE, api.delete, methods=["DELETE"]),
        Route(f"{ONE}/bindings/source", api.bindings_away),
        Route(f"{ONE}/bindings/destination", api.bindings_to),
        Route(f"{ONE}/route", api.where_to),
    ]


class _Exchanges:
    def __init__(self, context: ApiContext) -> None:
        self._context = context

    # ---- looking

    async def list_all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await self._listed(request, visible_vhosts(request))

    async def list_of_vhost(self, request: Request) -> Response:
        return await self._listed(request, [seen_vhost(request)])

    async def _listed(self, request: Request, vhosts: Iterable[Vhost]) -> Response:
        stats, there = self._context.stats, self._context.broker.vhosts
        windows = windows_of(request.query_params)

        def row(found: tuple[Vhost, Exchange]) -> Row | None:
            vhost, exchange = found
            is_there = there.get(vhost.name) is vhost and vhost.exchanges.get(exchange.name) is exchange
            return exchange_row(vhost, exchange, stats, windows) if is_there else None

        all_of_them = [(vhost, vhost.exchanges[name]) for vhost in vhosts for name in sorted(vhost.exchanges)]
        return await list_response(self._context, request, all_of_them, row)

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        exchange = shown_exchange(vhost, exchange_name(request))
        windows = windows_of(request.query_params)
        return object_response(request, exchange_detail(vhost, exchange, self._context.stats, windows))

    async def bindings_away(self, request: Request) -> Response:
        vhost, name = seen_vhost(request), exchange_name(request)
        bindings = vhost.bindings.of_source(name) if name else [default_binding(queue) for queue in vhost.queues]
        return await list_response(self._context, request, bindings, lambda binding: binding_row(vhost, binding))

    async def bindings_to(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        bindings = vhost.bindings.of_destination(Destination("exchange", exchange_name(request)))
        return await list_response(self._context, request, bindings, lambda binding: binding_row(vhost, binding))

    async def where_to(self, request: Request) -> Response:
        """Which queues a message would reach, and by which bindings; nothing is published."""
        vhost = seen_vhost(request)
        exchange = shown_exchange(vhost, exchange_name(request))
        key = query_parameter(request, "routing_key", "")
        return json_response(await route_row(vhost, exchange, key, headers_of(request.query_params)))

    # ---- changing

    async def declare(self, request: Request) -> Response:
        given = await declared(request)  # first: while it comes, anything may happen to the virtual host
        vhost, name = entered_vhost(request), exchange_name(request)
        kind, arguments = text_of(given, "type", "direct"), table_of(given, "arguments")
        options = {option: boolean_of(given, option) for option in ("durable", "auto_delete", "internal")}
        is_new = name not in vhost.exchanges
        with as_bad_request():
            caller_of(request, vhost).declare_exchange(name, kind, arguments=arguments, **options)
        await wait_until_durable(self._context.broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), exchange_name(request)
        if_unused = boolean_of(request.query_params, "if-unused")
        caller = caller_of(request, vhost)
        caller.access.check("delete exchange", name)
        shown_exchange(vhost, name)
        with as_bad_request():
            caller.delete_exchange(name, if_unused=if_unused)
        await wait_until_durable(self._context.broker)
        return no_content()
