"""The objects that a backlog gets from the broker: time, timers, the log, the memory gauge and the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from leveret.clock import TimeSlice
from leveret.message import NEVER
from leveret.store.log import Log
from leveret.store.pages import Pages

PER_MESSAGE = 120  # bytes of Python objects around each waiting message, measured: tuple, bytes head, queue slot


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Drainable(Protocol):
    """A queue, as the broker uses it at the end of a tick."""

    @property
    def name(self) -> str: ...

    def drain(self) -> None:
        """Deliver waiting messages to the consumers, then drop or dead-letter expired messages."""

    def touch(self) -> None:
        """Have drain() called before this tick ends."""


class MemoryGauge:
    """The memory that messages use, counted once for each queue they wait in; shared by all queues of a broker."""

    __slots__ = ("is_short", "other", "used")

    def __init__(self) -> None:
        self.used = 0
        self.other = 0  # bytes of everything else that is kept for clients (broker/memory_users.py)
        self.is_short = False  # memory is so short that queues should keep as little as possible

    @property
    def total(self) -> int:
        return self.used + self.other


class BackgroundTask(Protocol):
    def step(self) -> bool:
        """Work for about one time slice; False if all is done."""


class BackgroundTasks(Protocol):
    """Background tasks in time slices; see broker/background.py."""

    def begin(self, task: BackgroundTask) -> None:
        """Run the first step now, the others in later ticks."""

    def new_slice(self) -> TimeSlice: ...


class AtOnce:
    """Runs background tasks to their end at once, for brokers where work takes no time."""

    def begin(self, task: BackgroundTask) -> None:
        while task.step():
            pass

    def new_slice(self) -> TimeSlice:
        return TimeSlice(lambda: 0.0, 0.0)


def no_offset() -> float:
    return 0.0


@dataclass(slots=True)
class BacklogContext:
    now: Callable[[], float]
    schedule: Callable[[float, Callable[[], None]], Cancellable]
    log: Log
    gauge: MemoryGauge
    pages: Pages | None = None  # without a disk everything stays in memory
    queue_memory: int = 64 << 20  # bytes of content that a queue may hold before it is paged out
    wall_ahead: Callable[[], float] = no_offset  # seconds from message time to wall time
    unsynced: dict[Drainable, None] = field(
        default_factory=dict
    )  # queues that can page out more once their messages are on disk
    dirty: list[Drainable] = field(default_factory=list)  # queues to drain before this tick ends
    watches_all: bool = False  # every deadline has an entry, even if checking the front would be enough
    background: BackgroundTasks = field(default_factory=AtOnce)


class NextTimer:
    """One timer for a part of a queue: calls back at the earliest requested time. The callback sets the next time."""

    __slots__ = ("_call", "_context", "_timer")

    def __init__(self, context: BacklogContext, call: Callable[[], None]) -> None:
        self._context = context
        self._call = call
        self._timer: tuple[float, Cancellable] | None = None

    def no_later_than(self, when: float) -> None:
        if when == NEVER or (self._timer is not None and self._timer[0] <= when):
            return
        self.stop()
        self._timer = (when, self._context.schedule(when, self._due))

    def _due(self) -> None:
        self._timer = None
        self._call()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
