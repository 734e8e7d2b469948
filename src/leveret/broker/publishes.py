"""Passes published runs to queues, and returns their outcomes: no other module does this.  Hot path.

All publishers use it: channels, transactions, callers in the process, dead letters, schedules, the firehose, queue
jobs, pipelines and moving shards. A route (broker/routes.py) has the properties of its queues:

- *uniform*: every queue accepts every message at once. The run has one outcome: the receipt of one write, or 0.
- *can_reject*: a queue may be full or drop duplicates. Each message has an outcome of its own. A duplicate counts as
  accepted: it is confirmed and dropped. If one queue rejects a message, the publisher gets a nack, whatever the other
  queues did.
- *answers_later*: a queue has a log of its own, which answers through a PendingPublish (delivery/receipts.py).

Tracing wraps this: the tracer of a virtual host is called before and after a run is passed to the queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import groupby
from typing import NamedTuple

from leveret.broker.routes import PublishRoute, Route
from leveret.delivery.receipts import PendingPublish, Unattended
from leveret.message import NEVER, Message
from leveret.queues.duplicates import Duplicates
from leveret.queues.limits import has_room
from leveret.queues.queue import Queue
from leveret.store.log import GRANTED, Log, Placement


class Origin(Enum):
    """The origin of messages, which decides how a full queue handles them."""

    CLIENT = "client"  # the queue may deliver ready messages first, and rejects these if it is still full
    BROKER = "broker"  # the queue rejects them without a delivery: another queue is in the middle of its work
    PROMISED = "promised"  # the queue accepts them: they were confirmed before


class Outcome(NamedTuple):
    """The outcome of a number of consecutive messages of a run."""

    number: int
    receipt: int = GRANTED  # of the broker's log
    is_rejected: bool = False  # by at least one queue


def rejected_places(outcomes: Iterable[Outcome]) -> list[int]:
    """The places of the rejected messages in the run with these outcomes."""
    places: list[int] = []
    at = 0
    for number, _, is_rejected in outcomes:
        if is_rejected:
            places += range(at, at + number)
        at += number
    return places


def write_run(queues: Sequence[Queue], log: Log, run: list[Message], size: int, timed: bool) -> int:
    """Pass a run, all persistent or all transient, to all queues of a uniform route; the receipt of their one write."""
    persistent = run[0][2].persistent
    placements: list[Placement] = []
    synced = False
    for queue in queues:
        if queue.stored and (persistent or queue.keeps_all):
            placements += queue.place(run, size, timed)
            synced = synced or queue.synced
        else:
            queue.publish(run, size, timed)
    return log.append(run, placements, synced) if placements else GRANTED


def publish_run(
    route: PublishRoute,
    log: Log,
    run: list[Message],
    size: int,
    timed: bool,
    *,
    publisher: object = None,
    pending: PendingPublish | None = None,
) -> list[Outcome]:
    """The outcome of a run that a client published: traced if the virtual host is, and counted if unroutable."""
    if not route.queues:
        route.counters.unroutable += len(run)
    if route.tracer is None:
        return deliver(route, log, run, size, timed, pending=pending)
    with route.tracer.publishing(publisher, run, route.queues, route.mandatory):
        return deliver(route, log, run, size, timed, pending=pending)


def deliver(
    route: Route,
    log: Log,
    run: list[Message],
    size: int,
    timed: bool,
    *,
    origin: Origin = Origin.CLIENT,
    pending: PendingPublish | None = None,
) -> list[Outcome]:
    """Pass a run to the queues of any route. Unless a queue can reject, it must be all persistent or all transient.

    ``pending`` gets the answers of queues that answer later; without it, they are not waited for.
    """
    queues = route.queues
    if route.answers_later:
        pending = PendingPublish(Unattended(), run) if pending is None else pending
        queues = _submit(queues, size, timed, pending)
    if not queues:
        return [Outcome(len(run))]
    if not route.can_reject:
        return [Outcome(len(run), write_run(queues, log, run, size, timed))]
    may_drain, must_accept = origin is Origin.CLIENT, origin is Origin.PROMISED
    outcomes = [_offer(queues, log, message, may_drain, must_accept) for message in run]
    return [Outcome(len(list(alike)), *outcome) for outcome, alike in groupby(outcomes)]


def _submit(queues: Sequence[Queue], size: int, timed: bool, pending: PendingPublish) -> list[Queue]:
    """Submit to the queues that answer later; returns the others, which belong to this broker."""
    local = [queue for queue in queues if queue.remote_log is None]
    pending.is_received = pending.is_received or bool(local)
    for queue in queues:
        if queue.remote_log is not None:
            queue.remote_log.submit(size, timed, pending)
    return local


def _offer(queues: Sequence[Queue], log: Log, message: Message, may_drain: bool, must_accept: bool) -> tuple[int, bool]:
    """The receipt of one message, and whether a queue has rejected it."""
    accepting: list[Queue] = []
    noting: list[Duplicates] = []
    is_rejected = False
    owed = GRANTED  # the receipt of a duplicate whose first message is not on disk yet
    for queue in queues:
        if not queue.can_reject:
            accepting.append(queue)
            continue
        duplicates = queue.duplicates
        if duplicates is not None and duplicates.has_seen(message):
            owed = max(owed, duplicates.drop(message))
        elif has_room(queue, message, may_drain, must_accept):
            accepting.append(queue)
            if duplicates is not None:
                noting.append(duplicates)
        else:
            is_rejected = True
            assert queue.limits is not None
            queue.limits.reject(message)
    size, timed = len(message[0]), message[2].deadline != NEVER
    if not noting:
        receipt = write_run(accepting, log, [message], size, timed) if accepting else GRANTED
        return max(receipt, owed), is_rejected
    with log.group():  # both the message and its ID, or none
        receipt = write_run(accepting, log, [message], size, timed)
        for duplicates in noting:
            duplicates.note(message)
    return (log.issued if receipt != GRANTED else owed), is_rejected
