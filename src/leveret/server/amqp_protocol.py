"""The asyncio protocol of an AMQP connection: bytes between a socket and a session, without parsing AMQP.  Hot path."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.server.admission import ADMITTED, Admitted
from leveret.server.handed_over_client import PeerFacts
from leveret.server.logins import is_gone
from leveret.server.socket_peer import SocketPeer
from leveret.session.amqp_connection import AmqpConnection
from leveret.session.connection import Connection, Login
from leveret.wire.grammar import Step

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.server.listener import Listener
    from leveret.session.limits import Limits

# Bytes of a read that fills the buffer of the event loop: more wait in the socket. The loop would read up to 32 such
# chunks before it does anything else: 8 MB would be published before the first message is delivered, and all other
# connections would wait.
FULL_READ = 128 << 10
CLOSE_TIMEOUT = 5.0  # seconds for the peer to read the remaining output after a close


class AmqpProtocol(SocketPeer):
    """One accepted socket. Implements session.connection.Peer."""

    __slots__ = (
        "_close_timer",
        "_listener",
        "admitted",
        "idle_in",
        "idle_out",
        "is_direct",
        "opened_at",
        "session",
    )

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self._close_timer: asyncio.TimerHandle | None = None
        self.admitted: Admitted | None = None
        self.is_direct = False  # a socket of a port without TLS and proxies, which another process can continue
        self.idle_in = self.idle_out = 0.0  # seconds without a received byte, without a sent byte
        self.opened_at = listener.loop.time()  # time of the accept; with TLS, well before connection_made

    # ---- for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self.attach(transport, self._listener.limits.write_high_watermark)
        self.host, name = _names(transport)
        self.certificate = transport.get_extra_info("peercert") or None
        if self.admitted is None:  # WebSockets and tunnels were counted with their HTTP connection
            self.admitted = transport.get_extra_info(ADMITTED)
        if self.admitted is None and self.host:  # no address: reset before it was accepted
            self.admitted = self._listener.admission.enter(self.host, transport.abort)
            self.is_direct = True
        elif self.admitted is not None:
            self.admitted.close = transport.abort
        self.session: Connection = self._listener.admit(self, name)

    def open_session(self, broker: Broker, login: Login, limits: Limits, name: str) -> Connection:
        return AmqpConnection(broker, self, login, limits, name)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.reads += 1
        self.session.receive(data)
        if len(data) >= FULL_READ and self.is_direct and not self.session.is_paused:
            self.pause_reading()
            self._listener.loop.call_soon(self._read_on)  # after the tick, which was scheduled before

    def _read_on(self) -> None:
        """Read what waits here, where the event loop would copy it once more, and without registering the socket for
        the next read. At most once per iteration: other connections come in between."""
        if self.session.is_paused or self._transport.is_closing():
            return
        data = self._read(self.session.best_read())
        if data:
            self.data_received(data)
        if len(data) < FULL_READ and not self.session.is_paused:
            self.resume_reading()  # the event loop also reports the end and errors

    def _read(self, size: int) -> bytes:
        socket = self._transport.get_extra_info("socket")
        if os.name != "posix" or socket is None:
            return b""
        try:
            return os.read(socket.fileno(), size)
        except OSError:
            return b""

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.session.outbox.set_writable(False)

    def resume_writing(self) -> None:
        self.session.outbox.set_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._listener.closed(self, error)
        if self.admitted is not None:
            self.admitted.leave()
        self.session.lost()

    # ---- for the session (session.connection.Peer)

    def write_pieces(self, pieces: list[bytes]) -> None:
        if not self._transport.is_closing():
            self.sent += self.session.outbox.size  # approximate: an exact sum would cost time per message
            self.writes += 1
            self._transport.writelines(pieces)

    def close(self) -> None:
        if not self._transport.is_closing():
            self._transport.close()
            self._close_later(CLOSE_TIMEOUT, self._transport.abort)

    def is_known(self) -> bool:
        """Whether the peer has logged in."""
        return self.session.step is Step.OPEN

    def is_in_handshake(self) -> bool:
        """Whether the peer has to send something to log in. A wait for another cell has a limit of its own."""
        return not (self.is_known() or self.session.is_over or self.session.awaits_cell)

    @property
    def source(self) -> str:
        return "" if self.admitted is None else self.admitted.source

    @property
    def address(self) -> str:
        return self.session.name.partition(" -> ")[0]

    @property
    def is_told(self) -> bool:
        return self.session.expects_login_reply

    def is_gone(self) -> bool:
        return is_gone(self._transport)

    def authenticated(self) -> None:
        if self.admitted is not None:
            self.admitted.authenticated()

    def descriptor(self) -> int | None:
        """Of the socket, if another process can continue the connection: everything was written."""
        found = self._transport.get_extra_info("socket") if self.is_direct and not self.unsent() else None
        return None if found is None else int(found.fileno())

    def facts(self) -> PeerFacts:
        (peer_host, peer_port), (host, port) = (
            self._transport.get_extra_info(name)[:2] for name in ("peername", "sockname")
        )
        return PeerFacts(peer_host, peer_port, host, port, self.tls(), self.certificate)

    def relay(self, session: Connection) -> None:
        """Another cell serves the client from now on, through ``session``."""
        self._listener.relayed(self)
        self.session = session
        self.resume_reading()

    def close_after(self, seconds: float) -> None:
        self._close_later(seconds, self.close)

    def _close_later(self, seconds: float, call: Callable[[], None]) -> None:
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._close_timer = self._listener.loop.call_later(seconds, call)


def _names(transport: asyncio.Transport) -> tuple[str, str]:
    """The peer's address, and the connection's name as RabbitMQ writes it: ``peer -> server``."""
    peer = transport.get_extra_info("peername")
    here = transport.get_extra_info("sockname")
    if not isinstance(peer, tuple) or not isinstance(here, tuple):
        return "", "unknown address"
    return str(peer[0]), f"{_shown(peer)} -> {_shown(here)}"


def _shown(address: tuple[object, ...]) -> str:
    host = str(address[0])
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
