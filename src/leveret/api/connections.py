"""Who is connected, and the channels that were opened. Connections can be closed from here.

Monitoring users and administrators see all of them, other users those opened in their own name. Those of
others are closed by administrators only.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.connection import channel_name, channel_view, connection_view, consumer_view
from leveret.auth.users import User
from leveret.http.authorization import seen_vhost
from leveret.http.errors import Forbidden, ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.login import user_of
from leveret.http.responses import no_content
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, MONITORING, has_role, refuse_unless_role
from leveret.http.rows import Row
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.samples import windows_of
from leveret.stats.totals import has_vhost, open_connections

NO_REASON = "Closed via management plugin"


def routes(context: ApiContext) -> list[Route]:
    here = ConnectionPages(context)
    return [
        Route("/api/connections", here.list_all),
        Route("/api/connections/username/{user}", here.list_of_user, methods=["GET"]),
        Route("/api/connections/username/{user}", here.close_of_user, methods=["DELETE"]),
        Route("/api/connections/{name}", here.show, methods=["GET"]),
        Route("/api/connections/{name}", here.close, methods=["DELETE"]),
        Route("/api/connections/{name}/channels", here.channels_of_connection),
        Route("/api/vhosts/{vhost}/connections", here.list_of_vhost),
        Route("/api/channels", here.channels),
        Route("/api/channels/{name}", here.channel),
        Route("/api/vhosts/{vhost}/channels", here.channels_of_vhost),
    ]


def may_see_connections_of(user: User, name: str) -> bool:
    return user.name == name or has_role(user, MONITORING)


def _refuse_to_close(user: User, name: str) -> None:
    if user.name != name and not has_role(user, ADMINISTRATOR):
        raise Forbidden(f"user '{user.name}' needs the tag '{ADMINISTRATOR}' to close connections of '{name}'")


class ConnectionPages:
    def __init__(self, context: ApiContext) -> None:
        self._context = context

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
        connection = self._named(request)
        return object_response(
            request, connection_view(self._context.stats, connection, windows_of(request.query_params))
        )

    async def close(self, request: Request) -> Response:
        connection = self._named(request)
        _refuse_to_close(user_of(request), connection.user.name)
        self._close(request, connection)
        return no_content()

    async def close_of_user(self, request: Request) -> Response:
        """All of them; closing none is no error."""
        user, name = refuse_unless_role(request, MANAGEMENT), unquote(request.path_params["user"])
        _refuse_to_close(user, name)
        for connection in open_connections(self._context.broker):
            if connection.user.name == name:
                self._close(request, connection)
        return no_content()

    def _close(self, request: Request, connection: Connection) -> None:
        reason = request.headers.get("x-reason", "").strip() or NO_REASON
        connection.log.info("connection closed by a user of the management API", reason=reason)
        connection.force_close(reason)
        self._context.broker.wake()

    async def _list(self, request: Request, connections: Iterable[Connection]) -> Response:
        stats, windows = self._context.stats, windows_of(request.query_params)

        def view(connection: Connection) -> Row | None:
            """It may have gone while others were looked at."""
            return connection_view(stats, connection, windows) if has_vhost(connection) else None

        return await list_response(self._context, request, connections, view)

    def _visible(self, request: Request) -> list[Connection]:
        user = refuse_unless_role(request, MANAGEMENT)
        connections = open_connections(self._context.broker)
        return [each for each in connections if may_see_connections_of(user, each.user.name)]

    def _named(self, request: Request) -> Connection:
        user, name = refuse_unless_role(request, MANAGEMENT), unquote(request.path_params["name"])
        found = next((each for each in open_connections(self._context.broker) if each.name == name), None)
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
        context = self._context
        row = channel_view(context.stats, channel, windows_of(request.query_params))
        row["consumer_details"] = [
            consumer_view(context.broker.node_name, queue, consumer)
            for queue in channel.vhost.queues.values()
            if len(queue.consumers)
            for consumer in queue.consumers
            if getattr(consumer, "channel", None) is channel
        ]
        row["publishes"], row["deliveries"] = [], []
        return row

    async def _list_channels(self, request: Request, connections: Iterable[Connection]) -> Response:
        stats, windows = self._context.stats, windows_of(request.query_params)
        channels = [channel for connection in connections for channel in connection.channels.values()]
        return await list_response(
            self._context, request, channels, lambda channel: channel_view(stats, channel, windows)
        )
