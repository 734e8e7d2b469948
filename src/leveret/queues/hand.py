"""What is done to a queue by hand: taking its first message (basic.get), and emptying it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.queues.removal import Removal
from leveret.queues.taken import Taken

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


def take_by_hand(queue: ClassicQueue, no_ack: bool) -> Taken | None:
    queue.note_use()
    queue.settle_down()
    lane = queue.highest_lane()
    redelivered = bool(lane.returned)
    waiting = None if queue.consumers.paused else lane.pop()
    if waiting is None:
        queue.counters.got_nothing += 1
        queue.account()
        return None
    sequence, count, message = waiting
    queue.counters.got += 1
    queue.counters.got_no_ack += no_ack
    queue.counters.redelivered += redelivered
    if no_ack:
        queue.release(lane.number, sequence, 1, len(message[0]))
    else:
        queue.unacked += 1
        queue.held += len(message[0])
    queue.account()
    if queue.pager is not None:
        queue.pager.refill()
    return Taken(lane.number, sequence, count, redelivered, message, queue.ready)


def purge(queue: ClassicQueue) -> int:
    """Forget what is ready; what is unacked stays with its holders."""
    number, removed = 0, []
    for lane in queue.lanes:
        number += len(lane)
        if queue.pager is not None and lane.page_stop:
            queue.pager.purge(lane)
            for start, stop in queue.pager.waiting_on_disk(lane):
                queue.release(lane.number, start, stop - start, 0)
        cleared = lane.clear()
        if queue.stored or queue.watermarks is not None or queue.surroundings.witness is not None:
            for sequence, count in cleared.stretches():
                queue.release(lane.number, sequence, count, 0)  # their bytes are counted as they are freed
        removed.append(cleared)
    if queue.pager is not None:
        queue.bytes -= queue.pager.bytes
        queue.pager.forget_sizes()
    queue.counters.purged += number
    queue.surroundings.errands.begin(Removal(queue, removed))
    return number
