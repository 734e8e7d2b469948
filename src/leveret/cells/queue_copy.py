"""The copy of a queue in the cell that it moves to, and how its messages are sent there.

The cell of the queue opens a connection for each move and sends frames in order (cells/queue_move.py):

    {"begin": [id, vhost, queue, lanes]}                    an empty copy
    {"run": [lane, first, address, persistent, messages]}   messages with one address; ``first``: their first sequence
    {"gone": [lane, sequence, number]}                      they have left the queue since
    {"hold": true}                                          publish nothing more to the queue from this cell
    {"seen": [[key, expiry], ...]}                          the IDs that deduplication has recorded
    {"end": [number, is_paused]}                            the copy is complete, with so many messages

Each frame but ``hold`` is answered by ``{"stored": number of frames}`` once it is on disk, ``hold`` by
``{"held": true}`` once everything that this cell has published is confirmed. ``{"error": text}`` ends the move. Times
are wall times.

The copy is an internal queue, which clients cannot see, and which does not expire or deliver messages. ``promote``
makes it the queue: its definition, the home and the record of the move change in one transaction of the definitions.
Until then the copy is discarded when the connection is lost, and at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from leveret.backlog.lane import Lane
from leveret.broker.broker import Broker
from leveret.broker.internal_queues import MOVING
from leveret.broker.publishes import Outcome, deliver, rejected_places, write_run
from leveret.broker.routes import Route
from leveret.broker.rows import queue_row
from leveret.broker.vhost import HOME, Vhost
from leveret.cells.remote_publishes import Unsent
from leveret.cells.remote_queue import RemoteQueue
from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import BY_MOVE
from leveret.delivery.unacked import Portion
from leveret.errors import AmqpError, LeveretError, PreconditionFailed
from leveret.message import NEVER, PERSISTENT_BY_PRIORITY, TRANSIENT_BY_PRIORITY, Address, Message, Traits
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.queues.queue import uniform_runs
from leveret.session.pooled_consumer import Member
from leveret.store.definitions import Drop, Put, QueueRow
from leveret.store.returns import pack_return

MOVED = "moved-from"  # component of the parameters: the last move of a queue to this cell, until the first cell has it
Frame = dict[str, Any]
Send = Callable[[Frame], None]
CopiedMessage = list[Any]  # content, priority, deadline or None, whether redelivered, delivery count, due time or 0


class QueueCopy:
    """One move to this cell. ``over`` is called when the connection is lost."""

    def __init__(self, broker: Broker, send: Send, over: Callable[[QueueCopy], None]) -> None:
        self.id = ""
        self.is_complete = False
        self._broker = broker
        self._send = send
        self._over = over
        self._vhost: Vhost | None = None
        self._queue: ClassicQueue | None = None
        self._name = ""
        self._frames = 0
        self._seen: list[tuple[bytes, float]] = []
        self._due: list[tuple[float, int, int]] = []  # time, lane and sequence of delayed messages
        self._is_paused = False
        self._held: RemoteQueue | None = None

    # ---- frames

    def receive(self, frame: Frame) -> None:
        try:
            self._take(frame)
        except LeveretError as problem:
            self._send({"error": str(problem)})
        self._broker.wake()

    def _take(self, frame: Frame) -> None:
        ((kind, value),) = frame.items()
        if kind == "hold":
            self._hold()
            return
        if kind == "begin":
            self._begin(*value)
        elif kind == "run":
            self._append(*value)
        elif kind == "gone":
            self._remove(*value)
        elif kind == "seen":
            self._seen += [(key, NEVER if end is None else end - self._ahead) for key, end in value]
        else:
            self._end(*value)
        self._frames += 1
        number = self._frames
        stored, lost = {"stored": number}, {"error": "the disk of the other cell failed"}
        self._broker.when_granted(lambda: self._send(stored), lost=lambda: self._send(lost))

    @property
    def _ahead(self) -> float:
        assert self._vhost is not None
        return self._vhost.queue_context.wall_ahead()

    @property
    def queue(self) -> ClassicQueue:
        if self._queue is None:
            raise PreconditionFailed("the copy of the queue does not exist any more")
        return self._queue

    def _begin(self, id_: str, vhost: str, name: str, lanes: int) -> None:
        self.id, self._name = id_, name
        self._vhost = host = self._broker.vhost(vhost)
        remote = host.queues.get(name)
        if not isinstance(remote, RemoteQueue):
            raise PreconditionFailed(f"queue '{name}' in vhost '{vhost}' is not in another cell")
        hidden = f"{MOVING}{name}"
        if hidden in host.internal.queues:
            raise PreconditionFailed(f"queue '{name}' in vhost '{vhost}' is being moved already")
        options = QueueOptions(max_priority=lanes - 1 if lanes > 1 else None)
        if remote.durable:
            self._queue = host.internal.open(hidden, options, host.queue_context)
        else:
            declared = Declaration(host.next_id(), hidden, vhost, options)
            self._queue = host.internal.queues[hidden] = ClassicQueue(declared, host.queue_context)
        self._queue.frozen = BY_MOVE

    def _append(self, lane: int, first: int, where: list[Any], persistent: bool, copied: list[CopiedMessage]) -> None:
        queue, address = self.queue, Address(*where)
        here = queue.lanes[lane]
        if here.tail != first:
            raise PreconditionFailed(f"message {first} of lane {lane} was sent instead of {here.tail}")
        run: list[Message] = [(each[0], address, self._traits(persistent, *each[1:3])) for each in copied]
        size = sum([len(message[0]) for message in run])
        write_run([queue], self._broker.log, run, size, any(each[2] is not None for each in copied))
        if here.tail != first + len(run):
            raise PreconditionFailed(f"a message of lane {lane} has the priority of another")
        for sequence, (_, _, _, is_redelivered, count, due) in enumerate(copied, first):
            if is_redelivered:
                self._mark_redelivered(here, sequence, count, due)

    def _traits(self, persistent: bool, priority: int, deadline: float | None) -> Traits:
        if deadline is not None:
            return Traits(persistent=persistent, deadline=deadline - self._ahead, priority=priority)
        return (PERSISTENT_BY_PRIORITY if persistent else TRANSIENT_BY_PRIORITY)[priority]

    def _mark_redelivered(self, lane: Lane, sequence: int, count: int, due: float) -> None:
        queue = self.queue
        waiting = lane.cut_out(sequence)
        assert waiting is not None
        queue.put_back(lane.number, sequence, count, waiting[2])
        if queue.stored:
            self._broker.log.returned(queue.id, lane.number, sequence, 1, pack_return(count, due))
        if due:
            self._due.append((due, lane.number, sequence))

    def _remove(self, lane_number: int, first: int, number: int) -> None:
        queue = self.queue
        lane = queue.lanes[lane_number]
        for sequence in range(first, first + number):
            size: int | None = None
            if lane.is_paged(sequence):
                assert queue.pager is not None
                size = queue.pager.expire(lane, sequence)
            elif (waiting := lane.cut_out(sequence)) is not None:
                size = len(waiting[2][0])
            if size is not None:
                queue.release(lane_number, sequence, 1, size)

    def _hold(self) -> None:
        assert self._vhost is not None
        remote = self._vhost.queues.get(self._name)
        if not isinstance(remote, RemoteQueue):
            raise PreconditionFailed(f"queue '{self._name}' was deleted")
        self._held = remote
        remote.publishes.is_held = True
        remote.publishes.when_confirmed(lambda: self._send({"held": True}))

    def _end(self, number: int, is_paused: bool) -> None:
        if self.queue.ready != number:
            raise PreconditionFailed(f"the copy has {self.queue.ready} messages instead of {number}")
        self._is_paused = is_paused
        self.is_complete = True

    # ---- the end

    def lost(self) -> None:
        """The connection is lost, before the copy became the queue or after."""
        self.discard()
        self._over(self)

    def discard(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.publishes.is_held = False
            held.publishes.resume()
        queue, self._queue = self._queue, None
        self.is_complete = False
        if queue is not None and self._vhost is not None and queue.name in self._vhost.internal.queues:
            self._vhost.internal.remove(queue.name)
        self._broker.wake()

    def promote(self, source: str) -> None:
        """The copy becomes the queue. PreconditionFailed if the queue was deleted."""
        copy, vhost = self.queue, self._vhost
        assert vhost is not None
        remote = vhost.queues.get(self._name)
        if not isinstance(remote, RemoteQueue) or remote.cell.name != source:
            raise PreconditionFailed(f"queue '{self._name}' in vhost '{vhost.name}' was deleted")
        vhost.internal.release(copy.name)
        copy.name, copy.arguments = self._name, dict(remote.arguments)
        copy.durable, copy.auto_delete = remote.durable, remote.auto_delete
        copy.frozen = 0
        if remote.is_lasting:
            vhost.record(Drop(QueueRow, (remote.id,)))
            vhost.record(Put(queue_row(copy)))
            vhost.parameters.drop(HOME, self._name)
            vhost.parameters.put(MOVED, self._name, f"{source} {self.id}".encode())
        self._queue = self._held = None
        self.is_complete = False
        copy.apply(vhost.policies.options_of(self._name, copy.arguments, copy.durable, False))
        if copy.duplicates is not None:
            copy.duplicates.adopt(self._seen)
        self._delay(copy)
        unsent = remote.publishes.take_unsent()
        take_back(self._broker, remote)
        consumers = remote.detach()
        remote.publishes.end()
        vhost.substitute(copy)
        if self._is_paused:
            vhost.pause_queue(copy)
        publish_held(self._broker, copy, unsent)
        hand_over(consumers, copy)
        copy.touch()

    def _delay(self, copy: ClassicQueue) -> None:
        for due, lane, sequence in self._due:
            waiting = copy.lanes[lane].cut_out(sequence) if copy.delayed is not None else None
            if waiting is not None and copy.delayed is not None:
                copy.delayed.keep(due - self._ahead, lane, sequence, waiting[1], waiting[2])


def discard_copies(broker: Broker) -> None:
    """Remove the copies of an earlier run: their moves have failed."""
    for vhost in broker.vhosts.values():
        for name in [name for name in vhost.internal.queues if name.startswith(MOVING)]:
            vhost.internal.remove(name)


def take_back(broker: Broker, queue: DeclaredQueue) -> list[Portion]:
    """Take all deliveries of the queue back from connections; later settlements of them are ignored."""
    taken: list[Portion] = []
    for connection in list(broker.registry.connections):
        for channel in list(getattr(connection, "channels", {}).values()):
            unacked = channel.unacked
            for tag, (holder, *_) in list(unacked.held_of(queue, len(unacked.spans))):
                if (portion := unacked.take_back(tag)) is not None:
                    taken.append(portion)
                    holder.restore(len(portion.messages))
    return taken


def take_consumers(queue: DeclaredQueue) -> list[Consumer]:
    """Take the consumers away from a queue of this cell, for ``hand_over``. Those of other cells are left out: they
    subscribe again in the new home cell."""
    consumers = list(queue.consumers)
    for consumer in consumers:
        queue.consumers.remove(consumer)
        queue.context.callbacks.count_memory(-consumer.memory)
    return [each for each in consumers if not getattr(getattr(each, "channel", None), "is_link", False)]


def hand_over(consumers: Iterable[Consumer], queue: DeclaredQueue) -> None:
    """Consumers of an object that stood for the queue before."""
    for consumer in consumers:
        if isinstance(consumer, Member):
            consumer.whole.moved(consumer.queue, queue)
        consumer.queue = queue
        try:
            queue.add_consumer(consumer)
        except AmqpError:  # an exclusive consumer has come first
            consumer.cancelled_by_queue()


def publish_held(broker: Broker, queue: DeclaredQueue, unsent: Iterable[Unsent]) -> None:
    """Publish what was held, in order, to a queue of this cell."""
    for run, _, receipt, *_ in unsent:
        outcomes: list[Outcome] = []
        for part in uniform_runs(run):
            timed = any(message[2].deadline != NEVER for message in part)
            size = sum([len(message[0]) for message in part])
            outcomes += deliver(Route([queue]), broker.log, part, size, timed)
        receipt.received()
        rejected = rejected_places(outcomes)
        granted = partial(receipt.refused, rejected) if rejected else receipt.granted
        broker.when_granted(granted, lost=receipt.lost)
