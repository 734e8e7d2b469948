"""x-consumer-timeout: how long a consumer may keep a message without settling it.

A message that is kept too long goes back as if it had been refused: counted, marked redelivered, and to a retry or the
dead letters if the queue has such. Only that message: the channel lives, and an ack that comes later is ignored. Who
works long extends the time for one message (``extend``).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from leveret.delivery.consumer import Outstanding
from leveret.queues.next_moment import NextMoment

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

SWEEP_FROM = 1024  # below this many entries a sweep is not worth its while

Lease = tuple[float, int, Outstanding, int, int]  # until, order, where they are held, first tag, number of tags


class Leases:
    __slots__ = ("_extended", "_heap", "_next", "_order", "_queue", "seconds")

    def __init__(self, queue: ClassicQueue, seconds: float) -> None:
        self.seconds: float | None = seconds
        self._queue = queue
        self._heap: list[Lease] = []
        self._order = count()
        self._extended: dict[tuple[Outstanding, int], float] = {}  # by tag: until
        self._next = NextMoment(queue.surroundings, self._look)

    def __len__(self) -> int:
        """Entries, with those of messages that were settled in time."""
        return len(self._heap)

    def opened(self, unacked: Outstanding | None, number: int) -> None:
        """The last ``number`` tags were given out for messages of this queue."""
        if self.seconds is not None and unacked is not None:
            self._add(self._queue.surroundings.now() + self.seconds, unacked, unacked.next_tag - number, number)

    def extend(self, unacked: Outstanding, tag: int, seconds: float) -> None:
        """This one may be kept for so long from now on."""
        until = self._queue.surroundings.now() + seconds
        self._extended[unacked, tag] = until
        self._add(until, unacked, tag, 1)

    def _add(self, until: float, unacked: Outstanding, first: int, number: int) -> None:
        if len(self._heap) > SWEEP_FROM and len(self._heap) > 2 * self._queue.unacked:
            self._sweep()
        heappush(self._heap, (until, next(self._order), unacked, first, number))
        self._next.no_later_than(until)

    def _sweep(self) -> None:
        """Forget what was settled long before its time is over."""
        self._heap = [lease for lease in self._heap if any(map(lease[2].holds, range(lease[3], lease[3] + lease[4])))]
        heapify(self._heap)
        self._extended = {key: until for key, until in self._extended.items() if key[0].holds(key[1])}

    def _look(self) -> None:
        now = self._queue.surroundings.now()
        while self._heap and self._heap[0][0] <= now:
            _, _, unacked, first, number = heappop(self._heap)
            for tag in range(first, first + number):
                if self._extended.get((unacked, tag), 0.0) <= now:
                    self._extended.pop((unacked, tag), None)
                    self._end(unacked, tag)
        if self._heap:
            self._next.no_later_than(self._heap[0][0])

    def _end(self, unacked: Outstanding, tag: int) -> None:
        portion = unacked.take_back(tag)
        if portion is None:
            return  # settled in time
        queue = self._queue
        queue.counters.timed_out += 1
        queue.requeue(portion.lane, portion.sequence, portion.messages, portion.tries)
        portion.holder.restore(1)

    def stop(self) -> None:
        self._next.stop()
