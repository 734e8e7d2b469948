"""The asyncio protocol of a STOMP connection: a STOMP session translates between the socket and an AMQP session.

For the AMQP session this is the peer: what it writes goes to the STOMP session, which translates it.
Heart-beats are handled here, since they use real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from leveret.broker.broker import Broker
from leveret.logs import get_log
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.session.connection import Connection, Login
from leveret.session.limits import Limits
from leveret.stomp.amqp_client import CONSUMING
from leveret.stomp.frame import HEARTBEAT
from leveret.stomp.frame_reader import after_login
from leveret.stomp.session import StompSession
from leveret.wire.constants import DEFAULT_FRAME_MAX

MISSES = 2  # intervals without a byte, after which a connection counts as lost


class StompProtocol(AmqpProtocol):
    """One accepted socket. Implements session.connection.Peer and stomp.session.StompTransport."""

    __slots__ = ("_missed", "_read_before", "_receive_timer", "_send_timer", "_written_before", "stomp")

    stomp: StompSession

    def open_session(self, broker: Broker, login: Login, limits: Limits, name: str) -> Connection:
        inside = replace(
            limits,
            channel_max=max(limits.channel_max, CONSUMING),
            frame_max=max(limits.frame_max, DEFAULT_FRAME_MAX),  # headers of a STOMP frame must fit an AMQP frame
        )
        connection = Connection(broker, self, login, inside, name)
        self.stomp = StompSession(self, connection)
        self._send_timer: asyncio.TimerHandle | None = None
        self._receive_timer: asyncio.TimerHandle | None = None
        self._missed = self._read_before = self._written_before = 0
        return connection

    def largest_frame(self) -> int:
        """Bytes: over WebSocket most clients send a STOMP frame as one WebSocket message."""
        limits = after_login(self.session.limits.max_message_size)
        return limits.head + limits.body + 1

    def gather(self, size: int) -> None:
        self.stomp.gather(size)

    # ---- for the event loop

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.reads += 1
        self.stomp.receive(data)

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._send_timer, self._receive_timer):
            if timer is not None:
                timer.cancel()
        self.stomp.lost()
        super().connection_lost(error)

    # ---- for the AMQP session

    def write(self, data: bytes) -> None:
        self.stomp.receive_amqp(data)

    def write_pieces(self, pieces: list[bytes]) -> None:
        self.stomp.receive_amqp(b"".join(pieces))

    # ---- for the STOMP session

    def write_out(self, data: bytes) -> None:
        super().write(data)

    def soon(self, call: Callable[[], None]) -> None:
        self._listener.loop.call_soon(call)

    def beat(self, send: float, receive: float) -> None:
        if send:
            self._send_beat(send / 2)
        if receive:
            self._check_beat(receive)

    def _send_beat(self, seconds: float) -> None:
        """Every half interval: send a heart-beat if nothing was sent in it, so that no pause lasts a whole interval."""
        if self.writes == self._written_before:
            self.write_out(HEARTBEAT)
        self._written_before = self.writes
        self._send_timer = self._listener.loop.call_later(seconds, self._send_beat, seconds)

    def _check_beat(self, seconds: float) -> None:
        is_idle = self.reads == self._read_before and not self.session.is_paused
        self._missed = self._missed + 1 if is_idle else 0
        self._read_before = self.reads
        if self._missed > MISSES:
            get_log("stomp").warning("missed heartbeats", connection=self.session.name, seconds=seconds * MISSES)
            self.abort()
            return
        self._receive_timer = self._listener.loop.call_later(seconds, self._check_beat, seconds)
