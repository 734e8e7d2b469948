"""The deaths of a queue's messages: burying those whose time is up, and one timer for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.message import NEVER, Message
from leveret.queues.deadlines import ON_DISK_AT_ONCE, Deadlines
from leveret.queues.dying import BATCH, EXPIRED, Dead, buries_expired, bury
from leveret.queues.exhuming import exhume

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane


def watch_deadlines(queue: ClassicQueue) -> None:
    """From now on messages of this queue may die of age; those that are here already do not, or have an entry."""
    if queue.deadlines is None:
        queue.deadlines = Deadlines(queue.lanes)
        queue.plain = False
        for lane in queue.lanes:
            lane.in_turn = NEVER if len(lane) else 0.0


def bury_expired(queue: ClassicQueue) -> bool:
    """Those whose time is up, as far as that goes in a time slice and at most ``deaths_at_once``; always as many as
    arrived, or expiry would fall behind. While some are read from disk to be dead-lettered, no more of those.

    False if there are more: they would hold the loop for too long.
    """
    assert queue.deadlines is not None
    surroundings = queue.surroundings
    now, left, time_slice = surroundings.now(), surroundings.deaths_at_once, surroundings.errands.new_slice()
    owed = queue.arrived
    while deaths := queue.deadlines.collect(now, 0 if _is_reading(queue) else ON_DISK_AT_ONCE, BATCH):
        left, owed = left - len(deaths), owed - len(deaths)
        here = [Dead(lane, sequence, message) for lane, sequence, message in deaths if message is not None]
        queue.counters.expired += len(here)
        if here:
            bury(queue, EXPIRED, here)
        for lane in queue.lanes:
            if on_disk := [death.sequence for death in deaths if death.message is None and death.lane == lane.number]:
                _bury_on_disk(queue, lane, on_disk)
        if owed <= 0 and (left <= 0 or time_slice.is_over):
            return False
    return True


def _is_reading(queue: ClassicQueue) -> bool:
    return queue.pager is not None and queue.pager.exhuming > 0


def _bury_batches(queue: ClassicQueue, deaths: list[Dead]) -> None:
    for first in range(0, len(deaths), BATCH):
        bury(queue, EXPIRED, deaths[first : first + BATCH])


def _bury_on_disk(queue: ClassicQueue, lane: Lane, sequences: list[int]) -> None:
    """They are not here: they are read only if somebody wants to see them."""
    if buries_expired(queue):
        queue.counters.expired += exhume(queue, lane, sequences, lambda deaths: _bury_batches(queue, deaths))
        return
    assert queue.pager is not None
    for sequence in sequences:
        size = queue.pager.expire(lane, sequence)
        if size is not None:
            queue.counters.expired += 1
            queue.release(lane.number, sequence, 1, size)


def arm_expiry(queue: ClassicQueue) -> None:
    """One timer for the next death; an earlier one that is already set will look again."""
    assert queue.deadlines is not None
    soonest = queue.deadlines.next_deadline()
    if soonest == NEVER or (queue.expiry_timer is not None and queue.expiry_timer[0] <= soonest):
        return
    if soonest <= queue.surroundings.now() and _is_reading(queue):
        return  # it is looked at again when they are read
    if queue.expiry_timer is not None:
        queue.expiry_timer[1].cancel()
    queue.expiry_timer = (soonest, queue.surroundings.schedule(soonest, lambda: _due(queue)))


def _due(queue: ClassicQueue) -> None:
    queue.expiry_timer = None
    queue.touch()


def dying_by(deadline: float, run: list[Message]) -> list[Message]:
    """The same messages, none of them living longer than the queue's TTL; one traits object serves a whole run."""
    made = {traits: traits.expiring(deadline) for traits in {message[2] for message in run}}
    return [(content, address, made[traits]) for content, address, traits in run]


def dated(queue: ClassicQueue, message: Message, time: float) -> Message:
    """A message as it comes back from disk: the queue's TTL counts from the wall time of its publish."""
    if queue.options.ttl is None:
        return message
    deadline = time - queue.surroundings.wall_ahead() + queue.options.ttl
    return message[0], message[1], message[2].expiring(deadline)
