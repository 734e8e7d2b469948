"""Who consumes from which queue.

As with connections, monitoring users and administrators see all of them, other users see their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.connection import consumer_view
from leveret.auth.users import User
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer import Consumer
from leveret.http.authorization import seen_vhost
from leveret.http.listings import list_response, viewed
from leveret.http.login import user_of
from leveret.http.roles import MANAGEMENT, MONITORING, has_role, refuse_unless_role, visible_vhosts
from leveret.http.rows import Row
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.consumers import ChannelConsumer


def routes(context: ApiContext) -> list[Route]:
    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await _listed(context, request, visible_vhosts(request))

    async def list_of_vhost(request: Request) -> Response:
        return await _listed(context, request, [seen_vhost(request)])

    return [Route("/api/consumers", list_all), Route("/api/consumers/{vhost}", list_of_vhost)]


async def _listed(context: ApiContext, request: Request, vhosts: Iterable[Vhost]) -> Response:
    consumers: list[tuple[DeclaredQueue, Consumer]] = []
    user = user_of(request)

    def gather(queue: DeclaredQueue) -> None:
        consumers.extend((queue, consumer) for consumer in queue.consumers if _is_seen_by(user, consumer))

    def view(pair: tuple[DeclaredQueue, Consumer]) -> Row:
        return consumer_view(context.broker.node_name, *pair)

    await viewed([queue for vhost in vhosts for queue in vhost.queues.values()], gather)
    return await list_response(context, request, consumers, view)


def _is_seen_by(user: User, consumer: Consumer) -> bool:
    """One in the broker's own process belongs to no user."""
    if has_role(user, MONITORING):
        return True
    return isinstance(consumer, ChannelConsumer) and consumer.connection.user.name == user.name
