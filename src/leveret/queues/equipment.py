"""Gives a queue what its options ask for, when it is made and whenever a policy changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.delivery.single_active import SingleActive
from leveret.queues.duplicates import Duplicates
from leveret.queues.expiry import watch_deadlines
from leveret.queues.idleness import Idleness
from leveret.queues.leases import Leases
from leveret.queues.limits import Limits
from leveret.queues.options import DROP_HEAD, QueueOptions
from leveret.queues.returning import Waiting
from leveret.queues.selection import select

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


def equip(queue: ClassicQueue, options: QueueOptions) -> None:
    """Messages that are here already keep the deadlines they have."""
    queue.options = options
    queue.synced = options.durability != "os"
    if options.ttl is not None:
        watch_deadlines(queue)
    has_limits = options.max_length is not None or options.max_bytes is not None
    queue.limits = Limits(queue) if has_limits else None
    if options.retry is not None and queue.waiting is None:
        queue.waiting = Waiting(queue)
    if options.single_active and not isinstance(queue.consumers, SingleActive):
        queue.consumers = SingleActive(queue.consumers)
    if options.groups:
        select(queue)
    _watch_idleness(queue)
    _watch_acks(queue)
    _remember_duplicates(queue)
    queue.counts_deliveries = options.delivery_limit is not None or options.retry is not None
    queue.choosy = queue.duplicates is not None or (has_limits and options.overflow != DROP_HEAD)
    if queue.ready:
        queue.touch()


def _watch_idleness(queue: ClassicQueue) -> None:
    seconds = queue.options.expires
    if queue.idleness is not None and queue.idleness.seconds == seconds:
        return
    if queue.idleness is not None:
        queue.idleness.stop()
    queue.idleness = None if seconds is None else Idleness(queue, seconds)
    queue.note_use()


def _watch_acks(queue: ClassicQueue) -> None:
    """What is in the hands of consumers already keeps the time it was given."""
    if queue.leases is not None:
        queue.leases.seconds = queue.options.ack_timeout
    elif queue.options.ack_timeout is not None:
        queue.leases = Leases(queue, queue.options.ack_timeout)


def _remember_duplicates(queue: ClassicQueue) -> None:
    window = queue.options.duplicates
    if window is None:
        if queue.duplicates is not None:
            queue.duplicates.stop()
        queue.duplicates = None
    elif queue.duplicates is None:
        queue.duplicates = Duplicates(queue, window)
    else:
        queue.duplicates.resize(window)
