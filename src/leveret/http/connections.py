"""HTTP connections, each with a protocol object of uvicorn, and their timeouts.

Idle connections and slow request heads time out: uvicorn itself waits for the first head without limit. The number of
connections is limited, and idle ones are evicted, by server/admission.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from leveret.http.login import SOCKET
from leveret.http.request_heads import StrictConnection
from leveret.http.stream_listeners import StreamListeners
from leveret.http.websocket import WebSocketBridge
from leveret.logs import get_log
from leveret.server.admission import ADMITTED, Admitted
from leveret.server.proxied_transport import behind_proxy

KEPT_ALIVE = 75  # seconds between two requests


class HttpProtocol(H11Protocol):
    def __init__(self, connections: HttpConnections, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(connections.config, connections.state, {}, loop)
        self.conn = StrictConnection(connections.prefix)
        self.access_log = False  # there is no setting for an access log
        self._connections = connections
        self._head_due: asyncio.TimerHandle | None = None
        self.admitted: Admitted | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._connections.behind_proxy:
            transport = behind_proxy(transport)
        super().connection_made(transport)
        self.app_state[SOCKET] = transport
        if self.admitted is not None:  # counted since the TLS handshake began
            self.admitted.close = transport.abort
        elif self.client is not None:  # None: reset before it was accepted
            self.admitted = self._connections.listeners.admission.enter(self.client[0], transport.abort)
        if self.admitted is None:
            transport.abort()
            return
        self.app_state[ADMITTED] = self.admitted
        self._expect_head(self._connections.head_timeout)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Pass the socket and its admission to the WebSocket."""
        if self.admitted is not None:
            self.admitted.set_idle(False)
        if self._head_due is not None:
            self._head_due.cancel()
        super().handle_websocket_upgrade(event)
        self._connections.notify_closed()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        if self.admitted is not None:
            self.admitted.leave()
        super().connection_lost(exc)
        self._connections.notify_closed()

    def on_response_complete(self) -> None:
        self._expect_head(KEPT_ALIVE + self._connections.head_timeout)
        super().on_response_complete()

    def _expect_head(self, seconds: float) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        if self.admitted is not None:
            self.admitted.set_idle(True)
        self._head_due = self.loop.call_later(seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request head
        if cycle is None or cycle.response_complete:
            self.transport.abort()


class HttpConnections:
    def __init__(
        self,
        app: ASGIApp,
        head_timeout: float,
        listeners: StreamListeners,
        *,
        behind_proxy: bool = False,
        prefix: str = "",
    ) -> None:
        self.head_timeout = head_timeout
        self.listeners = listeners
        self.behind_proxy = behind_proxy
        self.prefix = prefix.encode("ascii")

        def upgraded(app_state: dict[str, Any], **_: object) -> WebSocketBridge:
            return WebSocketBridge(listeners, app_state[ADMITTED])

        self.config = Config(
            app,
            interface="asgi3",
            http=H11Protocol,
            ws=upgraded,  # type: ignore[arg-type]  # called like a class
            lifespan="off",
            log_config=None,  # the broker configures logging
            proxy_headers=False,  # X-Forwarded-For of an untrusted client is ignored
            timeout_keep_alive=KEPT_ALIVE,
        )
        self.config.load()
        self.state = ServerState()
        self._closed = asyncio.Event()
        self._log = get_log("http")

    def create_protocol(self) -> HttpProtocol:
        return HttpProtocol(self, asyncio.get_running_loop())

    def notify_closed(self) -> None:
        if not self.state.connections:
            self._closed.set()

    async def close(self, seconds: float) -> None:
        """Close idle connections at once, the others after their response, at the latest when the time is up."""
        for connection in list(self.state.connections):
            connection.shutdown()
        if not await self._all_closed(seconds * 0.6):
            self._log.warning("connections aborted at shutdown", number=len(self.state.connections))
            for connection in list(self.state.connections):
                connection.transport.abort()
            await self._all_closed(seconds * 0.2)
        for task in list(self.state.tasks):
            task.cancel()
        if self.state.tasks:
            await asyncio.wait(set(self.state.tasks), timeout=seconds * 0.2)

    async def _all_closed(self, seconds: float) -> bool:
        self._closed.clear()
        self.notify_closed()
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except TimeoutError:
            return False
        return True
