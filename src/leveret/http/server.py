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
from importlib.util import find_spec
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker
from leveret.config import Settings
from leveret.errors import ConfigError
from leveret.http.login import Login
from leveret.http.stream_listeners import StreamListeners
from leveret.server.acceptor import Acceptor
from leveret.server.ports import Ports
from leveret.server.proxy_header import TrustedProxies

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leveret.http.app import HttpApp
    from leveret.http.connections import HttpConnections
    from leveret.http.identity_provider import IdentityProvider

PACKAGES = ("h11", "starlette", "uvicorn", "websockets")  # of the extra `server`
SIGN_ON_PACKAGES = ("jwt", "cryptography")  # of the extra `oidc`


def has_http(settings: Settings) -> bool:
    return settings.http_port is not None or (settings.https_port is not None and settings.tls_cert is not None)


def has_single_sign_on(settings: Settings) -> bool:
    return settings.oidc_issuer is not None and settings.oidc_client_id is not None


def refuse_missing_packages(settings: Settings) -> None:
    """To be called at the start: the packages themselves are imported late."""
    missing = [name for name in PACKAGES if find_spec(name) is None] if has_http(settings) else []
    if missing:
        raise ConfigError(
            f"the HTTP ports need {', '.join(missing)}: pip install 'leveret[server]', or turn them off with "
            "http_port=None and https_port=None (--http-port off --https-port off)"
        )
    missing = [name for name in SIGN_ON_PACKAGES if find_spec(name) is None] if has_single_sign_on(settings) else []
    if missing:
        raise ConfigError(
            f"oidc_issuer needs {', '.join(missing)}: pip install 'leveret[oidc]', or remove oidc_issuer and "
            "oidc_client_id"
        )


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
        self.app: HttpApp | None = None  # since start

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
        setting: str,
        context: ssl.SSLContext | None,
        proxies: TrustedProxies | None = None,
    ) -> int:
        """Bind every host at one port and return it; port 0 picks a free one."""
        assert self._ports is not None
        return await self._ports.listen(hosts, port, setting, context, proxies)

    def adopter(self, context: ssl.SSLContext | None) -> Acceptor:
        """See Ports."""
        assert self._ports is not None
        return self._ports.adopter(context)

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
        self.app = app = HttpApp(
            self._broker,
            self._login,
            settings.loopback_users,
            self._routes(),
            settings.hsts_max_age,
            metrics_auth=settings.metrics_auth == "on",
            prefix=settings.http_path_prefix,
            provider=self._provider(),
            user_claim=settings.oidc_user_claim,
        )
        return HttpConnections(
            app,
            settings.handshake_timeout,
            self._listeners,
            behind_proxy=settings.behind_proxy,
            prefix=settings.http_path_prefix,
        )

    def _provider(self) -> IdentityProvider | None:
        if not has_single_sign_on(self._settings):
            return None
        from leveret.http.identity_provider import IdentityProvider

        return IdentityProvider.of(self._settings, self._broker.clock)

    async def stop(self, seconds: float) -> None:
        """Accept no new connections; requests in progress are aborted after ``seconds``."""
        if self._ports is not None:
            self._ports.close()
        if self._connections is not None:
            begun = asyncio.get_running_loop().time()
            await self._listeners.drained(seconds * 0.4)
            await self._connections.close(seconds - (asyncio.get_running_loop().time() - begun))
        if self.app is not None:
            self.app.close()
