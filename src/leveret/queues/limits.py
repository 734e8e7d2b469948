"""x-max-length and x-max-length-bytes: how much may wait in a queue, and what happens to the rest.

Only what is ready counts, and of that only bodies, as in RabbitMQ (queues/bodies.py). What is too much is dropped from
the head, after consumers had their chance; or the publisher is refused, if the queue is full even after they had it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leveret.message import Message
from leveret.queues.bodies import bodies_of, count_bodies
from leveret.queues.dying import BATCH, MAXLEN, Dead, bury
from leveret.queues.options import DROP_HEAD
from leveret.wire.content import body_size

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane

BUDGET = 4096  # in one drain, beside as many as have come since the last


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
        """How many messages, and how many bytes, are too many; 0 or less if none."""
        messages = 0 if self._length is None else self._queue.ready - self._length
        queue, most = self._queue, self._size
        if most is None or queue.bytes - queue.held <= most:  # contents are larger than bodies
            return messages, 0
        return messages, bodies_of(queue) - most

    def has_room(self, messages: Sequence[Message], may_drain: bool) -> bool:
        """Whether these fit together; consumers take what they can first."""
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
            if left <= 0:
                queue.touch()  # the rest in the next turn
                return
            deaths: list[Dead] = []
            while len(deaths) < BATCH and (messages > 0 or size > 0):
                lane = queue.highest_lane()
                waiting = lane.pop()
                if waiting is None:
                    break
                deaths.append(Dead(lane.number, waiting[0], waiting[2]))
                messages -= 1
                size -= body_size(waiting[2][0])
            left -= len(deaths)
            if deaths:
                queue.counters.dropped += len(deaths)
                bury(queue, MAXLEN, deaths)
            elif not self._drop_paged(queue.highest_lane()):
                return
            messages, size = self._excess()

    def _drop_many(self, number: int) -> int:
        """Off the front of the only lane, where nothing is in the way and nobody wants to see them: how many."""
        queue, lane = self._queue, self._queue.lane
        if len(queue.lanes) > 1 or lane.holes or lane.returned:
            return 0
        number = min(number, len(lane.ready))
        size = sum([len(lane.ready.popleft()[0]) for _ in range(number)])
        lane.head += number
        queue.counters.dropped += number
        if number:
            queue.release(lane.number, lane.head - number, number, size)
        return number

    def _drop_paged(self, lane: Lane) -> bool:
        """The head is on disk only: it dies there, or is brought here to be sent on, or to know what it frees."""
        queue = self._queue
        if queue.pager is None:
            return False
        is_sent_on = queue.options.dead_letter is not None and not queue.options.discards
        if is_sent_on or self._size is not None:
            queue.pager.fill(lane)  # touches the queue when it is here
            return False
        found = queue.pager.drop_first(lane)
        if found is None:
            return False
        queue.counters.dropped += 1
        queue.release(lane.number, found[0], 1, found[1])
        return True
