"""Those who are connected over HTTP, each with a protocol object of uvicorn's, and how long they may keep us waiting.

Idle connections, and heads that trickle in, end after a while: uvicorn itself waits for the first head without end.
How many there may be, and which idle one is closed for a new one, is decided by server/admission.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from leveret.http.heads import StrictConnection
from leveret.http.login import SOCKET
from leveret.http.stream_listeners import StreamListeners
from leveret.http.websocket import WebSocketPeer
from leveret.logs import get_log
from leveret.server.admission import ADMITTED, Admitted
from leveret.server.proxied_transport import behind_proxy

KEPT_ALIVE = 75  # seconds between two requests


class Peer(H11Protocol):
    def __init__(self, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(peers.config, peers.state, {}, loop)
        self.conn = StrictConnection()
        self.access_log = False  # a line per request is for whoever asked for it; nobody could here
        self._peers = peers
        self._head_due: asyncio.TimerHandle | None = None
        self.admitted: Admitted | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._peers.behind_proxy:
            transport = behind_proxy(transport)
        super().connection_made(transport)
        self.app_state[SOCKET] = transport
        if self.admitted is not None:  # counted since the TLS handshake began
            self.admitted.close = transport.abort
        elif self.client is not None:  # without one it was reset before it was accepted
            self.admitted = self._peers.listeners.admission.enter(self.client[0], transport.abort)
        if self.admitted is None:
            transport.abort()
            return
        self.app_state[ADMITTED] = self.admitted
        self._expect_head(self._peers.head_timeout)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From now on the socket, with its place, is the WebSocket's."""
        if self.admitted is not None:
            self.admitted.set_idle(False)
        if self._head_due is not None:
            self._head_due.cancel()
        super().handle_websocket_upgrade(event)
        self._peers.left()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        if self.admitted is not None:
            self.admitted.leave()
        super().connection_lost(exc)
        self._peers.left()

    def on_response_complete(self) -> None:
        self._expect_head(KEPT_ALIVE + self._peers.head_timeout)
        super().on_response_complete()

    def _expect_head(self, seconds: float) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        if self.admitted is not None:
            self.admitted.set_idle(True)
        self._head_due = self.loop.call_later(seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first head is there
        if cycle is None or cycle.response_complete:
            self.transport.abort()


class Peers:
    def __init__(
        self, app: ASGIApp, head_timeout: float, listeners: StreamListeners, *, behind_proxy: bool = False
    ) -> None:
        self.head_timeout = head_timeout
        self.listeners = listeners
        self.behind_proxy = behind_proxy

        def upgraded(app_state: dict[str, Any], **_: object) -> WebSocketPeer:
            return WebSocketPeer(listeners, app_state[ADMITTED])

        self.config = Config(
            app,
            interface="asgi3",
            http=H11Protocol,
            ws=upgraded,  # type: ignore[arg-type]  # called as a class would be
            lifespan="off",
            log_config=None,  # the process has its own
            proxy_headers=False,  # who forwards requests must not vouch for where they come from
            timeout_keep_alive=KEPT_ALIVE,
        )
        self.config.load()
        self.state = ServerState()
        self._gone = asyncio.Event()
        self._log = get_log("http")

    def admit(self) -> Peer:
        return Peer(self, asyncio.get_running_loop())

    def left(self) -> None:
        if not self.state.connections:
            self._gone.set()

    async def leave(self, seconds: float) -> None:
        """Idle peers go at once, the others when they have their answer or their time is up."""
        for peer in list(self.state.connections):
            peer.shutdown()
        if not await self._all_gone(seconds * 0.6):
            self._log.warning("connections aborted at shutdown", number=len(self.state.connections))
            for peer in list(self.state.connections):
                peer.transport.abort()
            await self._all_gone(seconds * 0.2)
        for task in list(self.state.tasks):
            task.cancel()
        if self.state.tasks:
            await asyncio.wait(set(self.state.tasks), timeout=seconds * 0.2)

    async def _all_gone(self, seconds: float) -> bool:
        self._gone.clear()
        self.left()
        try:
            await asyncio.wait_for(self._gone.wait(), seconds)
        except TimeoutError:
            return False
        return True
