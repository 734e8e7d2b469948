"""The HTTP port: uvicorn's protocol on the broker's own loop, and nothing else of a web server.

No process, signal handler or logging set-up of uvicorn's is used: the broker may live in somebody else's process, on a
loop in a thread. What is imported for HTTP takes a quarter of a second, so it is imported once the AMQP port listens,
and in a thread.

What a stranger can take is bounded: connections, the size of a head, the time for it. Bodies are bounded by the
endpoints, which are behind the login.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker
from leveret.config import Settings
from leveret.logs import get_log
from leveret.management.login import Login
from leveret.server.binding import reuse_address, unusable

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leveret.management.peers import Peers

BACKLOG = 1024


class HttpServer:
    """``await start()`` gives the port, ``await stop(seconds)`` lets answers under way come to their end."""

    def __init__(
        self, broker: Broker, login: Login, settings: Settings, routes: Callable[[], Sequence[BaseRoute]]
    ) -> None:
        self._broker = broker
        self._login = login
        self._settings = settings
        self._routes = routes  # called in a thread: it imports what it needs
        self._servers: list[asyncio.Server] = []
        self._peers: Peers | None = None
        self._log = get_log("http")

    async def start(self) -> int:
        """Bind every host at one port; the port, which is a picked one if 0 was asked for."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="leveret-http") as thread:
            self._peers = peers = await loop.run_in_executor(thread, self._make_peers)
        port = self._settings.http_port
        assert port is not None
        for host in self._settings.host:
            try:
                server = await loop.create_server(
                    peers.admit, host or None, port, backlog=BACKLOG, reuse_address=reuse_address()
                )
            except OSError as problem:
                raise unusable(host, port, "--http-port", problem) from problem
            self._servers.append(server)
            port = port or server.sockets[0].getsockname()[1]
        return port

    def _make_peers(self) -> Peers:
        from leveret.management.app import Gate
        from leveret.management.peers import Peers

        gate = Gate(self._broker, self._login, self._settings.loopback_users, self._routes())
        return Peers(gate, self._settings.handshake_timeout)

    async def stop(self, seconds: float) -> None:
        """No new peers; those that are being answered are cut off when their time is up."""
        for server in self._servers:
            server.close()
        if self._peers is not None:
            await self._peers.leave(seconds)
