"""The asyncio protocols of both ends of a link between cells (session/link_connection.py, cells/link.py).

Each end sends something at least once per check, and is lost when it has received nothing during several of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.errors import AmqpError
from leveret.logs import get_log
from leveret.server.socket_peer import SocketPeer
from leveret.wire.constants import HEARTBEAT_FRAME

if TYPE_CHECKING:
    from leveret.cells.link import Link
    from leveret.session.link_connection import LinkConnection
    from leveret.session.outbox import Outbox

WRITE_HIGH_WATERMARK = 4 << 20
CHECK_INTERVAL = 1.0  # seconds between two heartbeats of an idle link
MOST_SILENT = 6  # checks without a received byte, after which the other cell counts as disconnected


class Silence:
    """Counts checks and not seconds: a process that was stopped itself has not missed anything."""

    def __init__(self) -> None:
        self._received = -1
        self._checks = 0

    def is_too_long(self, received: int) -> bool:
        """``received``: bytes so far."""
        self._checks = 0 if received != self._received else self._checks + 1
        self._received = received
        return self._checks >= MOST_SILENT

    def forgive(self) -> None:
        """Nothing was read."""
        self._received = -1


class LinkTransport(SocketPeer):
    """Implements session.connection.Peer. ``on_lost`` is called once."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._silence = Silence()
        self._is_reading = True
        self._checked_writes = -1  # at the last check
        self._checked_unsent = 0
        self.name = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self.attach(transport, WRITE_HIGH_WATERMARK)
        self.host = str((transport.get_extra_info("peername") or ("",))[0])

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.reads += 1
        self.take(data)

    def take(self, data: bytes) -> None:
        raise NotImplementedError

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost()

    def is_alive(self) -> bool:
        """Called every CHECK_INTERVAL: whether the other side is. Sends a heartbeat if nothing was sent meanwhile."""
        if self._is_silent():
            return False
        outbox = self.outbox()
        if outbox is not None:
            outbox.look_again()
        if self.writes == self._checked_writes and not self.unsent():
            self.write(HEARTBEAT_FRAME)
        self._checked_writes = self.writes
        return True

    def _is_silent(self) -> bool:
        """Without reading nothing can be received: then the other side must read."""
        unsent, before = self.unsent(), self._checked_unsent
        self._checked_unsent = unsent
        if not self._is_reading and (not unsent or unsent < before):
            self._silence.forgive()
        return self._silence.is_too_long(self.received)

    def outbox(self) -> Outbox | None:
        raise NotImplementedError

    # ---- session.connection.Peer

    def pause_reading(self) -> None:
        self._is_reading = False
        super().pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        self._silence.forgive()
        super().resume_reading()

    def close(self) -> None:
        self._transport.close()

    def close_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.abort)


class HomeEnd(LinkTransport):
    """``open_session`` is called with this object as the peer."""

    def __init__(self, open_session: Callable[[HomeEnd], LinkConnection], on_lost: Callable[[], None]) -> None:
        super().__init__(on_lost)
        self.epoch = 0  # in which the node of the other side leads its cell
        self._open_session = open_session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.session = self._open_session(self)

    def take(self, data: bytes) -> None:
        self.session.receive(data)

    def outbox(self) -> Outbox:
        return self.session.outbox

    def pause_writing(self) -> None:
        self.session.outbox.set_writable(False)

    def resume_writing(self) -> None:
        self.session.outbox.set_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        self.session.lost()
        super().connection_lost(error)


class NearEnd(LinkTransport):
    def __init__(self, link: Link, on_lost: Callable[[], None]) -> None:
        super().__init__(on_lost)
        self._link = link
        self._outbox: Outbox | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._outbox = self._link.connected(self)

    def take(self, data: bytes) -> None:
        try:
            self._link.receive(data)
        except AmqpError as problem:
            get_log("cells").warning("link to another cell closed", reason=str(problem))
            self.abort()

    def outbox(self) -> Outbox | None:
        return self._outbox

    def pause_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.set_writable(False)

    def resume_writing(self) -> None:
        if self._outbox is not None:
            self._outbox.set_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        try:
            self._link.lost()
        finally:
            super().connection_lost(error)
