"""Queues: list, show, declare, delete, purge."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.exchange import binding_row, default_binding
from leveret.api.views.queue import QUEUE_ROWS, QueueView
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import (
    as_bad_request,
    declared,
    path_name,
    shown_queue,
    table_of,
)
from leveret.http.authorization import access_of, caller_of, entered_vhost, seen_vhost
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest
from leveret.http.listings import list_response, object_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.rows import RowCache
from leveret.http.values import boolean_of, text_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.routing.bindings import Destination
from leveret.stats.samples import NO_WINDOWS, windows_of

ONE = "/api/queues/{vhost}/{name}"
ACTIONS = ("sync", "cancel_sync")  # of mirrors: accepted, without effect


def routes(context: ApiContext) -> list[Route]:
    api = _Queues(context)
    return [
        Route("/api/queues", api.list_all),
        Route("/api/queues/{vhost}", api.list_of_vhost),
        Route(ONE, api.show),
        Route(ONE, api.declare, methods=["PUT"]),
        Route(ONE, api.delete, methods=["DELETE"]),
        Route(f"{ONE}/contents", api.purge, methods=["DELETE"]),
        Route(f"{ONE}/bindings", api.bindings_to),
        Route(f"{ONE}/actions", api.act, methods=["POST"]),
    ]


class _Queues:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._cache: RowCache[DeclaredQueue] = RowCache(lambda queue: queue.alive)

    # ---- reading

    async def list_all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await self._listed(request, visible_vhosts(request))

    async def list_of_vhost(self, request: Request) -> Response:
        return await self._listed(request, [seen_vhost(request)])

    async def _listed(self, request: Request, vhosts: Iterable[Vhost]) -> Response:
        view, has_samples = self._view(request), windows_of(request.query_params) != NO_WINDOWS
        queues = [(vhost, queue, view) for vhost in vhosts for queue in vhost.queues.values()]
        self._cache.begin_list()
        cached = None if has_samples else view.encoded
        return await list_response(self._context, request, queues, QUEUE_ROWS, cached)

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        queue = shown_queue(vhost, path_name(request))
        return object_response(request, self._view(request).detail(vhost, queue))

    def _view(self, request: Request) -> QueueView:
        context, windows = self._context, windows_of(request.query_params)
        return QueueView(context.stats, context.policy_matches, context.broker.node_name, self._cache, windows)

    async def bindings_to(self, request: Request) -> Response:
        vhost, name = seen_vhost(request), path_name(request)
        bindings = vhost.bindings.of_destination(Destination("queue", name))
        if name in vhost.queues:
            bindings = [default_binding(name), *bindings]
        return await list_response(self._context, request, bindings, lambda binding: binding_row(vhost, binding))

    # ---- changing

    async def declare(self, request: Request) -> Response:
        given = await declared(request)  # first: while it comes, anything may happen to the virtual host
        vhost, name = entered_vhost(request), path_name(request)
        durable, auto_delete = boolean_of(given, "durable"), boolean_of(given, "auto_delete")
        arguments = table_of(given, "arguments")
        is_new = name not in vhost.queues
        with as_bad_request():
            caller_of(request, vhost).declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)
        await wait_until_durable(self._context.broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), path_name(request)
        if_empty = boolean_of(request.query_params, "if-empty")
        if_unused = boolean_of(request.query_params, "if-unused")
        caller = caller_of(request, vhost)
        caller.access.check("delete queue", name)
        shown_queue(vhost, name)
        with as_bad_request():
            caller.delete_queue(name, if_empty=if_empty, if_unused=if_unused)
        await wait_until_durable(self._context.broker)
        return no_content()

    async def purge(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), path_name(request)
        caller = caller_of(request, vhost)
        caller.access.check("purge", name)
        shown_queue(vhost, name)
        with as_bad_request():
            caller.purge_queue(name)
        await wait_until_durable(self._context.broker)
        return no_content()

    async def act(self, request: Request) -> Response:
        action = text_of(await declared(request), "action")
        vhost, name = entered_vhost(request), path_name(request)
        access_of(request, vhost).check("delete queue", name)
        shown_queue(vhost, name)
        if action not in ACTIONS:
            raise BadRequest(f"unknown action '{action}' for queue '{name}': expected {' or '.join(ACTIONS)}")
        return no_content()
