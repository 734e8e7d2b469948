"""The asyncio protocol of any connection of a session: bytes out, and counters of both directions.  Hot path."""

from __future__ import annotations

import asyncio
import ssl
from typing import cast


class SocketPeer(asyncio.Protocol):
    """The part of session.connection.Peer that needs only the transport."""

    __slots__ = ("_transport", "certificate", "host", "reads", "received", "sent", "writes")

    _transport: asyncio.Transport  # set by ``attach``

    def __init__(self) -> None:
        self.host = ""
        self.certificate: dict[str, object] | None = None
        self.received = self.reads = self.sent = self.writes = 0

    def attach(self, transport: asyncio.BaseTransport, write_high_watermark: int) -> asyncio.Transport:
        self._transport = attached = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        attached.set_write_buffer_limits(high=write_high_watermark)
        return attached

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self.sent += len(data)
            self.writes += 1
            self._transport.write(data)

    def write_pieces(self, pieces: list[bytes]) -> None:
        """``sent`` is counted by subclasses that show it: a sum would cost time per message."""
        if not self._transport.is_closing():
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

    def abort(self) -> None:
        self._transport.abort()

    def tls(self) -> tuple[str, str] | None:
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return None
        return tls.version() or "", (tls.cipher() or ("", "", 0))[0]
