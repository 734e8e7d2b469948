"""Queues that the broker keeps for itself in a virtual host: no client sees, declares, consumes, binds or deletes them.

Their names begin as clients' names may not. They are durable and have rows as all queues have, so that recovery,
reclaim, paging and backup know them; they are made when they are first needed.

- ``amq.leveret.schedule``: messages that are not due yet (broker/schedules.py)
- ``amq.leveret.held.<exchange>.<queue>``: what waits until a shard is drained (sharding/holding.py)
- ``amq.leveret.seen.<id>``: the trace of what the queue with that id has seen (queues/trace.py)
- ``amq.leveret.stage.<id>``: rows of a Spark batch that is not committed yet (pipeline/stages.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from leveret.errors import StoreError
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import QueueOptions
from leveret.queues.surroundings import Surroundings
from leveret.queues.trace import Trace
from leveret.store.definitions import Drop, Put, QueueRow
from leveret.wire.fields import encode_table

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

PREFIX = "amq.leveret."
SCHEDULE = f"{PREFIX}schedule"
HELD = f"{PREFIX}held."
SEEN = f"{PREFIX}seen."
STAGE = f"{PREFIX}stage."


class InternalQueues:
    """Those of one virtual host."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self.queues: dict[str, ClassicQueue] = {}
        self._traces: dict[int, Trace] = {}  # by the queue whose trace it is

    # ---- queues

    def open(
        self, name: str, options: QueueOptions, surroundings: Surroundings, id_: int | None = None
    ) -> ClassicQueue:
        """Make it, with the id that it had in an earlier life, or with a new one."""
        if id_ is None:
            id_ = self._new_row(name)
        queue = ClassicQueue(id_, name, self._vhost.name, options, surroundings, durable=True)
        self.queues[name] = queue
        return queue

    def _new_row(self, name: str) -> int:
        id_ = self._vhost.next_id()
        self._vhost.record(Put(QueueRow(id_, self._vhost.name, name, False, encode_table({}))))
        return id_

    # ---- traces

    def trace(self, queue: ClassicQueue) -> Trace:
        found = self._traces.get(queue.id)
        if found is None:
            name = f"{SEEN}{queue.id}"
            found = self._traces[queue.id] = self._trace(self._new_row(name), name)
        return found

    def _trace(self, id_: int, name: str) -> Trace:
        surroundings = self._vhost.surroundings
        return Trace(id_, name, surroundings.log, surroundings.pages)

    def forget_trace(self, queue: ClassicQueue) -> None:
        """The queue is deleted."""
        trace = self._traces.get(queue.id)
        if trace is not None:
            self._vhost.record(Drop(QueueRow, (trace.id,)))
            self._vhost.surroundings.log.forget(trace.id)
            del self._traces[queue.id]

    def traces(self) -> Iterable[Trace]:
        return self._traces.values()

    def traced(self) -> Iterator[tuple[ClassicQueue, Trace]]:
        for queue in self._vhost.queues.values():
            trace = self._traces.get(queue.id)
            if trace is not None:
                yield queue, trace

    # ---- the beginning and the end

    def restore(self, id_: int, name: str) -> None:
        """A row that an earlier life left."""
        watched = name.removeprefix(SEEN)
        if name == SCHEDULE:
            self._vhost.schedules.open(id_)
        elif watched != name and watched.isdecimal():
            self._traces[int(watched)] = self._trace(id_, name)
        elif name.startswith((HELD, STAGE)):
            self.open(name, QueueOptions(), self._vhost.surroundings, id_)
        else:
            raise StoreError(f"this version has no use for the queue '{name}'")

    def remove(self, name: str) -> None:
        queue = self.queues[name]
        if queue.stored:
            self._vhost.record(Drop(QueueRow, (queue.id,)))
        del self.queues[name]
        queue.die()

    def remove_all(self) -> None:
        """The virtual host is deleted; its other queues are gone already."""
        for queue in self.queues.values():
            self._vhost.record(Drop(QueueRow, (queue.id,)))
            queue.die()
        self.queues.clear()
