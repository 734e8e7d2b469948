"""Consumers of queues.

Users with the tag monitoring or administrator see all of them, other users see their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import vhost_lists
from leveret.api.views.connection import CONSUMER_ROWS, FoundConsumer
from leveret.auth.users import User
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer import Consumer
from leveret.http.login import user_of
from leveret.http.roles import MONITORING, has_role
from leveret.session.consumers import ChannelConsumer


def routes(context: ApiContext) -> list[Route]:
    def consumers(request: Request, vhosts: Sequence[Vhost]) -> Iterator[FoundConsumer]:
        user = user_of(request)
        for queue in [queue for vhost in vhosts for queue in vhost.queues.values()]:
            for consumer in list(queue.consumers):
                if _is_seen_by(user, consumer):
                    yield FoundConsumer(queue, consumer, context.broker.node_name)

    return vhost_lists(context, "/api/consumers", CONSUMER_ROWS, consumers)


def _is_seen_by(user: User, consumer: Consumer) -> bool:
    """A consumer in the broker's own process belongs to no user."""
    if has_role(user, MONITORING):
        return True
    return isinstance(consumer, ChannelConsumer) and consumer.connection.user.name == user.name
