"""The doorman of a STOMP peer: between the socket and the connection stands a session that speaks both languages.

To the AMQP connection it is the peer: what the connection writes goes to the session, which says it in STOMP.
Heart-beats are kept here, since they are about real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from leveret.broker.broker import Broker
from leveret.logs import get_log
from leveret.server.transport import Doorman
from leveret.session.connection import Connection, Login
from leveret.session.limits import Limits
from leveret.stomp.amqp_side import CONSUMING
from leveret.stomp.frame import HEARTBEAT
from leveret.stomp.frame_reader import after_login
from leveret.stomp.session import StompSession
from leveret.wire.constants import DEFAULT_FRAME_MAX

MISSES = 2  # intervals without a byte, after which a peer counts as gone


class StompDoorman(Doorman):
    """One accepted socket. Implements session.connection.Peer and stomp.session.Outside."""

    __slots__ = ("_hearing", "_missed", "_read_before", "_saying", "_written_before", "stomp")

    stomp: StompSession

    def open_session(self, broker: Broker, login: Login, limits: Limits, name: str) -> Connection:
        inside = replace(
            limits,
            channel_max=max(limits.channel_max, CONSUMING),
            frame_max=max(limits.frame_max, DEFAULT_FRAME_MAX),  # the peer knows of no frames: its headers must fit one
        )
        connection = Connection(broker, self, login, inside, name)
        self.stomp = StompSession(self, connection)
        self._saying: asyncio.TimerHandle | None = None
        self._hearing: asyncio.TimerHandle | None = None
        self._missed = self._read_before = self._written_before = 0
        return connection

    def largest_frame(self) -> int:
        """Bytes: over WebSocket most clients send one frame of STOMP as one of theirs."""
        limits = after_login(self.session.limits.max_message_size)
        return limits.head + limits.body + 1

    def gather(self, size: int) -> None:
        self.stomp.gather(size)

    # ---- the loop calls

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.reads += 1
        self.stomp.receive(data)

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._saying, self._hearing):
            if timer is not None:
                timer.cancel()
        self.stomp.lost()
        super().connection_lost(error)

    # ---- the connection calls

    def write(self, data: bytes) -> None:
        self.stomp.hear(data)

    def write_pieces(self, pieces: list[bytes]) -> None:
        self.stomp.hear(b"".join(pieces))

    # ---- the session calls

    def write_out(self, data: bytes) -> None:
        super().write(data)

    def soon(self, call: Callable[[], None]) -> None:
        self._listener.loop.call_soon(call)

    def beat(self, send: float, hear: float) -> None:
        if send:
            self._say(send / 2)
        if hear:
            self._hear(hear)

    def _say(self, seconds: float) -> None:
        """Every half interval: whoever was silent in it speaks, so that no silence lasts a whole one."""
        if self.writes == self._written_before:
            self.write_out(HEARTBEAT)
        self._written_before = self.writes
        self._saying = self._listener.loop.call_later(seconds, self._say, seconds)

    def _hear(self, seconds: float) -> None:
        is_silent = self.reads == self._read_before and not self.session.is_paused
        self._missed = self._missed + 1 if is_silent else 0
        self._read_before = self.reads
        if self._missed > MISSES:
            get_log("stomp").warning("missed heartbeats", connection=self.session.name, seconds=seconds * MISSES)
            self.abort()
            return
        self._hearing = self._listener.loop.call_later(seconds, self._hear, seconds)
