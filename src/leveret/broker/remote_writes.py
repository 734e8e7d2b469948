"""Writes of the broker itself to queues that answer later (delivery/receipts.py): dead letters and scheduled messages.

A client whose message is refused gets a nack and publishes it again. These writes have no client: the broker keeps the
original until every such queue has its copy, and repeats a write that was refused or lost. After that, the queues of
this broker get their copies in the group of the log that removes the original. So after a crash a message is still in
its old place, or in its new places; a queue that answers later may then get it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from leveret.broker.publishes import Origin, deliver
from leveret.broker.routes import Route
from leveret.delivery.receipts import CREDIT, PendingPublish, Unattended
from leveret.errors import LeveretError
from leveret.logs import get_log
from leveret.message import Message
from leveret.queues.departures import Departures
from leveret.queues.queue import Queue

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost
    from leveret.queues.classic import ClassicQueue

RETRY_AFTER = 1.0  # seconds; doubled by each further failure
LONGEST_RETRY = 60.0


class RoutedRun(NamedTuple):
    """Messages, all persistent or all transient, with the queues that they are routed to."""

    route: Route
    messages: list[Message]
    size: int
    timed: bool

    def only(self, messages: list[Message]) -> RoutedRun:
        return self._replace(messages=messages, size=sum([len(message[0]) for message in messages]))

    def local(self) -> Route:
        """The queues of this broker."""
        if not self.route.answers_later:
            return self.route
        return Route([queue for queue in self.route.queues if queue.remote_log is None])


class RemoteWrite(Unattended):
    """One write to one queue, repeated until its log grants it or the queue is deleted. Then ``done`` is called.

    A queue may have been deleted and declared again. What has no name any more and is alive is a gate that has gone,
    which still knows where its messages go (sharding/slot_gate.py)."""

    def __init__(self, vhost: Vhost, queue: Queue, run: RoutedRun | None, done: Callable[[], None]) -> None:
        self._vhost = vhost
        self._queue = queue
        self._run = run  # None: wait for everything that was settled in the queue
        self._done = done
        self._pause = RETRY_AFTER

    def start(self) -> None:
        queue = next(iter(self._vhost.live_queues([self._queue.name])), self._queue)
        if not queue.alive:
            self._done()
            return
        pending = PendingPublish(self, [] if self._run is None else self._run.messages)
        try:
            self._write(queue, pending)
        except LeveretError as problem:  # for example, the store is read-only
            get_log("broker").warning("write to a queue failed", queue=self._queue.name, reason=str(problem))
            pending.reject()
        pending.resolve(True)

    def _write(self, queue: Queue, pending: PendingPublish) -> None:
        if self._run is not None:
            _, messages, size, timed = self._run
            log = self._vhost.queue_context.log
            deliver(Route([queue]), log, messages, size, timed, origin=Origin.PROMISED, pending=pending)
        elif queue.remote_log is not None:
            queue.remote_log.sync(pending)

    def resolved(self, publish: PendingPublish) -> None:
        if not publish.is_rejected:
            self._done()
            return
        if self._run is not None:
            self._run = self._run.only([self._run.messages[place] for place in sorted(publish.rejected)])
        context = self._vhost.queue_context
        context.schedule(context.now() + self._pause, self.start)
        self._pause = min(self._pause * 2, LONGEST_RETRY)


def write_remotely(vhost: Vhost, runs: Sequence[RoutedRun], done: Callable[[], None]) -> None:
    """Pass the runs to those of their queues that answer later; ``done`` is called when all have their copies."""
    left = 0

    def written() -> None:
        nonlocal left
        left -= 1
        if left:
            return
        try:
            done()
        except LeveretError as problem:  # the store is read-only: after a restart the original is still there
            get_log("broker").warning("message cannot be removed from its old queue", reason=str(problem))
        vhost.wake()

    writes = [
        RemoteWrite(vhost, queue, run, written)
        for run in runs
        for queue in run.route.queues
        if queue.remote_log is not None
    ]
    left = len(writes)
    for write in writes:
        write.start()


def send_on(vhost: Vhost, queue: ClassicQueue, run: RoutedRun, done: Callable[[], None]) -> None:
    """Pass on messages that have left the lanes of their queue and keep their places there until ``done``."""
    if queue.departures is None:
        queue.departures = Departures(queue)
    departures, credits = queue.departures, len(run.messages) + run.size // CREDIT
    departures.begin(credits)

    def written() -> None:
        try:
            done()
        finally:
            departures.end(credits)

    write_remotely(vhost, [run], written)


def when_settled(vhost: Vhost, queue: Queue, done: Callable[[], None]) -> None:
    """Call ``done`` when the log of a queue that answers later has granted everything settled in it so far."""

    def settled() -> None:
        done()
        vhost.wake()

    RemoteWrite(vhost, queue, None, settled).start()
