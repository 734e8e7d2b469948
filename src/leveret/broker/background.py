"""Long work on the event loop, in time slices, so that no single event holds the loop for longer than a few of them.

Theory of operation. Work that grows with the number of messages, queues or consumers is a background task. ``begin``
does the first slice at once, which is all of it in most cases; the rest follows in later ticks, one slice each, between
the work of other connections. All background tasks of one tick share a budget; those that got no slice are first in the
next tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.clock import TimeSlice

SLICE = 0.002  # seconds for one step of a background task
BUDGET = 0.008  # seconds for all steps in one tick


class BackgroundTask(Protocol):
    def step(self) -> bool:
        """Work for about one slice; False if there is nothing more to do unless the task is started again."""


class BackgroundTasks:
    """``wake`` requests a tick."""

    def __init__(self, wake: Callable[[], None], work_time: Callable[[], float]) -> None:
        self.wake = wake
        self._work_time = work_time
        self._begun = 0.0  # seconds that first steps have taken in this tick
        self.under_way: dict[BackgroundTask, None] = {}  # the tasks, in the order in which they get slices

    def new_slice(self, seconds: float = SLICE) -> TimeSlice:
        return TimeSlice(self._work_time, seconds)

    def begin(self, task: BackgroundTask) -> None:
        """Run the first step now, unless first steps of other tasks used up the budget; the rest in later ticks."""
        if self._begun < BUDGET:
            start = self._work_time()
            is_under_way = task.step()
            self._begun += self._work_time() - start
            if not is_under_way:
                return
        self.send(task)

    def new_tick(self) -> None:
        self._begun = 0.0

    def send(self, task: BackgroundTask) -> None:
        if task not in self.under_way:
            self.under_way[task] = None
            self.wake()

    def finish(self, kind: type) -> None:
        """Finish all tasks of this kind, however long it takes: the broker is stopping."""
        for task in [each for each in self.under_way if isinstance(each, kind)]:
            while task.step():
                pass
            del self.under_way[task]

    def run(self) -> None:
        """Run one step of each task that is under way, within the budget."""
        budget = self.new_slice(BUDGET)
        for task in list(self.under_way):
            self.under_way.pop(task, None)
            if task.step():
                self.under_way[task] = None
            if budget.is_over:
                break
        if self.under_way:
            self.wake()


class NextTick:
    """A background task with a single step: one call."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def step(self) -> bool:
        self._call()
        return False
