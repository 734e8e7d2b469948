"""Polls for input for a moment before the event loop sleeps.  Hot path.

Theory of operation. A process that sleeps gives up its core, and waking it again costs more than a lone message: an
interrupt for a core that has halted, which on virtual machines is an exit to the hypervisor, for both sides, and cold
caches. Between the halves of a call, or a publish and the next one of a publisher that waits for its confirm, the
broker sleeps for some 50 microseconds.

So after a tick the loop polls for ``LONGEST`` seconds if the last waits were that short: a callback is scheduled again
and again, and the event loop does not sleep while one is. Each wait that was short enough raises a counter, each longer
one lowers it twice as fast: the loop polls only while two thirds of the waits are short, that is while the core is busy
for most of the time anyway, and stops after a few waits in vain. Waits that are far shorter than a sleep come from
clients that always have sent something already: they say nothing. Erlang's schedulers poll before they sleep, too.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

LONGEST = 100e-6  # seconds
SHORTEST = 8e-6
MOST_COUNTED = 8
IN_VAIN = 2  # longer waits count that much more


class BusyWait:
    __slots__ = ("_began", "_clock", "_count", "_is_polling", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._clock = perf_counter
        self._began = 0.0
        self._count = 0
        self._is_polling = False

    def ended(self) -> None:
        """There is work: a wait is over."""
        wait = self._clock() - self._began
        if wait > LONGEST:
            self._count = max(self._count - IN_VAIN, -MOST_COUNTED)
        elif wait > SHORTEST:
            self._count = min(self._count + 1, MOST_COUNTED)

    def begin(self) -> None:
        """The tick is over."""
        self._began = self._clock()
        if self._count > 0 and not self._is_polling:
            self._is_polling = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        if self._clock() - self._began < LONGEST:
            self._loop.call_soon(self._poll)
        else:
            self._is_polling = False
