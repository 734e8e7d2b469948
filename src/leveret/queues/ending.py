"""The end of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.queues.removal import Removal

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


def die(queue: ClassicQueue) -> int:
    """Give everything up; the number of ready messages that went with it."""
    queue.alive = queue.plain = False
    number = queue.ready
    surroundings = queue.surroundings
    surroundings.gauge.used -= queue.accounted
    queue.bytes = queue.held = queue.unacked = queue.accounted = 0
    surroundings.errands.begin(Removal(queue, [lane.clear() for lane in queue.lanes]))
    if queue.expiry_timer is not None:
        queue.expiry_timer[1].cancel()
    for part in (queue.idleness, queue.waiting, queue.leases):
        if part is not None:
            part.stop()
    if queue.stored:
        surroundings.log.forget(queue.id)
    if queue.pager is not None:
        queue.pager.pages.forget(queue.id)
        queue.pager.tell_waiting()
        if queue.pager.withheld is not None:
            queue.pager.withheld.queue_died()
    for consumer in list(queue.consumers):
        queue.consumers.remove(consumer)
        surroundings.count_memory(-consumer.memory)
        consumer.cancelled_by_queue()
    if queue.watermarks is not None:
        queue.watermarks.queue_died()
    return number
