"""The objects that a queue gets from the broker, and its calls to its virtual host: no queue imports its caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from leveret.backlog.context import BacklogContext
from leveret.delivery.delivery_pause import DeliveryPause
from leveret.errors import PreconditionFailed
from leveret.queues.discard_counters import DiscardCounters
from leveret.store.disk import Disk

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.declared_queue import Declaration, DeclaredQueue
    from leveret.queues.direct_reply import RemoteReplyQueue
    from leveret.queues.duplicates import DeduplicationLog
    from leveret.queues.options import DeadMessage
    from leveret.queues.traced_queues import QueueTracer


class OffsetBook(Protocol):
    """The stored offsets of stream readers, by their names; see broker/stream_offsets.py."""

    def get(self, queue: str, consumer: str) -> int | None: ...

    def refuse_too_many(self, queue: str, consumer: str) -> None:
        """PreconditionFailed if no more names can be stored."""

    def put(self, queue: str, consumer: str, offset: int, pinned: bool) -> None:
        """Store an offset; raises the same error as ``refuse_too_many``."""

    def pinned(self, queue: str) -> int | None:
        """The lowest offset of a pinned reader."""

    def forget(self, queue: str) -> None:
        """Delete the offsets of a deleted stream."""


class DeadLetterTarget(Protocol):
    """The destination of messages that leave a queue without being consumed."""

    def send(self, queue: ClassicQueue, reason: str, messages: Sequence[DeadMessage]) -> None:
        """Publish these messages elsewhere and release their places in the queue."""


class QueueCallbacks:
    """Calls of a queue to its virtual host (broker/queue_callbacks.py). These are the defaults without one."""

    def count_memory(self, size: int) -> None:
        """A consumer of this size in bytes was added, or removed (negative)."""

    def delete_unused(self, queue: DeclaredQueue) -> None:
        """Delete a queue that is no longer used (auto-delete, x-expires)."""

    def drop_leases(self, queue: DeclaredQueue) -> None:
        """Delete the leases of a deleted queue."""

    def open_trace(self, queue: DeclaredQueue) -> DeduplicationLog | None:
        """The log in which the queue stores the IDs for deduplication; None if it does not store them."""
        return None

    def when_granted(self, call: Callable[[], None]) -> None:
        """Call back once everything written so far is durable."""
        call()

    def set_alarm(self, name: str, reason: str | None) -> None:
        """Raise an alarm, or clear it (None)."""

    def random(self) -> float:
        """A random number within 0..1."""
        return 0.5


class StreamWorker(Protocol):
    """A thread that runs jobs one after the other; see server/flusher.py."""

    def do(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """Run the job in the thread; ``done`` gets its result or its exception on the event loop."""


class NoThread:
    """Runs jobs at once, if there is no disk to wait for."""

    def do(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        try:
            result = job()
        except Exception as problem:  # noqa: BLE001 - the error is passed on, as from a thread
            result = problem
        done(result)


class StreamWorkers:
    """The threads that read and write the files of streams. Without a server there are none."""

    def __init__(self) -> None:
        self._reader: StreamWorker = NoThread()
        self._writer: StreamWorker = NoThread()

    def attach(self, reader: StreamWorker, writer: StreamWorker) -> None:
        self._reader, self._writer = reader, writer

    def read(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self._reader.do(job, done)

    def write(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """Run jobs one after the other, in the order of these calls."""
        self._writer.do(job, done)


class RemoteQueues:
    """Creates queues that are in another cell. This broker is the only cell."""

    def reply_queue(self, vhost: str, cell: str, name: str) -> RemoteReplyQueue | None:
        """That of a requester in another cell."""
        return None

    def make_queue(self, declared: Declaration) -> DeclaredQueue:
        raise PreconditionFailed(
            f"queue '{declared.name}' is in cell '{declared.home}', and this broker is the only cell: start it with "
            "--cells"
        )


@dataclass(slots=True)
class QueueContext(BacklogContext):
    """Shared by the queues of a virtual host."""

    callbacks: QueueCallbacks = field(default_factory=QueueCallbacks)
    deliveries: DeliveryPause = field(default_factory=DeliveryPause)
    dead_letters: DeadLetterTarget | None = None
    discards: DiscardCounters = field(default_factory=DiscardCounters)
    expiries_at_once: int = 2048  # messages that may expire in one drain; the rest expires in the next drain
    stream_disk: Disk | None = None  # the files of streams
    stream_workers: StreamWorkers = field(default_factory=StreamWorkers)
    stream_offsets: OffsetBook | None = None
    remote_queues: RemoteQueues = field(default_factory=RemoteQueues)
    tracer: QueueTracer | None = None  # records every message while the virtual host is traced (traced_queues.py)
