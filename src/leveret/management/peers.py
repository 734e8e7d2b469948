"""Those who are connected over HTTP, each with a protocol object of uvicorn's, and how long they may keep us waiting.

Idle connections, and heads that trickle in, end after a while: uvicorn itself waits for the first head without end.
More connections than we want are answered with 503, many more are dropped unread.
"""

from __future__ import annotations

import asyncio

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from leveret.logs import get_log
from leveret.management.api_tunnel import SOCKET
from leveret.management.stream_doors import StreamDoors
from leveret.management.websocket import WebSocketPeer

MOST_CONNECTIONS = 500
MOST_UNREAD = 2 * MOST_CONNECTIONS
LARGEST_HEAD = 64 << 10
KEPT_ALIVE = 75  # seconds between two requests


class Peer(H11Protocol):
    def __init__(self, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(peers.config, peers.state, {}, loop)
        self.access_log = False  # a line per request is for whoever asked for it; nobody could here
        self._peers = peers
        self._head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state[SOCKET] = transport
        if len(self.connections) > MOST_UNREAD:
            transport.abort()
        self._expect_head(self._peers.head_timeout)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From now on the socket is a WebSocket's, and nobody here waits for it."""
        if self._head_due is not None:
            self._head_due.cancel()
        super().handle_websocket_upgrade(event)
        self._peers.left()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        super().connection_lost(exc)
        self._peers.left()

    def on_response_complete(self) -> None:
        self._expect_head(KEPT_ALIVE + self._peers.head_timeout)
        super().on_response_complete()

    def _expect_head(self, seconds: float) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
        self._head_due = self.loop.call_later(seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first head is there
        if cycle is None or cycle.response_complete:
            self.transport.abort()


class Peers:
    def __init__(self, app: ASGIApp, head_timeout: float, doors: StreamDoors) -> None:
        self.head_timeout = head_timeout

        def upgraded(**_: object) -> WebSocketPeer:
            return WebSocketPeer(doors)

        self.config = Config(
            app,
            interface="asgi3",
            http=H11Protocol,
            ws=upgraded,  # type: ignore[arg-type]  # called as a class would be
            lifespan="off",
            log_config=None,  # the process has its own
            proxy_headers=False,  # who forwards requests must not vouch for where they come from
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEPT_ALIVE,
            h11_max_incomplete_event_size=LARGEST_HEAD,
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
            self._log.warning("peers cut off at shutdown", number=len(self.state.connections))
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
