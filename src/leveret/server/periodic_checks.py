"""Checks twice a second: heartbeats, handshake timeouts, the memory of the process; sorts the sizes of messages."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from leveret.logs import get_log
from leveret.machine import give_back_memory, resident_memory, trim_heap
from leveret.wire.constants import HEARTBEAT_FRAME
from leveret.wire.grammar import Step

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.server.amqp_protocol import AmqpProtocol

INTERVAL = 0.5  # seconds: half of the shortest heartbeat timeout
TRIM_EVERY = 2.0  # seconds between the end of one trim and the next
TRIM_SHARE = 50  # the pause is this many times the duration of a trim: at most 2 % of the time
NOT_NOW = float("inf")
IDLE_SHARE = 0.05  # of a core, at most, for so many checks in a row: the load is over
IDLE_CHECKS = 4
WORTH_TRIMMING = 8 << 20  # bytes more than after the last trim, besides those of messages


class PeriodicChecks:
    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, handshake_timeout: float) -> None:
        self._loop = loop
        self._broker = broker
        self.handshake_timeout = handshake_timeout
        self._log = get_log("heartbeats")
        self._timer: asyncio.TimerHandle | None = None
        self.protocols: set[AmqpProtocol] = set()
        self._next_trim = 0.0
        self._cpu = 0.0  # seconds, at the last check
        self._idle_checks = 0
        self._after_trim = 0  # resident bytes besides those of messages

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
            elif self._loop.time() - protocol.opened_at > self.handshake_timeout and protocol.is_in_handshake():
                self._log.info("handshake timed out", connection=protocol.session.name)
                protocol.abort()
            protocol.session.outbox.look_again()
        resident = resident_memory()
        self._broker.look_at_memory(resident)
        self._broker.message_sizes.sort()
        is_idle = self._is_idle()
        if resident is not None and is_idle and self._besides_messages(resident) > self._after_trim + WORTH_TRIMMING:
            self._after_trim = self._besides_messages(resident)  # at least until it has been trimmed
            self._loop.run_in_executor(None, self._trim_idle)
        if self._broker.memory.wants_trim and self._loop.time() >= self._next_trim:
            self._next_trim = NOT_NOW
            self._loop.run_in_executor(None, self._trim)
        if self._broker.outgoing:
            self._broker.wake()

    def _is_idle(self) -> bool:
        """Whether there is no load."""
        before, self._cpu = self._cpu, time.process_time()
        self._idle_checks = self._idle_checks + 1 if self._cpu - before < IDLE_SHARE * INTERVAL else 0
        return self._idle_checks >= IDLE_CHECKS

    def _besides_messages(self, resident: int) -> int:
        """A backlog may be consumed slowly, after the broker was idle with it: then this grows."""
        return resident - self._broker.gauge.total

    def _trim_idle(self) -> None:
        """After a load, glibc keeps the buffers of its messages. Runs in a worker thread, without a collection: that
        would hold all threads."""
        trim_heap()
        self._after_trim = self._besides_messages(resident_memory() or 0)

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
