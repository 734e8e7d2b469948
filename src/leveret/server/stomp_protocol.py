"""The asyncio protocol of a STOMP connection. Heart-beats are handled here, since they use real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.logs import get_log
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.session.connection import Login
from leveret.session.limits import Limits
from leveret.stomp.connection import StompConnection
from leveret.stomp.frame import HEARTBEAT
from leveret.stomp.frame_reader import after_login

MISSES = 2  # intervals without a byte, after which a connection counts as lost


class StompProtocol(AmqpProtocol):
    """One accepted socket. Implements stomp.connection.StompTransport."""

    __slots__ = ("_missed", "_read_before", "_receive_timer", "_send_timer", "_written_before")

    session: StompConnection

    def open_session(self, broker: Broker, login: Login, limits: Limits, name: str) -> StompConnection:
        self._send_timer: asyncio.TimerHandle | None = None
        self._receive_timer: asyncio.TimerHandle | None = None
        self._missed = self._read_before = self._written_before = 0
        return StompConnection(broker, self, login, limits, name)

    def largest_frame(self) -> int:
        """In bytes. Over WebSocket, most clients send a STOMP frame as one WebSocket message."""
        limits = after_login(self.session.limits.max_message_size)
        return limits.head + limits.body + 1

    def gather(self, size: int) -> None:
        self.session.gather(size)

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._send_timer, self._receive_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(error)

    # ---- for the session

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
            self.write(HEARTBEAT)
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
