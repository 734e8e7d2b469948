"""What a queue is given by the house it lives in. News travels up by these, so no queue imports its caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from leveret.backlog.context import BacklogContext
from leveret.store.disk import Disk
from leveret.store.spill import InWorker

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.dead_messages import DeadMessage
    from leveret.queues.declared_queue import DeclaredQueue
    from leveret.queues.trace import Trace
    from leveret.queues.traced import Witness


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


def at_once(job: Callable[[], object], done: Callable[[object], None]) -> None:
    """Where there is no disk there is no need for a worker."""
    try:
        result = job()
    except Exception as problem:  # noqa: BLE001 - it belongs to whoever asked, as from a worker
        result = problem
    done(result)


@dataclass(slots=True)
class Surroundings(BacklogContext):
    """What a queue gets from the broker. Events go up through these callbacks, so no queue imports its caller."""

    count_memory: Callable[[int], None] = lambda size: None  # of consumers that are added, or (below 0) removed
    chance: Callable[[], float] = lambda: 0.5  # within 0..1
    dead_letter: Callable[[ClassicQueue, str, Sequence[DeadMessage]], None] = lambda queue, reason, messages: None
    deaths_at_once: int = 2048  # messages that may expire in one drain; the others do in the next
    trace: Callable[[ClassicQueue], Trace | None] = lambda queue: None  # where it writes down what it has seen
    stream_disk: Disk | None = None  # where streams have their files
    write_stream: InWorker = at_once  # runs jobs one after the other
    read_stream: InWorker = at_once
    stream_offsets: OffsetBook | None = None
    when_granted: Callable[[Callable[[], None]], None] = lambda call: call()  # once all so far is durable
    alarm: Callable[[str, str | None], None] = lambda name, reason: None  # raises one, or calms it
    witness: Witness | None = None  # is told of every message, while the virtual host is traced (queues/traced.py)
    retire: Callable[[DeclaredQueue], None] = lambda queue: (
        None
    )  # the queue asks to be deleted (auto-delete, x-expires)
