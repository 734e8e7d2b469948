"""x-max-length and x-max-length-bytes: the length limits of a queue, and the handling of messages over the limit.

Only ready messages count, and only their bodies, as in RabbitMQ (backlog/body_sizes.py). First the consumers take what
they can. If the queue is still over the limit, messages are dropped from the head or the publish is rejected, depending
on ``x-overflow``.

Queues that can reject messages are those with ``x-overflow`` reject-publish, and those that drop duplicates
(``has_room``, ``without_room``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from leveret.backlog.body_sizes import bodies_of, count_bodies
from leveret.message import Message
from leveret.queues.options import BATCH, DROP_HEAD, MAXLEN, NOWHERE, REJECT_DLX, DeadMessage
from leveret.queues.queue import Queue
from leveret.wire.content import body_size

if TYPE_CHECKING:
    from leveret.backlog.lane import Lane
    from leveret.queues.classic import ClassicQueue

BUDGET = 4096  # messages dropped in one drain, plus as many as were published since the last drain


class Limits:
    __slots__ = ("_drops", "_length", "_queue", "_size")

    def __init__(self, queue: ClassicQueue) -> None:
        options = queue.options
        self._queue = queue
        self._length = options.max_length
        self._size = options.max_bytes
        self._drops = options.overflow == DROP_HEAD
        if self._size is not None:
            count_bodies(queue)

    def _excess(self) -> tuple[int, int]:
        """The number of messages and bytes over the limits; 0 or less if the queue is within its limits."""
        messages = 0 if self._length is None else self._queue.ready - self._length
        queue, most = self._queue, self._size
        if most is None or queue.bytes - queue.held <= most:  # contents are larger than bodies
            return messages, 0
        return messages, bodies_of(queue) - most

    def has_room(self, messages: Sequence[Message], may_drain: bool) -> bool:
        """Whether all of these messages fit; consumers take what they can first."""
        if self._drops or self._fits(messages):
            return True
        queue = self._queue
        if may_drain and queue.dirty:
            queue.catch_up()
        return self._fits(messages)

    def _fits(self, messages: Sequence[Message]) -> bool:
        if self._length is not None and self._queue.ready + len(messages) > self._length:
            return False
        queue, most = self._queue, self._size
        size = sum([body_size(message[0]) for message in messages]) if most is not None else 0
        if most is None or queue.bytes - queue.held + size <= most:
            return True
        return bodies_of(queue) + size <= most

    @property
    def dead_letters(self) -> bool:
        """Whether rejected messages are dead-lettered."""
        options = self._queue.options
        return options.overflow == REJECT_DLX and options.dead_letter is not None

    def reject(self, message: Message) -> None:
        """Count a publish that was rejected; with reject-publish-dlx, dead-letter the message."""
        queue = self._queue
        queue.counters.refused += 1
        if self.dead_letters:
            queue.discard(MAXLEN, [DeadMessage(0, NOWHERE, message)])

    def enforce(self) -> None:
        if not self._drops:
            return
        queue = self._queue
        messages, size = self._excess()
        left = BUDGET + queue.arrived
        if messages > 0 and self._size is None and (queue.options.dead_letter is None or queue.options.discards):
            left -= self._drop_many(min(messages, left))
            messages, size = self._excess()
        while messages > 0 or size > 0:
            if left <= 0 or queue.frozen:
                queue.touch()  # the rest is dropped in the next tick
                return
            dropped: list[DeadMessage] = []
            while len(dropped) < BATCH and (messages > 0 or size > 0):
                lane = queue.highest_lane()
                waiting = lane.pop()
                if waiting is None:
                    break
                dropped.append(DeadMessage(lane.number, waiting[0], waiting[2]))
                messages -= 1
                size -= body_size(waiting[2][0])
            left -= len(dropped)
            if dropped:
                queue.counters.dropped += len(dropped)
                queue.discard(MAXLEN, dropped)
            elif not self._drop_paged(queue.highest_lane()):
                return
            messages, size = self._excess()

    def _drop_many(self, number: int) -> int:
        """Drop from the front of the only lane, if it has no holes and nothing is dead-lettered; returns how many."""
        queue, lane = self._queue, self._queue.lane
        if len(queue.lanes) > 1 or lane.holes or lane.returned:
            return 0
        number = min(number, len(lane.ready))
        sequence, messages = lane.take(number)
        queue.counters.dropped += number
        queue.context.discards.dropped[MAXLEN] += number
        if number:
            queue.release(lane.number, sequence, number, sum([len(message[0]) for message in messages]))
        return number

    def _drop_paged(self, lane: Lane) -> bool:
        """The head is on disk only: drop it there, or load it if it is dead-lettered or its size is needed."""
        queue = self._queue
        if queue.pager is None:
            return False
        is_sent_on = queue.options.dead_letter is not None and not queue.options.discards
        if is_sent_on or self._size is not None:
            queue.pager.fill(lane)  # touches the queue when it is loaded
            return False
        found = queue.pager.drop_first(lane)
        if found is None:
            return False
        queue.counters.dropped += 1
        queue.context.discards.dropped[MAXLEN] += 1
        queue.release(lane.number, found[0], 1, found[1])
        return True


def has_room(queue: Queue, message: Message, may_drain: bool, must_accept: bool) -> bool:
    """``may_drain``: a full queue may deliver ready messages first. ``must_accept``: a full queue accepts the message,
    unless it dead-letters rejected messages."""
    limits = queue.limits
    return limits is None or limits.has_room((message,), may_drain) or (must_accept and not limits.dead_letters)


def without_room(parts: Iterable[tuple[Sequence[Queue], Sequence[Message]]]) -> Queue | None:
    """A queue that would reject some of these messages if all were published now; None if there is none.

    Conservative: deliveries of the new messages are not considered, and a duplicate of a message in ``parts`` itself
    counts, although it would need no room.
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
