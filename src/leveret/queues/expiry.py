"""The deaths of a queue's messages: burying those whose time is up, and one timer for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.message import NEVER, Message
from leveret.queues.dying import EXPIRED, Dead, buries_expired, bury

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

BATCH = 256  # deaths at a time: each batch is one group of the log


def bury_expired(queue: ClassicQueue) -> None:
    assert queue.deadlines is not None
    deaths = queue.deadlines.collect(queue.surroundings.now())
    if not deaths:
        return
    here = [Dead(lane, sequence, message) for lane, sequence, message in deaths if message is not None]
    queue.counters.expired += len(here)
    for first in range(0, len(here), BATCH):
        bury(queue, EXPIRED, here[first : first + BATCH])
    for lane, sequence, message in deaths:
        if message is None:
            _bury_on_disk(queue, lane, sequence)


def _bury_on_disk(queue: ClassicQueue, lane: int, sequence: int) -> None:
    """It is not here: it is read only if somebody wants to see it."""
    pager = queue.pager
    assert pager is not None
    if buries_expired(queue):
        if pager.exhume(queue.lanes[lane], sequence, lambda message: _exhumed(queue, lane, sequence, message)):
            queue.counters.expired += 1
        return
    size = pager.expire(queue.lanes[lane], sequence)
    if size is not None:
        queue.counters.expired += 1
        queue.release(lane, sequence, 1, size)


def _exhumed(queue: ClassicQueue, lane: int, sequence: int, message: Message | None) -> None:
    if queue.alive and message is not None:
        bury(queue, EXPIRED, [Dead(lane, sequence, message)])


def arm_expiry(queue: ClassicQueue) -> None:
    """One timer for the next death; an earlier one that is already set will look again."""
    assert queue.deadlines is not None
    soonest = queue.deadlines.next_deadline()
    if soonest == NEVER or (queue.expiry_timer is not None and queue.expiry_timer[0] <= soonest):
        return
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
