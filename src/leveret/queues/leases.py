"""x-consumer-timeout: how long a consumer may keep a message without settling it.

A message that is kept too long goes back as if it had been refused: counted, marked redelivered, and to a retry or the
dead letters if the queue has such. Only that message: the channel lives, and an ack that comes later is ignored. Who
works long extends the time for one message (``extend``).
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from leveret.delivery.consumer import Holder
from leveret.message import NEVER
from leveret.queues.surroundings import Cancellable

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

Lease = tuple[float, int, Holder, int, int, int, int]  # until, order, who, lane, sequence, number, tries


class Leases:
    __slots__ = ("_extended", "_heap", "_order", "_queue", "_timer", "seconds")

    def __init__(self, queue: ClassicQueue, seconds: float) -> None:
        self.seconds: float | None = seconds
        self._queue = queue
        self._heap: list[Lease] = []
        self._order = count()
        self._extended: dict[tuple[int, int, int], float] = {}  # (lane, sequence, tries): until
        self._timer: tuple[float, Cancellable] | None = None

    def opened(self, holder: Holder, lane: int, sequence: int, number: int, tries: int) -> None:
        """These were given to the holder now, after they had come back ``tries`` times."""
        if self.seconds is not None:
            until = self._queue.surroundings.now() + self.seconds
            heappush(self._heap, (until, next(self._order), holder, lane, sequence, number, tries))
            self._arm()

    def extend(self, holder: Holder, lane: int, sequence: int, tries: int, seconds: float) -> None:
        """The holder may keep this one for so long from now on."""
        until = self._queue.surroundings.now() + seconds
        self._extended[lane, sequence, tries] = until
        heappush(self._heap, (until, next(self._order), holder, lane, sequence, 1, tries))
        self._arm()

    def _arm(self) -> None:
        soonest = self._heap[0][0] if self._heap else NEVER
        if soonest == NEVER or (self._timer is not None and self._timer[0] <= soonest):
            return
        self.stop()
        self._timer = (soonest, self._queue.surroundings.schedule(soonest, self._look))

    def _look(self) -> None:
        self._timer = None
        now = self._queue.surroundings.now()
        while self._heap and self._heap[0][0] <= now:
            _, _, holder, lane, sequence, number, tries = heappop(self._heap)
            for place in range(sequence, sequence + number):
                if self._extended.get((lane, place, tries), 0.0) <= now:
                    self._extended.pop((lane, place, tries), None)
                    self._end(holder, lane, place, tries)
        self._arm()

    def _end(self, holder: Holder, lane: int, sequence: int, tries: int) -> None:
        portion = holder.take_back(lane, sequence, tries)
        if portion is None:
            return  # settled in time
        queue = self._queue
        queue.counters.timed_out += 1
        queue.requeue(lane, sequence, portion.messages, portion.tries)
        holder.restore(1)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
