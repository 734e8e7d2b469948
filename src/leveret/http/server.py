"""The HTTP ports, with and without TLS: uvicorn's HTTP protocol on the broker's own event loop.

Uvicorn's processes, signal handlers and logging are not used: the broker may be embedded in another program, on an
event loop in a thread. The imports for HTTP take a quarter of a second, so they run in a thread after the AMQP port is
open.

Unauthenticated clients are limited in connections, size of request heads and time for them. Endpoints limit bodies; all
but the tunnel endpoints need a login, and those limit the time as well.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker
from leveret.config import Settings
from leveret.http.login import Login
from leveret.http.stream_listeners import StreamListeners
from leveret.server.ports import Ports
from leveret.server.proxy_header import TrustedProxies

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leveret.http.connections import HttpConnections


class HttpServer:
    """Call ``start``, then ``listen`` for each port; ``stop(seconds)`` lets requests in progress finish."""

    def __init__(
        self,
        broker: Broker,
        login: Login,
        settings: Settings,
        routes: Callable[[], Sequence[BaseRoute]],
        listeners: StreamListeners,
    ) -> None:
        self._broker = broker
        self._login = login
        self._settings = settings
        self._routes = routes  # called in a thread: it imports the endpoints
        self._listeners = listeners
        self._ports: Ports | None = None
        self._connections: HttpConnections | None = None

    async def start(self) -> None:
        """Prepare for connections; ``listen`` accepts them."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="leveret-http") as thread:
            self._connections = connections = await loop.run_in_executor(thread, self._make_connections)
        self._ports = Ports(connections.create_protocol, lambda: connections.head_timeout, self._listeners.admission)

    async def listen(
        self,
        hosts: tuple[str, ...],
        port: int,
        flag: str,
        context: ssl.SSLContext | None,
        proxies: TrustedProxies | None = None,
    ) -> int:
        """Bind every host at one port and return it; port 0 picks a free one."""
        assert self._ports is not None
        return await self._ports.listen(hosts, port, flag, context, proxies)

    async def renew(self, context: ssl.SSLContext) -> None:
        """Use ``context`` for new connections; existing ones are unaffected."""
        assert self._ports is not None
        await self._ports.renew(context)

    def set_head_timeout(self, head_timeout: float) -> None:
        """Seconds for the next request head of every connection."""
        if self._connections is not None:
            self._connections.head_timeout = head_timeout

    def _make_connections(self) -> HttpConnections:
        from leveret.http.app import HttpApp
        from leveret.http.connections import HttpConnections

        settings = self._settings
        app = HttpApp(self._broker, self._login, settings.loopback_users, self._routes(), settings.hsts_max_age)
        return HttpConnections(app, settings.handshake_timeout, self._listeners, behind_proxy=settings.behind_proxy)

    async def stop(self, seconds: float) -> None:
        """Accept no new connections; requests in progress are aborted after ``seconds``."""
        if self._ports is not None:
            self._ports.close()
        if self._connections is not None:
            begun = asyncio.get_running_loop().time()
            await self._listeners.drained(seconds * 0.4)
            await self._connections.close(seconds - (asyncio.get_running_loop().time() - begun))
