"""Outboxes: messages on their way to queues of other cells, where each arrives once.

Theory of operation. A commit moves the messages of its stages to their queues (pipeline/stage_moves.py), and is atomic
only within the journal of its own cell. So what is routed to a queue of another cell goes to an *outbox* first, an
internal queue of this cell, in the same group of the log that takes it out of its stage. From there it is transferred
to the home cell, in order and one transfer at a time, until the home cell has answered; then it is removed here. The
home cell drops what it has received before, by the sequences of the messages in the outbox (pipeline/transfers.py).
Messages that a resize has held back take the same way to their new shards (sharding/hold.py).

- Only durable messages are transferred: after a crash no other message gets the sequence of one that was received.
- An outbox that is empty at the start is deleted, and a new one has a new id: sequences are never used again.
- Sharded exchanges that are resized in order route to gates, which keep messages in memory. Commits and transfers go
  past them (broker/gates.py), so a message is in the log of one cell at any time.
- A transfer belongs to the cell that it was sent to first, even if the queue moves: the mark is there. That cell passes
  the messages on by an outbox of its own.

The row of an outbox among the parameters has its cell and queue, and where its messages came from if they are passed
on.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.internal_queues import OUTBOX
from leveret.broker.remote_writes import RoutedRun
from leveret.broker.routes import Route
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError
from leveret.logs import LogInterval, get_log
from leveret.message import PERSISTENT, Message
from leveret.pipeline.inflow import RUN, front
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import QueueOptions
from leveret.queues.queue import Queue

COMPONENT = "outbox"
MOST_WAITING = 100_000  # messages in an outbox, above which moves wait
RETRY_AFTER = 0.2  # seconds; doubled by each further failure
LONGEST_RETRY = 1.0
BETWEEN_LINES = 5.0  # seconds between two log lines about an outbox

log = get_log("pipeline")


class Transfer(NamedTuple):
    """Messages of an outbox. ``first``: the sequence of the first."""

    vhost: str
    queue: str
    outbox: str
    first: int
    messages: list[Message]


Answered = Callable[[str | None], None]  # None, or the reason why the transfer may not have been received
Send = Callable[[str, Transfer, Answered], None]


class Outbox:
    """The messages for one queue of another cell."""

    def __init__(self, outboxes: Outboxes, vhost: Vhost, id_: str, cell: str, target: str, queue: ClassicQueue) -> None:
        self.id = id_
        self.cell = cell
        self.target = target  # the name of the queue in the other cell
        self.queue = queue
        self._outboxes = outboxes
        self._vhost = vhost
        self._sending: Transfer | None = None
        self._is_busy = False
        self._pause = RETRY_AFTER
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._lines = LogInterval(BETWEEN_LINES)

    @property
    def passed(self) -> int:
        """The sequence up to which everything was received by the other cell."""
        return self.queue.lane.head if self._sending is None else self._sending.first

    @property
    def is_passed(self) -> bool:
        return self.passed >= self.queue.lane.tail or not self.queue.alive

    def when_passed(self, sequence: int, call: Callable[[], None]) -> bool:
        """Call ``call`` when everything below this sequence was received, or dropped; False if it was."""
        if self.passed >= sequence or not self.queue.alive:
            return False
        self._waiting.append((sequence, call))
        return True

    @property
    def is_full(self) -> bool:
        return self.queue.lane.tail - self.passed > MOST_WAITING

    def resume(self) -> None:
        """Transfer what has been added."""
        if self._is_busy or not self.queue.ready or self._outboxes.send is None:
            return
        self._is_busy = True
        stop = self.queue.lane.tail
        self._outboxes.broker.when_granted(lambda: self._take(stop))

    def _take(self, stop: int) -> None:
        queue = self.queue
        if not queue.alive:
            self._end()
            return
        lane = queue.lane
        messages = front(list(islice(lane.ready, min(lane.stretch(RUN), stop - lane.head))))
        if messages:
            lane.take(len(messages))
            self._sending = Transfer(self._vhost.name, self.target, self.id, lane.head - len(messages), messages)
            self._send()
        elif queue.pager is None or not queue.pager.when_loaded(lambda: self._take(stop)):
            self._is_busy = False

    def _send(self) -> None:
        if self._sending is None or not self.queue.alive:
            self._end()
            return
        assert self._outboxes.send is not None
        self._outboxes.send(self.cell, self._sending, self._answered)

    def _answered(self, problem: str | None) -> None:
        if problem is None and self.queue.alive:
            self._release()
            return
        context = self._vhost.queue_context
        if problem is not None and self._lines.is_due(context.now()):
            log.warning("messages wait for another cell", cell=self.cell, queue=self.target, reason=problem)
        context.schedule(context.now() + self._pause, self._send)
        self._pause = min(self._pause * 2, LONGEST_RETRY)

    def _release(self) -> None:
        sent, queue = self._sending, self.queue
        assert sent is not None
        size = sum([len(message[0]) for message in sent.messages])
        try:
            queue.release(queue.lane.number, sent.first, len(sent.messages), size)
        except LeveretError as problem:  # the store is read-only: after a restart it is sent again, and dropped there
            log.warning("transferred messages cannot be removed", queue=self.target, reason=str(problem))
        queue.account()
        if queue.pager is not None:
            queue.pager.refill()
        self._sending, self._is_busy, self._pause = None, False, RETRY_AFTER
        self._call_waiting()
        self.resume()
        self._outboxes.broker.wake()

    def _call_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sequence, call in waiting:
            if not self.when_passed(sequence, call):
                call()

    def _end(self) -> None:
        """The virtual host was deleted."""
        self._call_waiting()


class Outboxes:
    """All outboxes of a cell. ``send`` is set if there are other cells."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        broker.cells.transfers = self
        self.send: Send | None = None
        self._known: dict[tuple[Vhost, str, str, str], Outbox] = {}  # by cell, queue, came_from

    def start(self, send: Send) -> None:
        self.send = send
        self.resume()

    def resume(self) -> None:
        for outbox in list(self._known.values()):
            outbox.resume()

    def restore(self) -> None:
        """After definitions and messages are restored. Those that are empty are deleted."""
        for vhost in self.broker.vhosts.values():
            for id_ in vhost.parameters.names(COMPONENT):
                queue = vhost.internal.queues.get(f"{OUTBOX}{id_}")
                if queue is None or not queue.ready:
                    self._delete(vhost, id_)
                    continue
                row = json.loads(vhost.parameters.get(COMPONENT, id_) or b"{}")
                outbox = Outbox(self, vhost, id_, row["cell"], row["queue"], queue)
                self._known[vhost, outbox.cell, outbox.target, row.get("came_from", "")] = outbox

    def _delete(self, vhost: Vhost, id_: str) -> None:
        if f"{OUTBOX}{id_}" in vhost.internal.queues:
            vhost.internal.remove(f"{OUTBOX}{id_}")
        vhost.parameters.drop(COMPONENT, id_)

    def ids(self, cell: str) -> list[str]:
        """Of the outboxes for one cell."""
        return [outbox.id for outbox in self._known.values() if outbox.cell == cell]

    def when_passed(self, vhost: Vhost, queue: str, call: Callable[[], None]) -> bool:
        """See broker.cells.CommittedTransfers."""
        to_queue = [outbox for (of, _, target, _), outbox in self._known.items() if of is vhost and target == queue]
        return when_all_passed(to_queue, call)

    def have_passed_on(self, vhost: Vhost, came_from: str) -> bool:
        return all(outbox.is_passed for outbox in self._passing_on(vhost, came_from))

    def when_passed_on(self, vhost: Vhost, came_from: str, call: Callable[[], None]) -> bool:
        """See broker.cells.CommittedTransfers."""
        self.resume()
        return when_all_passed(self._passing_on(vhost, came_from), call)

    def _passing_on(self, vhost: Vhost, came_from: str) -> list[Outbox]:
        return [outbox for (of, _, _, queue), outbox in self._known.items() if of is vhost and queue == came_from]

    def is_passed(self, cell: str) -> bool:
        """Whether nothing is on its way to this cell."""
        return all(outbox.passed == outbox.queue.lane.tail for outbox in self._known.values() if outbox.cell == cell)

    def of(self, vhost: Vhost, cell: str, target: str, came_from: str = "") -> Outbox:
        """``came_from``: if messages are passed on, the outbox of another cell, or the hold, where they were before."""
        key = (vhost, cell, target, came_from)
        found = self._known.get(key)
        if found is None:
            id_ = secrets.token_hex(16)
            row = {"cell": cell, "queue": target, "came_from": came_from}
            vhost.parameters.put(COMPONENT, id_, json.dumps(row).encode())
            queue = vhost.internal.open(f"{OUTBOX}{id_}", QueueOptions(), vhost.queue_context)
            found = self._known[key] = Outbox(self, vhost, id_, cell, target, queue)
        return found

    def used_by(self, vhost: Vhost, run: RoutedRun) -> set[Outbox]:
        """The outboxes that this run goes to."""
        return {self.of(vhost, cell, queue.name) for queue, cell in _away(vhost, run.route)}

    def redirected(self, vhost: Vhost, run: RoutedRun, *, came_from: str = "") -> Iterator[RoutedRun]:
        """The same run, to outboxes instead of queues of other cells. There, priority and expiration have no effect
        yet, and everything is persistent."""
        away = dict(_away(vhost, run.route))
        if rest := [queue for queue in run.route.queues if queue not in away]:
            yield run._replace(route=Route(rest))
        if away:
            outboxes = [self.of(vhost, cell, queue.name, came_from).queue for queue, cell in away.items()]
            messages = [(content, address, PERSISTENT) for content, address, _ in run.messages]
            yield RoutedRun(Route(outboxes), messages, run.size, False)


def when_all_passed(outboxes: Iterable[Outbox], call: Callable[[], None]) -> bool:
    """Call ``call`` when everything that is in these outboxes now was received; False if it was."""
    left = 0

    def passed() -> None:
        nonlocal left
        left -= 1
        if not left:
            call()

    left = sum([outbox.when_passed(outbox.queue.lane.tail, passed) for outbox in outboxes])
    return left > 0


def _away(vhost: Vhost, route: Route) -> Iterator[tuple[Queue, str]]:
    """The queues of other cells, with their cells."""
    for queue in route.queues:
        declared = vhost.queues.get(queue.name) if queue.remote_log is not None else None
        if declared is not None and declared.home is not None:
            yield queue, declared.home.cell_name
