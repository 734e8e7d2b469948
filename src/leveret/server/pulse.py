"""What must happen in real time whether or not bytes come: heartbeats, handshake deadlines, alarms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leveret.logs import get_log
from leveret.machine import give_back_memory, resident_memory
from leveret.wire.constants import HEARTBEAT_FRAME
from leveret.wire.grammar import Step

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.server.transport import Doorman

INTERVAL = 0.5  # seconds: half of the shortest heartbeat there is
TRIM_EVERY = 2.0  # seconds between the end of one trim and the next
TRIM_SHARE = 50  # as many times longer than a trim took: at most 2 % of the time
NOT_NOW = float("inf")


class Pulse:
    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, handshake_timeout: float) -> None:
        self._loop = loop
        self._broker = broker
        self.handshake_timeout = handshake_timeout
        self._log = get_log("pulse")
        self._timer: asyncio.TimerHandle | None = None
        self.doormen: set[Doorman] = set()
        self._next_trim = 0.0

    def start(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._beat)
        for doorman in list(self.doormen):
            if doorman.session.step is Step.OPEN:
                self._check_heartbeat(doorman)
            elif self._loop.time() - doorman.opened_at > self.handshake_timeout and not doorman.session.is_over:
                self._log.info("handshake timed out", connection=doorman.session.name)
                doorman.abort()
            doorman.session.outbox.look_again()
        self._broker.look_at_memory(resident_memory())
        if self._broker.memory.wants_trim and self._loop.time() >= self._next_trim:
            self._next_trim = NOT_NOW
            self._loop.run_in_executor(None, self._trim)
        if self._broker.outgoing:
            self._broker.wake()

    def _trim(self) -> None:
        """In a worker: it may take long."""
        begun = self._loop.time()
        give_back_memory()
        ended = self._loop.time()
        self._next_trim = ended + max(TRIM_EVERY, TRIM_SHARE * (ended - begun))

    def _check_heartbeat(self, doorman: Doorman) -> None:
        session = doorman.session
        interval = session.heartbeat
        if session.intake.heard or session.is_paused:  # a peer we do not listen to is not silent
            doorman.silent = 0.0
        else:
            doorman.silent += INTERVAL
        doorman.quiet = 0.0 if session.outbox.spoke else doorman.quiet + INTERVAL
        session.intake.heard = session.outbox.spoke = False
        if not interval:
            return
        if doorman.silent >= 2 * interval:
            self._log.warning("missed heartbeats", connection=session.name, seconds=doorman.silent)
            doorman.abort()
        elif doorman.quiet >= interval / 2:
            doorman.write(HEARTBEAT_FRAME)
            doorman.quiet = 0.0
