"""Long work on the event loop, in time slices, so that no single event holds the loop for longer than a few of them.

Theory of operation. Work that grows with the number of messages, queues or consumers is an errand. ``begin`` does its
first slice at once, which is all of it in most cases; the rest follows in later ticks, one slice each, between the work
of other connections. All errands of one tick together have a budget: those that do not get their turn are first in the
next tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.clock import TimeSlice

SLICE = 0.002  # seconds for one step of an errand
BUDGET = 0.008  # seconds for all steps in one tick


class Errand(Protocol):
    def step(self) -> bool:
        """Work for about one slice; False if there is nothing more to do, ever or until it is sent again."""


class Errands:
    """``wake`` asks for a tick."""

    def __init__(self, wake: Callable[[], None], work_time: Callable[[], float]) -> None:
        self.wake = wake
        self._work_time = work_time
        self._begun = 0.0  # seconds that first steps have taken in this tick
        self.under_way: dict[Errand, None] = {}  # in the order of their turns

    def new_slice(self, seconds: float = SLICE) -> TimeSlice:
        return TimeSlice(self._work_time, seconds)

    def begin(self, errand: Errand) -> None:
        """The first step now, unless those of others have used up the budget of this tick; the rest in later ticks."""
        if self._begun < BUDGET:
            start = self._work_time()
            is_under_way = errand.step()
            self._begun += self._work_time() - start
            if not is_under_way:
                return
        self.send(errand)

    def new_tick(self) -> None:
        self._begun = 0.0

    def send(self, errand: Errand) -> None:
        if errand not in self.under_way:
            self.under_way[errand] = None
            self.wake()

    def finish(self, kind: type) -> None:
        """All errands of this kind, however long it takes: the broker stops."""
        for errand in [each for each in self.under_way if isinstance(each, kind)]:
            while errand.step():
                pass
            del self.under_way[errand]

    def run(self) -> None:
        """One step of each that was under way when we began, within the budget."""
        budget = self.new_slice(BUDGET)
        for errand in list(self.under_way):
            self.under_way.pop(errand, None)
            if errand.step():
                self.under_way[errand] = None
            if budget.is_over:
                break
        if self.under_way:
            self.wake()


class NextTick:
    """An errand of one step: a call."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def step(self) -> bool:
        self._call()
        return False
