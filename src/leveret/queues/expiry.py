"""The deaths of a queue's messages: burying those whose time is up, and one timer for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.message import NEVER, Message

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


def bury_expired(queue: ClassicQueue) -> None:
    assert queue.deadlines is not None
    for lane, sequence, message in queue.deadlines.collect(queue.surroundings.now()):
        size: int | None
        if message is not None:
            size = len(message[0])
        else:
            assert queue.pager is not None
            size = queue.pager.expire(queue.lanes[lane], sequence)
        if size is not None:
            queue.counters.expired += 1
            queue.release(lane, sequence, 1, size)


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
