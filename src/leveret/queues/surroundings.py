"""What a queue is given by the house it lives in. News travels up by these, so no queue imports its caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from leveret.clock import TimeSlice
from leveret.store.disk import Disk
from leveret.store.log import Log
from leveret.store.pages import Pages
from leveret.store.spill import InWorker

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.dying import Dead
    from leveret.queues.queue import Queue
    from leveret.queues.trace import Trace
    from leveret.queues.traced import Witness

PER_MESSAGE = 120  # bytes of Python objects around each waiting message, measured: tuple, bytes head, queue slot


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class OffsetBook(Protocol):
    """Where readers of streams went on, by their names; see broker/stream_offsets.py."""

    def get(self, queue: str, consumer: str) -> int | None: ...

    def refuse_too_many(self, queue: str, consumer: str) -> None:
        """PreconditionFailed if no more names can be kept."""

    def put(self, queue: str, consumer: str, offset: int, pinned: bool) -> None:
        """Also refuses what ``refuse_too_many`` does."""

    def pinned(self, queue: str) -> int | None:
        """The lowest offset that a pinned one stands at."""

    def forget(self, queue: str) -> None:
        """The stream is gone."""


class MemoryGauge:
    """Bytes that messages hold, counted at every queue they wait in; shared by all queues of a broker."""

    __slots__ = ("is_short", "other", "used")

    def __init__(self) -> None:
        self.used = 0
        self.other = 0  # bytes of all else that is kept for clients (broker/memory_users.py)
        self.is_short = False  # so much that queues should hold as little as they can

    @property
    def total(self) -> int:
        return self.used + self.other


class Errand(Protocol):
    def step(self) -> bool:
        """Work for about one time slice; False if all is done."""


class Errands(Protocol):
    """Long work in time slices; see broker/errands.py."""

    def begin(self, errand: Errand) -> None:
        """The first step now, the others in later ticks."""

    def new_slice(self) -> TimeSlice: ...


class AtOnce:
    """Errands where work takes no time."""

    def begin(self, errand: Errand) -> None:
        while errand.step():
            pass

    def new_slice(self) -> TimeSlice:
        return TimeSlice(lambda: 0.0, 0.0)


def at_once(job: Callable[[], object], done: Callable[[object], None]) -> None:
    """Where there is no disk there is no need for a worker."""
    try:
        result = job()
    except Exception as problem:  # noqa: BLE001 - it belongs to whoever asked, as from a worker
        result = problem
    done(result)


@dataclass(slots=True)
class Surroundings:
    now: Callable[[], float]
    schedule: Callable[[float, Callable[[], None]], Cancellable]
    log: Log
    gauge: MemoryGauge
    count_memory: Callable[[int], None] = lambda size: None  # of consumers that come, or (below 0) go
    pages: Pages | None = None  # without a disk everything stays in memory
    queue_memory: int = 64 << 20  # bytes of content that a queue may hold before it is paged out
    wall_ahead: Callable[[], float] = lambda: 0.0  # from message time to wall time
    unsynced: dict[Queue, None] = field(default_factory=dict)  # those that wait for the disk to hold less in memory
    dirty: list[Queue] = field(default_factory=list)  # queues to be looked at before this turn ends
    chance: Callable[[], float] = lambda: 0.5  # within 0..1
    dead_letter: Callable[[ClassicQueue, str, Sequence[Dead]], None] = lambda queue, reason, deaths: None
    watches_all: bool = False  # every deadline has an entry, also where looking at the front would do
    deaths_at_once: int = 2048  # messages that may die in one drain; the others do in the next
    trace: Callable[[ClassicQueue], Trace | None] = lambda queue: None  # where it writes down what it has seen
    stream_disk: Disk | None = None  # where streams have their files
    write_stream: InWorker = at_once  # runs jobs one after the other
    read_stream: InWorker = at_once
    stream_offsets: OffsetBook | None = None
    when_granted: Callable[[Callable[[], None]], None] = lambda call: call()  # once all so far is durable
    alarm: Callable[[str, str | None], None] = lambda name, reason: None  # raises one, or calms it
    witness: Witness | None = None  # is told of every message, while the virtual host is traced (queues/traced.py)
    errands: Errands = field(default_factory=AtOnce)
    retire: Callable[[Queue], None] = lambda queue: None  # the queue asks to be deleted (auto-delete, x-expires)
