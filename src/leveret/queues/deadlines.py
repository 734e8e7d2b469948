"""Which waiting message dies when.

A message dies at the earlier of its own expiration and its queue's TTL, wherever in the queue it stands. Messages that
only have the queue's TTL die in the order of the lane, so looking at the front of each lane is enough for them. Those
with a deadline of their own, and those that came back, may die before what stands in front of them: each has an entry
in a heap. An entry may outlive its message (delivered meanwhile); it is then found to point at nothing and dropped, at
the latest when such entries have become the larger part of the heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, nsmallest
from math import ceil
from typing import NamedTuple

from leveret.message import NEVER, Message
from leveret.queues.lane import Lane

SWEEP_FROM = 1024  # below this many entries a sweep is not worth its while
UNLIMITED = 1 << 60
ON_DISK_AT_ONCE = 4096  # deaths of messages that are on disk only, in one collect()

SEQUENCE_BITS, PLACE_BITS = 40, 48
SEQUENCES, PLACES = (1 << SEQUENCE_BITS) - 1, (1 << PLACE_BITS) - 1


class Death(NamedTuple):
    """A message whose time was up; it has left its lane. Without the message: it may be on disk only."""

    lane: int
    sequence: int
    message: Message | None


class Watched(NamedTuple):
    """An entry, taken apart."""

    deadline: float
    lane: int
    sequence: int


class Deadlines:
    __slots__ = ("_heap", "_kept", "_lanes")

    def __init__(self, lanes: list[Lane]) -> None:
        self._lanes = lanes
        self._heap: list[int] = []
        self._kept = 0  # entries that the last sweep could not drop: what is on disk only may be gone, unseen from here

    def __len__(self) -> int:
        """Entries, with those that point at nothing."""
        return len(self._heap)

    def watch(self, lane: int, sequence: int, deadline: float) -> None:
        """This one may die out of turn."""
        if deadline != NEVER:
            heappush(self._heap, packed(deadline, lane, sequence))

    def collect(self, now: float, on_disk: int = ON_DISK_AT_ONCE, most: int = UNLIMITED) -> list[Death]:
        """Take out what is due and was offered to the consumers at least once (TTL 0 waits for that).

        With ``most`` of them, or ``on_disk`` that are on disk only, the rest waits for the next call.
        """
        self._kept = min(self._kept, len(self._heap))
        if len(self._heap) > SWEEP_FROM and len(self._heap) > 2 * max(sum(map(len, self._lanes)), self._kept):
            self.sweep()
        deaths: list[Death] = []
        for lane in self._lanes:
            self._collect_front(lane, now, deaths, most)
        later = []
        heap, due = self._heap, packed(now, 0xFF, SEQUENCES)
        while heap and heap[0] <= due and len(deaths) < most:
            place = heap[0] & PLACES
            lane, sequence = self._lanes[place >> SEQUENCE_BITS], place & SEQUENCES
            if lane.attempted <= sequence:
                later.append(heap[0])
            elif lane.is_paged(sequence):
                if not on_disk:
                    break
                on_disk -= 1
                deaths.append(Death(lane.number, sequence, None))
            elif waiting := lane.cut_out(sequence):
                deaths.append(Death(lane.number, sequence, waiting[2]))
            heappop(heap)
        for entry in later:
            heappush(heap, entry)
        return deaths

    def _collect_front(self, lane: Lane, now: float, deaths: list[Death], most: int) -> None:
        """Of what came back, and of the rest: one may be immortal and stand before the other."""
        returned, ready, number = lane.returned, lane.ready, lane.number
        while returned and returned[0][2][2].deadline <= now and len(deaths) < most:
            sequence, _, message = heappop(returned)
            deaths.append(Death(number, sequence, message))
        while len(deaths) < most:
            if lane.holes:
                lane.strip()
            if not ready or ready[0][2].deadline > now or lane.head >= lane.attempted:
                return
            deaths.append(Death(number, lane.head, ready.popleft()))
            lane.head += 1

    def sweep(self) -> None:
        """Drop the entries of messages that are not waiting any more; unacked ones get a new one on return."""
        waiting = {lane.number << SEQUENCE_BITS | sequence for lane in self._lanes for sequence, _, _ in lane}
        kept = {entry for entry in self._heap if entry & PLACES in waiting or self._is_paged(entry)}
        self._heap = list(kept)  # each once, however often its message came back
        heapify(self._heap)
        self._kept = len(self._heap)

    def _is_paged(self, entry: int) -> bool:
        place = entry & PLACES
        return self._lanes[place >> SEQUENCE_BITS].is_paged(place & SEQUENCES)

    def next_deadline(self) -> float:
        """When collect() will have something to do."""
        soonest = (self._heap[0] >> PLACE_BITS) / 1e6 if self._heap else NEVER
        for lane in self._lanes:
            lane.strip()
            if lane.returned:
                soonest = min(soonest, lane.returned[0][2][2].deadline)
            if lane.ready:
                soonest = min(soonest, lane.ready[0][2].deadline)
        return soonest

    def soonest(self, most: int, after: int | None = None) -> list[int]:
        """The entries that come first, behind the entry ``after``; looks at all of them once."""
        if after is None:
            return nsmallest(most, self._heap)
        return nsmallest(most, (entry for entry in self._heap if entry > after))


def packed(deadline: float, lane: int, sequence: int) -> int:
    return ceil(deadline * 1e6) << PLACE_BITS | lane << SEQUENCE_BITS | sequence


def unpacked(entry: int) -> Watched:
    place = entry & PLACES
    return Watched((entry >> PLACE_BITS) / 1e6, place >> SEQUENCE_BITS, place & SEQUENCES)
