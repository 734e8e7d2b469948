"""The asyncio protocol of an AMQP connection: moves bytes between a socket and a session, without parsing AMQP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from leveret.server.admission import ADMITTED, Admitted
from leveret.server.logins import is_gone
from leveret.session.amqp_connection import AmqpConnection
from leveret.session.connection import Connection, Login
from leveret.wire.grammar import Step

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.server.listener import Listener
    from leveret.session.limits import Limits

CLOSE_TIMEOUT = 5.0  # seconds for the peer to read the remaining output after a close


class AmqpProtocol(asyncio.Protocol):
    """One accepted socket. Implements session.connection.Peer."""

    __slots__ = (
        "_close_timer",
        "_listener",
        "_transport",
        "admitted",
        "certificate",
        "host",
        "idle_in",
        "idle_out",
        "opened_at",
        "reads",
        "received",
        "sent",
        "session",
        "writes",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._close_timer: asyncio.TimerHandle | None = None
        self.host = ""
        self.admitted: Admitted | None = None
        self.certificate: dict[str, object] | None = None
        self.received = self.reads = self.sent = self.writes = 0
        self.idle_in = self.idle_out = 0.0  # seconds without a received byte, without a sent byte
        self.opened_at = listener.loop.time()  # time of the accept; with TLS, well before connection_made

    # ---- for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        transport.set_write_buffer_limits(high=self._listener.limits.write_high_watermark)
        self.host, name = _names(transport)
        self.certificate = transport.get_extra_info("peercert") or None
        if self.admitted is None:  # WebSockets and tunnels were counted with their HTTP connection
            self.admitted = transport.get_extra_info(ADMITTED)
        if self.admitted is None and self.host:  # no address: reset before it was accepted
            self.admitted = self._listener.admission.enter(self.host, transport.abort)
        elif self.admitted is not None:
            self.admitted.close = transport.abort
        self.session: Connection = self._listener.admit(self, name)

    def open_session(self, broker: Broker, login: Login, limits: Limits, name: str) -> Connection:
        return AmqpConnection(broker, self, login, limits, name)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.reads += 1
        self.session.receive(data)

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

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self.sent += len(data)
            self.writes += 1
            self._transport.write(data)

    def write_pieces(self, pieces: list[bytes]) -> None:
        if not self._transport.is_closing():
            self.sent += self.session.outbox.size  # approximate: an exact sum would cost time per message
            self.writes += 1
            self._transport.writelines(pieces)

    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if not self._transport.is_closing():
            self._transport.close()
            self._close_later(CLOSE_TIMEOUT, self._transport.abort)

    def tls(self) -> tuple[str, str] | None:
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return None
        return tls.version() or "", (tls.cipher() or ("", "", 0))[0]

    def is_known(self) -> bool:
        """Whether the peer has logged in."""
        return self.session.step is Step.OPEN

    @property
    def source(self) -> str:
        return "" if self.admitted is None else self.admitted.source

    @property
    def is_told(self) -> bool:
        return self.session.expects_login_reply

    def is_gone(self) -> bool:
        return is_gone(self._transport)

    def authenticated(self) -> None:
        if self.admitted is not None:
            self.admitted.authenticated()

    def close_after(self, seconds: float) -> None:
        self._close_later(seconds, self.close)

    def abort(self) -> None:
        self._transport.abort()

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
