"""Checks twice a second: heartbeats, handshake timeouts, the memory of the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leveret.logs import get_log
from leveret.machine import give_back_memory, resident_memory
from leveret.wire.constants import HEARTBEAT_FRAME
from leveret.wire.grammar import Step

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.server.amqp_protocol import AmqpProtocol

INTERVAL = 0.5  # seconds: half of the shortest heartbeat timeout
TRIM_EVERY = 2.0  # seconds between the end of one trim and the next
TRIM_SHARE = 50  # the pause is this many times the duration of a trim: at most 2 % of the time
NOT_NOW = float("inf")


class PeriodicChecks:
    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, handshake_timeout: float) -> None:
        self._loop = loop
        self._broker = broker
        self.handshake_timeout = handshake_timeout
        self._log = get_log("heartbeats")
        self._timer: asyncio.TimerHandle | None = None
        self.protocols: set[AmqpProtocol] = set()
        self._next_trim = 0.0

    def start(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._run)
        for protocol in list(self.protocols):
            if protocol.session.step is Step.OPEN:
                self._check_heartbeat(protocol)
            elif self._loop.time() - protocol.opened_at > self.handshake_timeout and not protocol.session.is_over:
                self._log.info("handshake timed out", connection=protocol.session.name)
                protocol.abort()
            protocol.session.outbox.look_again()
        self._broker.look_at_memory(resident_memory())
        if self._broker.memory.wants_trim and self._loop.time() >= self._next_trim:
            self._next_trim = NOT_NOW
            self._loop.run_in_executor(None, self._trim)
        if self._broker.outgoing:
            self._broker.wake()

    def _trim(self) -> None:
        """Runs in a worker thread, since it may take long."""
        begun = self._loop.time()
        give_back_memory()
        ended = self._loop.time()
        self._next_trim = ended + max(TRIM_EVERY, TRIM_SHARE * (ended - begun))

    def _check_heartbeat(self, protocol: AmqpProtocol) -> None:
        session = protocol.session
        interval = session.heartbeat
        if session.has_received or session.is_paused:  # while reading is paused, heartbeats cannot arrive
            protocol.idle_in = 0.0
        else:
            protocol.idle_in += INTERVAL
        protocol.idle_out = 0.0 if session.outbox.has_sent else protocol.idle_out + INTERVAL
        session.has_received = session.outbox.has_sent = False
        if not interval:
            return
        if protocol.idle_in >= 2 * interval:
            self._log.warning("missed heartbeats", connection=session.name, seconds=protocol.idle_in)
            protocol.abort()
        elif protocol.idle_out >= interval / 2:
            protocol.write(HEARTBEAT_FRAME)
            protocol.idle_out = 0.0
