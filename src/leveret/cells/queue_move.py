"""Moving a queue of this cell to another one: the side that has the queue.

Theory of operation. The messages are copied to the other cell (cells/queue_copy.py), in order, while publishes go on;
only for the last ones publishes are held. Then the first cell has the other cell make its copy the queue:

    SETTLING   deliveries are paused; what consumers hold is waited for, then taken back and requeued
    COPYING    the queue is frozen: it accepts publishes, and nothing expires or is dropped by a limit. Its messages are
               copied lane by lane, in rounds; each round copies what has arrived during the last one
    HOLDING    the other cell holds its publishes, until those that are under way are confirmed
    FINISHING  publishes of this cell, and those from other cells, wait in the placeholder; the rest is copied
    ENDING     nothing changes in the queue any more; everything must get on disk in the other cell
    READY      this is recorded here, and reported to the first cell, which alone decides from now on

Messages that leave the queue during the copy (purged, or deleted by a job) are removed from the copy too. The move
continues only when the copy has as many messages as the queue.

A crash. Before READY the queue is here, and the other cell discards its copy. From READY on this cell does not use the
queue, not after a restart either (component ``moving-to`` of the parameters), until the first cell has told it that the
queue has moved (``finish``) or not (``release``). The other cell knows: it has made the copy the queue in one
transaction, with the number of the move, or it has not. So the queue is never in two cells, and never in none.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.rows import queue_row
from leveret.broker.vhost import HOME, PAUSED, Vhost
from leveret.cells.home_cell import HomeCell
from leveret.cells.message_copier import MessageCopier
from leveret.cells.placeholder import Placeholder, movable
from leveret.cells.queue_copy import Frame, Send, hand_over, publish_held, take_back, take_consumers
from leveret.cells.remote_queue import RemoteQueue
from leveret.delivery.consumer_ring import BY_MOVE, BY_OPERATOR
from leveret.logs import get_log
from leveret.message import NEVER
from leveret.queues.declared_queue import Declaration
from leveret.queues.queue_types import make_queue
from leveret.store.definitions import Drop, Put, QueueRow

MOVING = "moving-to"  # component of the parameters: queues that are READY, with their cell and the number of the move
SETTLE_SECONDS = 5.0  # that consumers get to settle what they hold
GIVE_UP_SECONDS = 8.0  # for each step in which publishes are held or deliveries taken back
LOOK_EVERY = 0.05  # seconds
FEW = 500  # messages that may be left when publishes are held
MOST_ROUNDS = 100
MOST_UNSTORED = 16  # frames that the other cell does not have on disk yet
REPORT_EVERY = 5_000  # messages
KEYS_AT_ONCE = 10_000


class Stage(Enum):
    SETTLING = 1
    COPYING = 2
    HOLDING = 3
    FINISHING = 4
    ENDING = 5
    READY = 6
    OVER = 7


class MoveOrder(NamedTuple):
    id: str
    vhost: str
    queue: str
    to: str


class QueueMove:
    """``cell``: the own one. ``report`` sends a frame to the first cell; ``over`` is called at the end, whatever it
    is."""

    def __init__(
        self, broker: Broker, cell: str, order: MoveOrder, report: Send, over: Callable[[QueueMove], None]
    ) -> None:
        self.order = order
        self._cell = cell
        self.stage = Stage.SETTLING
        self.vhost: Vhost = broker.vhost(order.vhost)
        queue = self.vhost.queue(order.queue)
        self.queue = movable(queue)
        self._broker = broker
        self._report = report
        self._over = over
        self._send: Send | None = None
        self._context = self.vhost.queue_context
        self._copier = MessageCopier(self.queue, self._tell, lambda: broker.background.send(self))
        self._rounds = 0
        self._reported = 0  # messages
        self._frames = self._stored = 0
        self._until = NEVER
        self._at_the_end: list[Callable[[], None]] = []
        self.placeholder: RemoteQueue | None = None

    def when_over(self, call: Callable[[], None]) -> None:
        self._at_the_end.append(call)

    # ---- the connection to the other cell

    def start(self) -> None:
        """Pause deliveries; the connection follows."""
        self.queue.consumers.paused |= BY_MOVE
        self.when_over(self.queue.follow_releases(self._released))
        self._until = self._context.now() + SETTLE_SECONDS

    def connected(self, send: Send) -> None:
        if self.stage is Stage.OVER:
            return
        self._send = send
        order = self.order
        self._tell({"begin": [order.id, order.vhost, order.queue, len(self.queue.lanes)]})
        self._look()

    def lost(self, reason: str = "the connection to the other cell is lost") -> None:
        """From READY on, the first cell finds out from the other cell."""
        self._send = None
        if self.stage not in (Stage.READY, Stage.OVER):
            self.fail(reason)

    def receive(self, frame: Frame) -> None:
        if not self.queue.alive and self.stage is not Stage.OVER:
            self.fail("the queue was deleted")
        elif "error" in frame:
            self.lost(str(frame["error"]))
        elif "held" in frame:
            self._hold()
        else:
            self._stored = frame["stored"]
            self._go_on()
        self._broker.wake()

    def _tell(self, frame: Frame) -> None:
        if self._send is not None:
            self._frames += "hold" not in frame
            self._send(frame)

    # ---- time

    def _look(self) -> None:
        """Called until the queue is READY: waiting has an end."""
        if self.stage in (Stage.READY, Stage.OVER):
            return
        if not self.queue.alive:
            self.fail("the queue was deleted")
            return
        self._context.schedule(self._context.now() + LOOK_EVERY, self._look)
        if self.stage is Stage.SETTLING:
            self._settle()
        elif self._context.now() >= self._until:
            self.fail(f"{self.stage.name.lower()} takes too long: move the queue when it has less load")
        self._go_on()
        self._broker.wake()

    def _go_on(self) -> None:
        if self.stage in (Stage.COPYING, Stage.FINISHING):
            self._broker.background.send(self)
        elif self.stage is Stage.ENDING and self._stored == self._frames:
            self._become_ready()

    # ---- settling

    def _settle(self) -> None:
        queue, now = self.queue, self._context.now()
        if queue.unacked and now >= self._until:
            for portion in take_back(self._broker, queue):
                queue.requeue(portion.lane, portion.sequence, portion.messages, portion.tries, tried=False)
        if not queue.unacked and not queue.returning and not self._copier.is_loading:
            self.stage, self._until = Stage.COPYING, NEVER
            queue.frozen |= BY_MOVE
            self._copier.begin()
        elif now >= self._until + GIVE_UP_SECONDS:
            held = f"{queue.unacked} deliveries cannot be taken back from their consumers"
            self.fail(held if queue.unacked else "messages that have expired wait for the cell of a dead letter queue")

    # ---- copying: a background task

    def step(self) -> bool:
        if self.stage not in (Stage.COPYING, Stage.FINISHING):
            return False
        if not self.queue.alive:
            self.fail("the queue was deleted")
            return False
        if self._frames - self._stored >= MOST_UNSTORED:
            return False  # goes on when some are stored
        goes_on = self._copier.step()
        if self._copier.live - self._reported >= REPORT_EVERY:
            self._report_progress()
        return self._end_round() if goes_on is None else goes_on

    def _released(self, lane: int, sequence: int, number: int) -> None:
        """Called for messages that have left the queue, in the middle of its work."""
        if self.stage not in (Stage.READY, Stage.OVER):
            self._copier.released(lane, sequence, number)

    def _report_progress(self) -> None:
        self._reported = self._copier.live
        self._report({"id": self.order.id, "copied": self._reported, "total": self.queue.outstanding})

    def _end_round(self) -> bool:
        self._rounds += 1
        self._report_progress()
        left = self._copier.left
        if self.stage is Stage.COPYING and (left <= FEW or self._rounds >= MOST_ROUNDS):
            self.stage, self._until = Stage.HOLDING, self._context.now() + GIVE_UP_SECONDS
            self._tell({"hold": True})
            return False
        if self.stage is Stage.FINISHING and not left:
            if self._copier.is_complete:
                self._end()
            return False  # otherwise another round follows soon
        return True

    # ---- the last part

    def _hold(self) -> None:
        if self.stage is not Stage.HOLDING:
            return
        self.stage, self._until = Stage.FINISHING, self._context.now() + GIVE_UP_SECONDS
        self._put_placeholder()
        self._broker.background.send(self)

    def _put_placeholder(self) -> None:
        declared = self._declaration()
        nowhere = HomeCell(self._cell, self._broker)
        self.placeholder = Placeholder(declared, self._context, nowhere, self._deleted)
        self.vhost.substitute(self.placeholder)

    def _declaration(self) -> Declaration:
        queue = self.queue
        return Declaration(
            self.vhost.next_id(),
            queue.name,
            queue.vhost,
            queue.options,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            arguments=queue.arguments,
            home=self.order.to,
        )

    def _end(self) -> None:
        """Everything was sent; nothing changes any more."""
        queue, ahead = self.queue, self._context.wall_ahead()
        self.stage, self._until = Stage.ENDING, self._context.now() + GIVE_UP_SECONDS
        kept = [] if queue.duplicates is None else queue.duplicates.kept()
        for at in range(0, len(kept), KEYS_AT_ONCE):
            some = kept[at : at + KEYS_AT_ONCE]
            self._tell({"seen": [[key, None if end == NEVER else end + ahead] for key, end in some]})
        self._tell({"end": [self._copier.live, bool(queue.consumers.paused & BY_OPERATOR)]})

    def _become_ready(self) -> None:
        self.stage = Stage.READY
        if self.queue.stored:
            self.vhost.parameters.put(MOVING, self.order.queue, f"{self.order.to} {self.order.id}".encode())
        ready = {"id": self.order.id, "ready": True}
        self._broker.when_granted(lambda: self._report(ready))
        self._broker.wake()

    # ---- the end

    def freeze(self) -> None:
        """After a restart: the queue was READY."""
        self.stage = Stage.READY
        self.queue.frozen |= BY_MOVE
        self._put_placeholder()

    def fail(self, reason: str) -> None:
        """The queue stays here."""
        get_log("cells").warning("queue cannot be moved", queue=self.order.queue, to=self.order.to, reason=reason)
        self.release()
        self._report({"id": self.order.id, "failed": reason})

    def release(self) -> None:
        """The queue stays here. What was held is published to it."""
        if self.stage is Stage.OVER:
            return
        self._close()
        queue, placeholder = self.queue, self.placeholder
        self.vhost.parameters.drop(MOVING, queue.name)
        queue.frozen &= ~BY_MOVE
        queue.consumers.paused &= ~BY_MOVE
        if placeholder is not None and placeholder.alive:
            unsent = placeholder.publishes.take_unsent()
            consumers = placeholder.detach()
            self.vhost.substitute(queue)
            publish_held(self._broker, queue, unsent)
            hand_over(consumers, queue)
        queue.touch()
        self._broker.wake()

    def finish(self) -> None:
        """The queue is in the other cell now."""
        if self.stage is Stage.OVER:
            return
        self._close()
        queue, placeholder, vhost = self.queue, self.placeholder, self.vhost
        assert placeholder is not None
        remote = make_queue(self._declaration(), self._context)
        assert isinstance(remote, RemoteQueue)
        if remote.is_lasting:
            vhost.record(Drop(QueueRow, (queue.id,)))
            vhost.record(Put(queue_row(remote)))
            vhost.parameters.put(HOME, queue.name, self.order.to.encode())
            vhost.parameters.drop(MOVING, queue.name)
            vhost.parameters.drop(PAUSED, queue.name)
        vhost.internal.forget_trace(queue)
        consumers = [*take_consumers(queue), *remote.follow(placeholder)]
        vhost.substitute(remote)
        hand_over(consumers, remote)
        vhost.counters.queue_gone(queue.counters)
        queue.die()
        self._broker.wake()

    def _deleted(self) -> None:
        """The queue was deleted while the placeholder stood for it."""
        if self.stage is Stage.OVER:
            return
        self._close()
        queue = self.queue
        if queue.stored:
            self.vhost.record(Drop(QueueRow, (queue.id,)))
            self.vhost.parameters.drop(MOVING, queue.name)
        self.vhost.internal.forget_trace(queue)
        queue.die()
        self._report({"id": self.order.id, "failed": "the queue was deleted"})

    def _close(self) -> None:
        self.stage = Stage.OVER
        self._over(self)
        for call in self._at_the_end:
            call()
