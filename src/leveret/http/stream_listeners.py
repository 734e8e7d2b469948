"""Doors for peers whose bytes come through the HTTP port, over WebSocket or in a tunnel of requests.

Whoever serves a protocol registers here how it receives a peer: by an ordinary ``asyncio.Protocol``, the same as on a
port of its own. What carries the bytes stands in for the socket, and is an ``asyncio.Transport`` to it. So limits,
logins, heartbeats and an orderly end are those of the protocol, whatever way a peer came.
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
LARGEST_PIECE = 1 << 20  # bytes in one piece from a peer that has logged in, unless the listener sets another limit


def peer_name(peer: Any, host: str, names: Iterable[str], version: str = "1.1") -> Any:
    """As a socket tells it, for a peer that takes us for ``host`` and sent headers of these names."""
    return (http_peer(peer[0], host, names, version), *peer[1:]) if isinstance(peer, tuple) else peer


def _largest_piece(peer: Any) -> int:
    return LARGEST_PIECE


def _gather_unseen(peer: Any, size: int) -> None:
    """Pieces are small here."""


class StreamListener(NamedTuple):
    subprotocol: str
    admit: Callable[[], asyncio.Protocol]  # makes the protocol object of each new peer
    is_text: bool  # what is valid UTF-8 goes out as text
    is_known: Callable[[Any], bool]  # whether the peer of a protocol object has logged in
    largest: Callable[[Any], int] = _largest_piece  # bytes in one piece, from a peer that has
    gather: Callable[[Any, int], None] = _gather_unseen  # is told how much there is of a piece that is not whole

    def most_bytes(self, peer: asyncio.Protocol) -> int:
        return self.largest(peer) if self.is_known(peer) else UNAUTHENTICATED_BYTES


class StreamListeners:
    """By the name of a WebSocket's subprotocol. Who names none is taken for AMQP, and so is who digs a tunnel."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self._listeners: dict[str, StreamListener] = {}
        self.tunnels: Tunnels | None = None  # once there are endpoints for them

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
        """For the first of the subprotocols that there is a door for; None if there is none for any."""
        return next((self._listeners[name] for name in offered or [AMQP] if name in self._listeners), None)

    async def drained(self, seconds: float) -> None:
        """Until the peers in tunnels are gone, or the time is up: their last words need requests."""
        if self.tunnels is not None:
            await self.tunnels.drained(seconds)
