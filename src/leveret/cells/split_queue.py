"""A queue that two cells have made: the messages of this cell's queue go to that of the other.

The broker makes some queues itself, such as a dead-letter queue for its first message. Two cells may do so before they
know of each other's. The queue that is reported to the first cell first is kept; the other cell gives its own up:

    1. Its deliveries are paused, and those that consumers hold are waited for, then taken back and requeued.
    2. A RemoteQueue gets its name and its consumers. The queue becomes an internal one, in the same transaction.
    3. A job moves the messages of the internal queue to the name. They keep their places until they have arrived, so a
       crash or a lost connection loses none, and a restart goes on. At the end the internal queue is deleted.

Messages lose their redelivery mark, as in any move by a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from leveret.broker.broker import Broker
from leveret.broker.internal_queues import MERGED
from leveret.broker.queue_jobs import Forward, Job, Scope
from leveret.broker.rows import queue_row
from leveret.broker.vhost import HOME, PAUSED, Vhost
from leveret.cells.queue_copy import hand_over, take_back, take_consumers
from leveret.cells.queue_move import LOOK_EVERY, SETTLE_SECONDS
from leveret.delivery.consumer_ring import BY_MOVE
from leveret.logs import get_log
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.queues.queue_types import make_queue
from leveret.store.definitions import Put

RETRY_AFTER = 5.0  # seconds


def mergeable(queue: DeclaredQueue) -> ClassicQueue | None:
    """The queue, if the broker can have made it itself. Others are made by clients, whose requests the first cell puts
    in order."""
    backlog = queue.backlog
    is_made_by_clients = backlog is None or queue.owner is not None or len(backlog.lanes) > 1
    return None if is_made_by_clients else cast(ClassicQueue, queue)


class SplitQueue:
    """``home``: the other cell. ``over`` is called when the queue is given up, or deleted."""

    def __init__(self, broker: Broker, queue: ClassicQueue, home: str, over: Callable[[], object]) -> None:
        self.home = home
        self._broker = broker
        self._vhost = broker.vhost(queue.vhost)
        self._queue = queue
        self._over = over
        self._is_over = False
        self._until = queue.context.now() + SETTLE_SECONDS

    def start(self) -> None:
        get_log("cells").warning(
            "queue was made in two cells, its messages move to the other",
            queue=self._queue.name,
            vhost=self._vhost.name,
            other=self.home,
        )
        self._queue.consumers.paused |= BY_MOVE
        self._look()

    def cancel(self) -> None:
        """The queue is in this cell."""
        self._queue.consumers.paused &= ~BY_MOVE
        self._queue.touch()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._over()

    def _look(self) -> None:
        queue, context = self._queue, self._queue.context
        if self._is_over:
            return
        if self._vhost.queues.get(queue.name) is not queue:  # deleted
            self._end()
            return
        if queue.unacked and context.now() >= self._until:
            for portion in take_back(self._broker, queue):
                queue.requeue(portion.lane, portion.sequence, portion.messages, portion.tries, tried=False)
        if _is_busy(queue):
            context.schedule(context.now() + LOOK_EVERY, self._look)
            return
        self._give_up()
        self._end()
        self._broker.wake()

    def _give_up(self) -> None:
        queue, vhost = self._queue, self._vhost
        facts = queue.name, queue.vhost, queue.options, queue.durable, queue.auto_delete, None
        remote = make_queue(Declaration(vhost.next_id(), *facts, queue.arguments, self.home), queue.context)
        consumers = take_consumers(queue)
        vhost.internal.forget_trace(queue)
        vhost.internal.adopt(queue, f"{MERGED}{queue.id}.{queue.name}")
        if remote.is_lasting:
            vhost.record(Put(queue_row(remote)))
            vhost.parameters.put(HOME, remote.name, self.home.encode())
            vhost.parameters.drop(PAUSED, remote.name)
        queue.apply(QueueOptions())
        vhost.substitute(remote)
        hand_over(consumers, remote)
        MergedQueue(self._broker, vhost, queue).start()


def _is_busy(queue: ClassicQueue) -> bool:
    """Whether messages are out of their lanes: delivered, reserved for Spark, or on their way to another queue."""
    leases = None if queue.pager is None else queue.pager.leases
    is_departing = queue.departures is not None and not queue.departures.is_empty
    is_leased = leases is not None and leases.number > 0
    return bool(queue.unacked or queue.returning or queue.reads_expired or is_departing or is_leased)


class MergedQueue:
    """A queue that was given up, whose messages move to the queue of its former name."""

    def __init__(self, broker: Broker, vhost: Vhost, queue: ClassicQueue) -> None:
        self._broker = broker
        self._vhost = vhost
        self._queue = queue
        self._name = queue.name.removeprefix(MERGED).partition(".")[2]

    def start(self) -> None:
        if self._queue.alive:
            scope = Scope(on_done=self._moved)
            Forward(self._vhost, self._queue, self._broker.background, "", self._name, scope).start()

    def _moved(self, job: Job) -> None:
        queue = self._queue
        if not queue.alive:  # the virtual host was deleted
            return
        if queue.outstanding:  # there is no queue of that name now, or some messages are delayed
            queue.context.schedule(queue.context.now() + RETRY_AFTER, self.start)
        else:
            self._vhost.counters.queue_gone(queue.counters)
            self._vhost.internal.remove(queue.name)


def go_on_merging(broker: Broker) -> None:
    """After a restart."""
    for vhost in broker.vhosts.values():
        for name, queue in vhost.internal.queues.items():
            if name.startswith(MERGED):
                MergedQueue(broker, vhost, queue).start()
