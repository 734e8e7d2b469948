"""Bindings: list, look, bind, unbind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.exchange import Row, binding_row, default_binding, named_by, properties_key
from leveret.broker.permission_rules import Operation
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import (
    as_bad_request,
    declared,
    exchange_name,
    path_name,
    short_text_of,
    table_of,
)
from leveret.http.authorization import caller_of, entered_vhost, seen_vhost
from leveret.http.durability import wait_until_durable
from leveret.http.errors import ObjectNotFound
from leveret.http.listings import list_response, object_response, viewed
from leveret.http.responses import no_content
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.routing.bindings import Binding, Destination

TO_QUEUE, TO_EXCHANGE = "/api/bindings/{vhost}/e/{source}/q/{queue}", "/api/bindings/{vhost}/e/{source}/e/{exchange}"


def routes(context: ApiContext) -> list[Route]:
    api = _BindingsApi(context)
    found = [Route("/api/bindings", api.list_all), Route("/api/bindings/{vhost}", api.list_of_vhost)]
    for between in (TO_QUEUE, TO_EXCHANGE):
        found += [
            Route(between, api.list_between),
            Route(between, api.bind, methods=["POST"]),
            Route(f"{between}/{{props}}", api.show),
            Route(f"{between}/{{props}}", api.unbind, methods=["DELETE"]),
        ]
    return found


class _BindingsApi:
    def __init__(self, context: ApiContext) -> None:
        self._context = context

    # ---- looking

    async def list_all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await self._listed(request, visible_vhosts(request))

    async def list_of_vhost(self, request: Request) -> Response:
        return await self._listed(request, [seen_vhost(request)])

    async def _listed(self, request: Request, vhosts: Iterable[Vhost]) -> Response:
        rows: list[Row] = []
        for vhost in vhosts:
            rows += await _rows_of(vhost)
        return await list_response(self._context, request, rows)

    async def list_between(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return await list_response(
            self._context, request, _between(request, vhost), lambda binding: binding_row(vhost, binding)
        )

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return object_response(request, binding_row(vhost, _named(request, vhost)))

    # ---- changing

    async def bind(self, request: Request) -> Response:
        given = await declared(request)  # first: while it comes, anything may happen to the virtual host
        vhost, source, destination = entered_vhost(request), exchange_name(request, "source"), _destination(request)
        binding = Binding(source, destination, short_text_of(given, "routing_key", ""), table_of(given, "arguments"))
        with as_bad_request():
            caller_of(request, vhost).bind(binding)
        await wait_until_durable(self._context.broker)
        # As RabbitMQ has it: relative to the path, and each part percent-encoded for it.
        where = f"{quote(destination.name, safe='')}/{quote(properties_key(binding), safe='~')}"
        return Response(status_code=201, headers={"Location": where})

    async def unbind(self, request: Request) -> Response:
        vhost = entered_vhost(request)
        caller, source, destination = caller_of(request, vhost), exchange_name(request, "source"), _destination(request)
        operation: Operation = "unbind queue" if destination.kind == "queue" else "unbind exchange"
        caller.access.check(operation, destination.name, source=source)  # first: a refused user learns of no binding
        binding = _named(request, vhost)
        with as_bad_request():
            caller.unbind(binding)
        await wait_until_durable(self._context.broker)
        return no_content()


async def _rows_of(vhost: Vhost) -> list[Row]:
    """The implicit bindings of the default exchange first."""

    def row(binding: Binding) -> Row:
        return binding_row(vhost, binding)

    rows = await viewed(vhost.queues, lambda name: row(default_binding(name)))
    for source in sorted(vhost.exchanges):
        rows += await viewed(vhost.bindings.of_source(source), row)
    return rows


def _destination(request: Request) -> Destination:
    kind: Literal["queue", "exchange"] = "queue" if "queue" in request.path_params else "exchange"
    name = path_name(request, "queue") if kind == "queue" else exchange_name(request, "exchange")
    return Destination(kind, name)


def _between(request: Request, vhost: Vhost) -> list[Binding]:
    source, destination = exchange_name(request, "source"), _destination(request)
    if not source:
        is_there = destination.kind == "queue" and destination.name in vhost.queues
        return [default_binding(destination.name)] if is_there else []
    return [binding for binding in vhost.bindings.of_destination(destination) if binding.source == source]


def _named(request: Request, vhost: Vhost) -> Binding:
    props = unquote(request.path_params["props"])
    found = named_by(props, _between(request, vhost))
    if found is None:
        destination = _destination(request)
        raise ObjectNotFound(
            f"no binding '{props}' from exchange '{exchange_name(request, 'source')}' to {destination.kind} "
            f"'{destination.name}' in vhost '{vhost.name}': list them, each has a properties_key"
        )
    return found
