"""x-max-length and x-max-length-bytes: how much may wait in a queue, and what happens to the rest.

Only what is ready counts, as in RabbitMQ. Bytes are those of bodies and properties; the frames around them do not
count. What is too much is dropped from the head, after consumers had their chance; or the publisher is refused, if the
queue is full even after they had it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.message import Message
from leveret.queues.dying import MAXLEN, Dead, bury
from leveret.queues.options import DROP_HEAD

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane

FRAMES = 30  # bytes of a stored content that are neither body nor properties
BATCH = 256  # deaths at a time: each batch is one group of the log


class Limits:
    __slots__ = ("_drops", "_length", "_queue", "_size")

    def __init__(self, queue: ClassicQueue) -> None:
        options = queue.options
        self._queue = queue
        self._length = options.max_length
        self._size = options.max_bytes
        self._drops = options.overflow == DROP_HEAD

    def _bytes(self, ready: int) -> int:
        return self._queue.bytes - self._queue.held - FRAMES * ready

    def _is_over(self) -> bool:
        ready = self._queue.ready
        if not ready:
            return False
        if self._length is not None and ready > self._length:
            return True
        return self._size is not None and self._bytes(ready) > self._size

    def has_room(self, message: Message, may_drain: bool) -> bool:
        """Whether one more fits; consumers take what they can first."""
        if self._drops or self._fits(message):
            return True
        queue = self._queue
        if may_drain and queue.dirty:
            queue.catch_up()
        return self._fits(message)

    def _fits(self, message: Message) -> bool:
        ready = self._queue.ready
        if self._length is not None and ready >= self._length:
            return False
        return self._size is None or self._bytes(ready) + len(message[0]) - FRAMES <= self._size

    def enforce(self) -> None:
        if not self._drops:
            return
        queue = self._queue
        while self._is_over():
            deaths: list[Dead] = []
            while len(deaths) < BATCH and self._is_over():
                lane = queue.highest_lane()
                waiting = lane.pop()
                if waiting is None:
                    break
                sequence, _, message = waiting
                deaths.append(Dead(lane.number, sequence, message))
                queue.held += len(message[0])  # counted as gone, until it is
            for dead in deaths:
                queue.held -= len(dead.message[0])
            if deaths:
                queue.counters.dropped += len(deaths)
                bury(queue, MAXLEN, deaths)
            elif not self._drop_paged(queue.highest_lane()):
                return

    def _drop_paged(self, lane: Lane) -> bool:
        """The head is on disk only: it dies there, or is brought here to be sent on."""
        queue = self._queue
        if queue.pager is None:
            return False
        if queue.options.dead_letter is not None and not queue.options.discards:
            queue.pager.fill(lane)  # touches the queue when it is here
            return False
        found = queue.pager.drop_first(lane)
        if found is None:
            return False
        queue.counters.dropped += 1
        queue.release(lane.number, found[0], 1, found[1])
        return True
