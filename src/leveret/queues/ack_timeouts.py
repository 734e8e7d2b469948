"""x-consumer-timeout: how long a consumer may keep a message without acknowledging it.

A message that is kept too long is requeued as if it had been nacked: counted, marked redelivered, and delayed or
dead-lettered if the queue is configured for that. Only that message is affected: the channel stays open, and a later
ack is ignored. A consumer can extend the timeout of one message (``extend``).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from leveret.backlog.context import NextTimer
from leveret.delivery.consumer import Outstanding

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

SWEEP_FROM = 1024  # entries; sweeping fewer is not worth the cost

Entry = tuple[float, int, Outstanding, int, int]  # until, order, holder, first tag, number of tags


class AckTimeouts:
    __slots__ = ("_extended", "_heap", "_next", "_order", "_queue", "seconds")

    def __init__(self, queue: ClassicQueue, seconds: float) -> None:
        self.seconds: float | None = seconds
        self._queue = queue
        self._heap: list[Entry] = []
        self._order = count()
        self._extended: dict[tuple[Outstanding, int], float] = {}  # by holder and tag: the new deadline
        self._next = NextTimer(queue.context, self._check)

    def __len__(self) -> int:
        """The number of entries, including those of messages that were settled in time."""
        return len(self._heap)

    def opened(self, unacked: Outstanding | None, number: int) -> None:
        """The last ``number`` delivery tags belong to messages of this queue."""
        if self.seconds is not None and unacked is not None:
            self._add(self._queue.context.now() + self.seconds, unacked, unacked.next_tag - number, number)

    def extend(self, unacked: Outstanding, tag: int, seconds: float) -> None:
        """Extend the timeout of one message to ``seconds`` from now."""
        until = self._queue.context.now() + seconds
        self._extended[unacked, tag] = until
        self._add(until, unacked, tag, 1)

    def _add(self, until: float, unacked: Outstanding, first: int, number: int) -> None:
        if len(self._heap) > SWEEP_FROM and len(self._heap) > 2 * self._queue.unacked:
            self._sweep()
        heappush(self._heap, (until, next(self._order), unacked, first, number))
        self._next.no_later_than(until)

    def _sweep(self) -> None:
        """Remove the entries of messages that were settled."""
        self._heap = [entry for entry in self._heap if any(map(entry[2].holds, range(entry[3], entry[3] + entry[4])))]
        heapify(self._heap)
        self._extended = {key: until for key, until in self._extended.items() if key[0].holds(key[1])}

    def _check(self) -> None:
        now = self._queue.context.now()
        while self._heap and self._heap[0][0] <= now:
            _, _, unacked, first, number = heappop(self._heap)
            for tag in range(first, first + number):
                if self._extended.get((unacked, tag), 0.0) <= now:
                    self._extended.pop((unacked, tag), None)
                    self._time_out(unacked, tag)
        if self._heap:
            self._next.no_later_than(self._heap[0][0])

    def _time_out(self, unacked: Outstanding, tag: int) -> None:
        portion = unacked.take_back(tag)
        if portion is None:
            return  # settled in time
        queue = self._queue
        queue.counters.timed_out += 1
        queue.requeue(portion.lane, portion.sequence, portion.messages, portion.tries)
        portion.holder.restore(1)

    def stop(self) -> None:
        self._next.stop()
