"""Connections and their channels: list, show and close them.

Users with the tag monitoring or administrator see all connections, other users see their own. Only administrators may
close connections of other users.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.api.views.connection import (
    CHANNEL_ROWS,
    CONNECTION_ROWS,
    CONSUMER_ROWS,
    FoundChannel,
    FoundConnection,
    FoundConsumer,
    channel_name,
)
from leveret.auth.users import User
from leveret.http.authorization import seen_vhost
from leveret.http.errors import Forbidden, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.login import user_of
from leveret.http.responses import no_content
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, MONITORING, has_role, refuse_unless_role
from leveret.http.rows import Row
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.samples import windows_of
from leveret.stats.totals import open_connections

NO_REASON = "Closed via management plugin"


def routes(context: ApiContext) -> list[Route]:
    api = _Connections(context)
    return [
        Route("/api/connections", api.list_all),
        *routes_of("/api/connections/username/{user}", GET=api.list_of_user, DELETE=api.close_of_user),
        *routes_of("/api/connections/{name}", GET=api.show, DELETE=api.close),
        Route("/api/connections/{name}/channels", api.channels_of_connection),
        Route("/api/vhosts/{vhost}/connections", api.list_of_vhost),
        Route("/api/channels", api.channels),
        Route("/api/channels/{name}", api.channel),
        Route("/api/vhosts/{vhost}/channels", api.channels_of_vhost),
    ]


def may_see_connections_of(user: User, name: str) -> bool:
    return user.name == name or has_role(user, MONITORING)


def refuse_to_end(user: User, name: str, what: str = "close connections") -> None:
    """What belongs to the user ``name`` is ended by that user, or by an administrator."""
    if user.name != name and not has_role(user, ADMINISTRATOR):
        raise Forbidden(f"user '{user.name}' needs the tag '{ADMINISTRATOR}' to {what} of '{name}'")


class _Connections(Endpoints):
    # ---- connections

    async def list_all(self, request: Request) -> Response:
        return await self._list(request, self._visible(request))

    async def list_of_user(self, request: Request) -> Response:
        name = unquote(request.path_params["user"])
        return await self._list(request, [each for each in self._visible(request) if each.user.name == name])

    async def list_of_vhost(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return await self._list(request, [each for each in self._visible(request) if each.vhost is vhost])

    async def show(self, request: Request) -> Response:
        (found,) = self._found(request, [self._named(request)])
        return object_response(request, CONNECTION_ROWS.row(found))

    async def close(self, request: Request) -> Response:
        connection = self._named(request)
        refuse_to_end(user_of(request), connection.user.name)
        self._close(request, connection)
        return no_content()

    async def close_of_user(self, request: Request) -> Response:
        """No error if the user has no connections."""
        user, name = refuse_unless_role(request, MANAGEMENT), unquote(request.path_params["user"])
        refuse_to_end(user, name)
        for connection in open_connections(self._broker):
            if connection.user.name == name:
                self._close(request, connection)
        return no_content()

    def _close(self, request: Request, connection: Connection) -> None:
        reason = request.headers.get("x-reason", "").strip() or NO_REASON
        connection.log.info("connection closed by a user of the management API", reason=reason)
        connection.force_close(reason)
        self._broker.wake()

    async def _list(self, request: Request, connections: Iterable[Connection]) -> Response:
        return await self._listed(request, self._found(request, connections), CONNECTION_ROWS)

    def _found(self, request: Request, connections: Iterable[Connection]) -> list[FoundConnection]:
        windows = windows_of(request.query_params)
        return [FoundConnection(each, self._context.stats, windows) for each in connections]

    def _visible(self, request: Request) -> list[Connection]:
        user = refuse_unless_role(request, MANAGEMENT)
        connections = open_connections(self._broker)
        return [each for each in connections if may_see_connections_of(user, each.user.name)]

    def _named(self, request: Request) -> Connection:
        user, name = refuse_unless_role(request, MANAGEMENT), unquote(request.path_params["name"])
        found = next((each for each in open_connections(self._broker) if each.name == name), None)
        if found is None:
            raise ObjectNotFound(f"no connection '{name}': it may be closed by now; see /api/connections")
        if not may_see_connections_of(user, found.user.name):
            raise Forbidden(f"connection '{name}' belongs to another user: user '{user.name}' needs '{MONITORING}'")
        return found

    # ---- channels

    async def channels(self, request: Request) -> Response:
        return await self._list_channels(request, self._visible(request))

    async def channels_of_connection(self, request: Request) -> Response:
        return await self._list_channels(request, [self._named(request)])

    async def channels_of_vhost(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return await self._list_channels(request, [each for each in self._visible(request) if each.vhost is vhost])

    async def channel(self, request: Request) -> Response:
        name, visible = unquote(request.path_params["name"]), self._visible(request)
        channels = (channel for connection in visible for channel in connection.channels.values())
        found = next((channel for channel in channels if channel_name(channel) == name), None)
        if found is None:
            raise ObjectNotFound(f"no channel '{name}': it may be closed by now; see /api/channels")
        return object_response(request, self._detail(request, found))

    def _detail(self, request: Request, channel: Channel) -> Row:
        found = FoundChannel(channel, self._context.stats, windows_of(request.query_params))
        consumers = [
            CONSUMER_ROWS.row(FoundConsumer(queue, consumer, self._broker.node_name))
            for queue in channel.vhost.queues.values()
            if len(queue.consumers)
            for consumer in queue.consumers
            if getattr(consumer, "channel", None) is channel
        ]
        return CHANNEL_ROWS.row(found) | {"consumer_details": consumers, "publishes": [], "deliveries": []}

    async def _list_channels(self, request: Request, connections: Iterable[Connection]) -> Response:
        stats, windows = self._context.stats, windows_of(request.query_params)
        channels = [channel for connection in connections for channel in connection.channels.values()]
        found = [FoundChannel(channel, stats, windows) for channel in channels]
        return await self._listed(request, found, CHANNEL_ROWS)
