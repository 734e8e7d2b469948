"""The HTTP ports, with and without TLS: uvicorn's protocol on the broker's own loop, and nothing else of a web server.

No process, signal handler or logging set-up of uvicorn's is used: the broker may live in somebody else's process, on a
loop in a thread. What is imported for HTTP takes a quarter of a second, so it is imported once the AMQP port listens,
and in a thread.

What a stranger can take is bounded: connections, the size of a head, the time for it. Bodies are bounded by the
endpoints, which are behind the login, or are those of a tunnel, which have a time as well.
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
from leveret.server.binding import Ports
from leveret.server.trusted_proxies import TrustedProxies

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leveret.http.peers import Peers


class HttpServer:
    """``start``, then ``listen`` on each port; ``stop(seconds)`` lets answers under way come to their end."""

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
        self._routes = routes  # called in a thread: it imports what it needs
        self._listeners = listeners
        self._ports: Ports | None = None
        self._peers: Peers | None = None

    async def start(self) -> None:
        """Make ready for peers; nobody is received yet."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="leveret-http") as thread:
            self._peers = peers = await loop.run_in_executor(thread, self._make_peers)
        self._ports = Ports(peers.admit, lambda: peers.head_timeout, self._listeners.admission)

    async def listen(
        self,
        hosts: tuple[str, ...],
        port: int,
        flag: str,
        context: ssl.SSLContext | None,
        proxies: TrustedProxies | None = None,
    ) -> int:
        """Bind every host at one port; the port, which is a picked one if 0 was asked for."""
        assert self._ports is not None
        return await self._ports.listen(hosts, port, flag, context, proxies)

    async def renew(self, context: ssl.SSLContext) -> None:
        """Receive new peers with ``context``; who is connected stays as it is."""
        assert self._ports is not None
        await self._ports.renew(context)

    def keep_to(self, head_timeout: float) -> None:
        """Seconds for the next head of every peer."""
        if self._peers is not None:
            self._peers.head_timeout = head_timeout

    def _make_peers(self) -> Peers:
        from leveret.http.app import Gate
        from leveret.http.peers import Peers

        settings = self._settings
        gate = Gate(self._broker, self._login, settings.loopback_users, self._routes(), settings.hsts_max_age)
        return Peers(gate, settings.handshake_timeout, self._listeners, behind_proxy=settings.behind_proxy)

    async def stop(self, seconds: float) -> None:
        """No new peers; those that are being answered are cut off when their time is up."""
        if self._ports is not None:
            self._ports.close()
        if self._peers is not None:
            begun = asyncio.get_running_loop().time()
            await self._listeners.drained(seconds * 0.4)
            await self._peers.leave(seconds - (asyncio.get_running_loop().time() - begun))
