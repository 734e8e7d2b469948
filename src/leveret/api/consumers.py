"""Consumers of queues: list and cancel them.

Users with the tag monitoring or administrator see all of them, other users see their own. Only administrators may
cancel consumers of other users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.connections import may_see_connections_of, refuse_to_end
from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, vhost_lists
from leveret.api.views.connection import CONSUMER_ROWS, FoundConsumer, channel_name, is_of_link
from leveret.auth.users import User
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer import Consumer
from leveret.http.authorization import seen_vhost
from leveret.http.errors import ObjectNotFound
from leveret.http.login import user_of
from leveret.http.roles import MONITORING, has_role
from leveret.session.channel import Channel
from leveret.session.consumers import ChannelConsumer
from leveret.stats.totals import open_connections

ONE = "/api/consumers/{vhost}/{channel}/{tag}"


def routes(context: ApiContext) -> list[Route]:
    def consumers(request: Request, vhosts: Sequence[Vhost]) -> Iterator[FoundConsumer]:
        user = user_of(request)
        for queue in [queue for vhost in vhosts for queue in vhost.queues.values()]:
            for consumer in list(queue.consumers):
                if _is_seen_by(user, consumer):
                    yield FoundConsumer(queue, consumer, context.broker.node_name)

    lists = vhost_lists(context, "/api/consumers", CONSUMER_ROWS, consumers)
    return [*lists, Route(ONE, _Consumers(context).cancel, methods=["DELETE"])]


class _Consumers(Endpoints):
    async def cancel(self, request: Request) -> Response:
        """The client receives basic.cancel, as for a deleted queue. Messages that it holds stay unacknowledged."""
        channel, tag = self._channel(request), unquote(request.path_params["tag"])
        consumer = channel.consumers.get(tag)
        if consumer is None:
            raise ObjectNotFound(f"no consumer '{tag}' on channel '{channel_name(channel)}': see /api/consumers")
        connection = channel.connection
        connection.log.info("consumer cancelled by a user of the management API", tag=tag, user=user_of(request).name)
        consumer.leave()
        channel.notify_cancel(tag)
        self._broker.wake()
        return await self._changed()

    def _channel(self, request: Request) -> Channel:
        vhost, user, name = seen_vhost(request), user_of(request), unquote(request.path_params["channel"])
        connections = [each for each in open_connections(self._broker) if each.vhost is vhost]
        channels = (channel for each in connections for channel in each.channels.values())
        found = next((channel for channel in channels if channel_name(channel) == name), None)
        if found is None or not may_see_connections_of(user, found.connection.user.name):
            raise ObjectNotFound(f"no channel '{name}' in vhost '{vhost.name}': see /api/consumers")
        refuse_to_end(user, found.connection.user.name, "cancel consumers")
        return found


def _is_seen_by(user: User, consumer: Consumer) -> bool:
    """A consumer in the broker's own process belongs to no user. One of another cell is listed there."""
    if is_of_link(consumer):
        return False
    if has_role(user, MONITORING):
        return True
    return isinstance(consumer, ChannelConsumer) and consumer.connection.user.name == user.name
