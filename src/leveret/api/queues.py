"""Queues: list, show, declare, delete, purge."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of, vhost_lists
from leveret.api.views.exchange import BINDING_ROWS, default_binding
from leveret.api.views.queue import QUEUE_ROWS, FoundQueue, QueueView, encoded_queue
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import (
    as_bad_request,
    declared,
    path_name,
    shown_queue,
    table_of,
)
from leveret.http.authorization import access_of, caller_of, entered_vhost, seen_vhost
from leveret.http.errors import BadRequest
from leveret.http.internal_requests import HOMES
from leveret.http.listings import object_response
from leveret.http.responses import no_content
from leveret.http.rows import RowCache
from leveret.http.values import boolean_of, text_of
from leveret.queues.declared_queue import DeclaredQueue, home_of
from leveret.routing.bindings import Destination
from leveret.stats.samples import windows_of

ONE = "/api/queues/{vhost}/{name}"
ACTIONS = ("sync", "cancel_sync")  # for mirrored queues: accepted, without effect


def routes(context: ApiContext) -> list[Route]:
    api = _Queues(context)
    return [
        *vhost_lists(context, "/api/queues", QUEUE_ROWS, api.found, cached=encoded_queue),
        *routes_of(ONE, GET=api.show, PUT=api.declare, DELETE=api.delete),
        Route(f"{ONE}/contents", api.purge, methods=["DELETE"]),
        Route(f"{ONE}/bindings", api.bindings_to),
        Route(f"{ONE}/actions", api.act, methods=["POST"]),
    ]


class _Queues(Endpoints):
    def __init__(self, context: ApiContext) -> None:
        super().__init__(context)
        self._cache: RowCache[DeclaredQueue] = RowCache(lambda queue: queue.alive)

    def found(self, request: Request, vhosts: Sequence[Vhost]) -> list[FoundQueue]:
        view = self._view(request)
        self._cache.begin_list()
        homes = request.scope.get(HOMES)
        if homes is None:
            return [(vhost, queue, view) for vhost in vhosts for queue in vhost.queues.values()]
        return [(vhost, queue, view) for vhost in vhosts for queue in vhost.queues.values() if home_of(queue) in homes]

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        queue = shown_queue(vhost, path_name(request))
        return object_response(request, self._view(request).detail(vhost, queue))

    def _view(self, request: Request) -> QueueView:
        context, windows = self._context, windows_of(request.query_params)
        broker = context.broker
        return QueueView(
            context.stats, context.policy_matches, broker.node_name, self._cache, windows, broker.cells.nodes
        )

    async def bindings_to(self, request: Request) -> Response:
        vhost, name = seen_vhost(request), path_name(request)
        bindings = vhost.bindings.of_destination(Destination("queue", name))
        if name in vhost.queues:
            bindings = [default_binding(name), *bindings]
        return await self._listed(request, [(vhost, binding) for binding in bindings], BINDING_ROWS)

    async def declare(self, request: Request) -> Response:
        given = await declared(request)  # first: the virtual host may change until the body is received
        vhost, name = entered_vhost(request), path_name(request)
        durable, auto_delete = boolean_of(given, "durable"), boolean_of(given, "auto_delete")
        arguments = table_of(given, "arguments")
        is_new = name not in vhost.queues
        with as_bad_request():
            caller_of(request, vhost).declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), path_name(request)
        if_empty = boolean_of(request.query_params, "if-empty")
        if_unused = boolean_of(request.query_params, "if-unused")
        caller = caller_of(request, vhost)
        caller.access.check("delete queue", name)
        shown_queue(vhost, name)
        with as_bad_request():
            caller.delete_queue(name, if_empty=if_empty, if_unused=if_unused)
        return await self._changed()

    async def purge(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), path_name(request)
        caller = caller_of(request, vhost)
        caller.access.check("purge", name)
        shown_queue(vhost, name)
        with as_bad_request():
            caller.purge_queue(name)
        return await self._changed()

    async def act(self, request: Request) -> Response:
        action = text_of(await declared(request), "action")
        vhost, name = entered_vhost(request), path_name(request)
        access_of(request, vhost).check("delete queue", name)
        shown_queue(vhost, name)
        if action not in ACTIONS:
            raise BadRequest(f"unknown action '{action}' for queue '{name}': expected {' or '.join(ACTIONS)}")
        return no_content()
