"""Bindings: list, show, create and delete them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of, vhost_lists
from leveret.api.views.exchange import BINDING_ROWS, FoundBinding, default_binding, named_by, properties_key
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
from leveret.http.listings import object_response
from leveret.routing.bindings import Binding, Destination

TO_QUEUE, TO_EXCHANGE = "/api/bindings/{vhost}/e/{source}/q/{queue}", "/api/bindings/{vhost}/e/{source}/e/{exchange}"


def routes(context: ApiContext) -> list[Route]:
    api = _Bindings(context)
    found = vhost_lists(context, "/api/bindings", BINDING_ROWS, _bindings)
    for between in (TO_QUEUE, TO_EXCHANGE):
        found += routes_of(between, GET=api.list_between, POST=api.bind)
        found += routes_of(f"{between}/{{props}}", GET=api.show, DELETE=api.unbind)
    return found


def _bindings(request: Request, vhosts: Sequence[Vhost]) -> Iterator[FoundBinding]:
    """The implicit bindings of the default exchange first."""
    for vhost in vhosts:
        for name in list(vhost.queues):
            yield vhost, default_binding(name)
        for source in sorted(vhost.exchanges):
            for binding in list(vhost.bindings.of_source(source)):
                yield vhost, binding


class _Bindings(Endpoints):
    async def list_between(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return await self._listed(request, [(vhost, binding) for binding in _between(request, vhost)], BINDING_ROWS)

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return object_response(request, BINDING_ROWS.row((vhost, _named(request, vhost))))

    async def bind(self, request: Request) -> Response:
        given = await declared(request)  # first: the virtual host may change until the body is received
        vhost, source, destination = entered_vhost(request), exchange_name(request, "source"), _destination(request)
        binding = Binding(source, destination, short_text_of(given, "routing_key", ""), table_of(given, "arguments"))
        with as_bad_request():
            caller_of(request, vhost).bind(binding)
        await wait_until_durable(self._broker)
        # As in RabbitMQ: relative to the path, with each part percent-encoded.
        where = f"{quote(destination.name, safe='')}/{quote(properties_key(binding), safe='~')}"
        return Response(status_code=201, headers={"Location": where})

    async def unbind(self, request: Request) -> Response:
        vhost = entered_vhost(request)
        caller, source, destination = caller_of(request, vhost), exchange_name(request, "source"), _destination(request)
        operation: Operation = "unbind queue" if destination.kind == "queue" else "unbind exchange"
        caller.access.check(operation, destination.name, source=source)  # first: this must not reveal the binding
        binding = _named(request, vhost)
        with as_bad_request():
            caller.unbind(binding)
        return await self._changed()


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
