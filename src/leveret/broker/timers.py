"""Timers in message time, and the event loop that runs them.

Deadlines are in a heap. The event loop (EventLoop) reads ``next_due`` to set a real timer; ``run_due`` runs due timers.
``advance`` moves the clock and stops at every deadline in order, so that a message that expires after one second and a
queue that expires after two do so in that order, even if ten seconds are skipped at once.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol

from leveret.clock import Clock
from leveret.message import NEVER

SWEEP_FROM = 64  # below this many cancelled entries a sweep costs more than it frees


class EventLoop(Protocol):
    """The event loop that the broker runs on; see server/ticker.py."""

    def wake(self) -> None:
        """Call ``Broker.tick`` once in this iteration of the loop, however often this is called."""

    def rearm(self) -> None:
        """The earliest deadline of the timers has changed."""


class NoLoop:
    """For a broker whose ticks and timers are run by its caller."""

    def wake(self) -> None: ...

    def rearm(self) -> None: ...


class Timer:
    """A pending call."""

    __slots__ = ("_timers", "call", "when")

    def __init__(self, when: float, call: Callable[[], None], timers: Timers) -> None:
        self.when = when
        self.call: Callable[[], None] | None = call
        self._timers = timers

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None
            self._timers.note_cancelled()


class Timers:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._loop: EventLoop = NoLoop()
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()
        self._cancelled = 0

    def attach(self, loop: EventLoop) -> None:
        self._loop = loop

    def rearm(self) -> None:
        """Have the event loop read ``next_due`` again."""
        self._loop.rearm()

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        timer = Timer(when, call, self)
        earliest = self._heap[0][0] if self._heap else NEVER
        heappush(self._heap, (when, next(self._order), timer))
        if when < earliest:
            self._loop.rearm()
        return timer

    def note_cancelled(self) -> None:
        """Cancelled entries stay in the heap until they surface, unless they become the majority."""
        self._cancelled += 1
        if self._cancelled > SWEEP_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_due(self) -> float:
        """The earliest deadline; NEVER if there is none."""
        heap = self._heap
        while heap and heap[0][2].call is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else NEVER

    def run_due(self) -> None:
        now = self.clock.now()
        while self.next_due() <= now:
            timer = heappop(self._heap)[2]
            call, timer.call = timer.call, None
            assert call is not None  # next_due() has removed cancelled timers
            call()

    def advance(self, seconds: float, after_each: Callable[[], None]) -> None:
        """Move the clock forward, stopping at every deadline; ``after_each`` lets the broker deliver in between."""
        target = self.clock.now() + seconds
        while (moment := self.next_due()) <= target:
            self.clock.move_to(moment)
            self.run_due()
            after_each()
        self.clock.move_to(target)
        after_each()
