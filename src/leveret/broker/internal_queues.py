"""Internal queues of a virtual host: clients cannot see, declare, consume, bind or delete them.

Their names have a reserved prefix. They are durable and have rows in the definitions like other queues, so recovery,
reclaim, paging and backup include them. They are created when first needed.

- ``amq.leveret.schedule``: scheduled messages that are not due yet (broker/schedules.py)
- ``amq.leveret.held.<exchange>.<queue>``: messages that wait until a shard is drained (sharding/hold.py)
- ``amq.leveret.seen.<id>``: the IDs that deduplication recorded for the queue with that id (queues/duplicates.py)
- ``amq.leveret.stage.<id>``: rows of a Spark batch that is not committed yet (pipeline/stages.py)
- ``amq.leveret.outbox.<id>``: rows of a Spark batch, or held messages, for another cell (pipeline/outboxes.py)
- ``amq.leveret.received.<cell>.<id>``: how much of an outbox was received (pipeline/transfers.py)
- ``amq.leveret.moving.<queue>``: the copy of a queue that is being moved to this cell (cells/queue_copy.py)
- ``amq.leveret.merged.<id>.<queue>``: a queue that another cell has made too, and which has it (cells/split_queue.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from leveret.errors import StoreError
from leveret.queues.classic import ClassicQueue
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.duplicates import DeduplicationLog
from leveret.queues.options import QueueOptions
from leveret.store.definitions import Drop, Put, QueueRow
from leveret.wire.fields import encode_table

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

PREFIX = "amq.leveret."
SCHEDULE = f"{PREFIX}schedule"
HELD = f"{PREFIX}held."
SEEN = f"{PREFIX}seen."
STAGE = f"{PREFIX}stage."
OUTBOX = f"{PREFIX}outbox."
RECEIVED = f"{PREFIX}received."
MOVING = f"{PREFIX}moving."
MERGED = f"{PREFIX}merged."


class InternalQueues:
    """The internal queues of one virtual host."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self.queues: dict[str, ClassicQueue] = {}
        self._traces: dict[int, DeduplicationLog] = {}  # by the id of the deduplicating queue

    # ---- queues

    def open(self, name: str, options: QueueOptions, context: QueueContext, id_: int | None = None) -> ClassicQueue:
        """Create an internal queue, with its id from before the restart or with a new id."""
        if id_ is None:
            id_ = self._new_row(name)
        queue = ClassicQueue(Declaration(id_, name, self._vhost.name, options, durable=True), context)
        self.queues[name] = queue
        return queue

    def _new_row(self, name: str) -> int:
        id_ = self._vhost.next_id()
        self._put_row(id_, name)
        return id_

    def _put_row(self, id_: int, name: str) -> None:
        self._vhost.record(Put(QueueRow(id_, self._vhost.name, name, False, encode_table({}))))

    # ---- traces

    def trace(self, queue: DeclaredQueue) -> DeduplicationLog:
        found = self._traces.get(queue.id)
        if found is None:
            name = f"{SEEN}{queue.id}"
            found = self._traces[queue.id] = self._trace(self._new_row(name), name)
        return found

    def _trace(self, id_: int, name: str) -> DeduplicationLog:
        context = self._vhost.queue_context
        return DeduplicationLog(id_, name, context.log, context.pages)

    def forget_trace(self, queue: DeclaredQueue) -> None:
        """Delete the deduplication log of a deleted queue."""
        trace = self._traces.get(queue.id)
        if trace is not None:
            self._vhost.record(Drop(QueueRow, (trace.id,)))
            self._vhost.queue_context.log.forget(trace.id)
            del self._traces[queue.id]

    def traces(self) -> Iterable[DeduplicationLog]:
        return self._traces.values()

    def traced(self) -> Iterator[tuple[DeclaredQueue, DeduplicationLog]]:
        for queue in self._vhost.queues.values():
            trace = self._traces.get(queue.id)
            if trace is not None:
                yield queue, trace

    # ---- restore and removal

    def restore(self, id_: int, name: str) -> None:
        """Restore a queue from its row in the definitions."""
        watched = name.removeprefix(SEEN)
        if name == SCHEDULE:
            self._vhost.schedules.open(id_)
        elif watched != name and watched.isdecimal():
            self._traces[int(watched)] = self._trace(id_, name)
        elif name.startswith((HELD, STAGE, OUTBOX, RECEIVED, MOVING, MERGED)):
            self.open(name, QueueOptions(), self._vhost.queue_context, id_)
        else:
            raise StoreError(f"unknown internal queue '{name}': this version does not support it")

    def remove(self, name: str) -> None:
        queue = self.queues[name]
        if queue.stored:
            self._vhost.record(Drop(QueueRow, (queue.id,)))
        del self.queues[name]
        queue.die()

    def adopt(self, queue: ClassicQueue, name: str) -> None:
        """A queue of the virtual host becomes an internal one. The caller lets another one stand for it."""
        if queue.stored:
            self._put_row(queue.id, name)
        queue.name = name
        self.queues[name] = queue

    def release(self, name: str) -> ClassicQueue:
        """The queue becomes an ordinary one of the virtual host."""
        return self.queues.pop(name)

    def remove_all(self) -> None:
        """Remove the internal queues of a deleted virtual host; its other queues are gone already."""
        for queue in self.queues.values():
            self._vhost.record(Drop(QueueRow, (queue.id,)))
            queue.die()
        self.queues.clear()
