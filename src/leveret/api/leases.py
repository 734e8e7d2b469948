"""Leases on classic queues: messages leased by consumers and not committed yet.

A lease does not time out: its messages belong to the consumer until it commits or releases them. To release a lease,
use ``DELETE /api/pipeline/{vhost}/leases?queue=Q&consumer=C&lease=N``.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.broker.leases import Lease
from leveret.broker.vhost import Vhost
from leveret.http.authorization import seen_vhost
from leveret.http.listings import list_response, viewed
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.rows import Row


def routes(context: ApiContext) -> list[Route]:
    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await _listed(context, request, visible_vhosts(request))

    async def list_of_vhost(request: Request) -> Response:
        return await _listed(context, request, [seen_vhost(request)])

    return [Route("/api/leases", list_all), Route("/api/leases/{vhost}", list_of_vhost)]


async def _listed(context: ApiContext, request: Request, vhosts: Iterable[Vhost]) -> Response:
    book, now = context.broker.leases, context.clock.wall()
    leases = [lease for vhost in vhosts for lease in book.leases(vhost.name)]
    rows = await viewed(leases, lambda lease: _row(lease, now) if lease.queue.alive else None)
    return await list_response(context, request, rows)


def _row(lease: Lease, now: float) -> Row:
    return {
        "name": lease.consumer,
        "consumer": lease.consumer,
        "queue": lease.queue.name,
        "vhost": lease.queue.vhost,
        "lease": lease.number,
        "messages": lease.messages,
        "bytes": lease.bytes,
        "since": lease.since,
        "age": max(now - lease.since, 0.0),
    }
