"""Listeners for protocols carried over the HTTP port, by WebSocket or HTTP tunnel.

A protocol registers a factory of ``asyncio.Protocol`` objects here, the same as for a port of its own. The WebSocket or
tunnel is its ``asyncio.Transport``. So limits, logins, heartbeats and shutdown work as on a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.auth.loopback import http_peer
from leveret.session.limits import UNAUTHENTICATED_BYTES

if TYPE_CHECKING:
    from leveret.http.tunnels import Tunnels
    from leveret.server.admission import Admission

AMQP = "amqp"
STOMP = ("v12.stomp", "v11.stomp", "v10.stomp")
LARGEST_PIECE = 1 << 20  # bytes in one piece from an authenticated client, unless the listener sets another limit


def peer_name(peer: Any, host: str, names: Iterable[str], version: str = "1.1") -> Any:
    """The peer name of a socket, for a client that sent this ``Host`` header and headers of these names."""
    return (http_peer(peer[0], host, names, version), *peer[1:]) if isinstance(peer, tuple) else peer


def _largest_piece(peer: Any) -> int:
    return LARGEST_PIECE


def _gather_unseen(peer: Any, size: int) -> None:
    """The default: pieces are small."""


class StreamListener(NamedTuple):
    subprotocol: str
    admit: Callable[[], asyncio.Protocol]  # creates the protocol object of a new connection
    is_text: bool  # send valid UTF-8 as text frames
    is_known: Callable[[Any], bool]  # whether the client of a protocol object has authenticated
    largest: Callable[[Any], int] = _largest_piece  # bytes in one piece, from an authenticated client
    gather: Callable[[Any, int], None] = _gather_unseen  # receives the size of an incomplete piece

    def most_bytes(self, peer: asyncio.Protocol) -> int:
        return self.largest(peer) if self.is_known(peer) else UNAUTHENTICATED_BYTES


class StreamListeners:
    """Listeners by WebSocket subprotocol. Without a subprotocol, and in tunnels, the protocol is AMQP."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self._listeners: dict[str, StreamListener] = {}
        self.tunnels: Tunnels | None = None  # set when the endpoints are created

    def register(
        self,
        subprotocol: str,
        admit: Callable[[], asyncio.Protocol],
        *,
        is_text: bool = False,
        is_known: Callable[[Any], bool] = lambda peer: True,
        largest: Callable[[Any], int] = _largest_piece,
        gather: Callable[[Any, int], None] = _gather_unseen,
    ) -> None:
        self._listeners[subprotocol] = StreamListener(subprotocol, admit, is_text, is_known, largest, gather)

    @property
    def amqp(self) -> StreamListener | None:
        return self._listeners.get(AMQP)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._listeners)

    def chosen(self, offered: list[str]) -> StreamListener | None:
        """The listener for the first known subprotocol, or None."""
        return next((self._listeners[name] for name in offered or [AMQP] if name in self._listeners), None)

    async def drained(self, seconds: float) -> None:
        """Wait until all tunnels are closed, or for ``seconds``: closing them needs requests."""
        if self.tunnels is not None:
            await self.tunnels.drained(seconds)
