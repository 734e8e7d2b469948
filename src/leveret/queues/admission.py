"""Queues that can reject: full ones with ``x-overflow`` reject-publish, and those that drop duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leveret.message import Message
from leveret.queues.queue import Queue


def has_room(queue: Queue, message: Message, may_drain: bool, must_accept: bool) -> bool:
    """``may_drain``: a full queue may first deliver what it has. ``must_accept``: a full queue has room all the same,
    unless it dead-letters what it rejects."""
    limits = queue.limits
    return limits is None or limits.has_room((message,), may_drain) or (must_accept and not limits.dead_letters)


def without_room(parts: Iterable[tuple[Sequence[Queue], Sequence[Message]]]) -> Queue | None:
    """A queue that would reject some of these messages if they all came now; None if each accepts its own.

    Cautious: consumers take what waits, not what would come; and a duplicate of a message in ``parts`` itself is
    counted, though it would need no room.
    """
    wanted: dict[Queue, list[Message]] = {}
    for queues, messages in parts:
        for queue in queues:
            if queue.can_reject and queue.limits is not None:
                seen = queue.duplicates
                fresh = [message for message in messages if seen is None or not seen.has_seen(message)]
                wanted.setdefault(queue, []).extend(fresh)
    for may_drain in (True, False):  # a drain may dead-letter to a queue that was checked before
        for queue, fresh in wanted.items():
            assert queue.limits is not None
            if fresh and not queue.limits.has_room(fresh, may_drain):
                return queue
    return None
