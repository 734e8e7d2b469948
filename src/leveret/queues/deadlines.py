"""Which waiting message dies when.

A message dies at the earlier of its own expiration and its queue's TTL, wherever in the queue it stands. Messages that
only have the queue's TTL die in the order of the lane, so looking at the front of each lane is enough for them. Those
with a deadline of their own, and those that came back, may die before what stands in front of them: each has an entry
in a heap. An entry may outlive its message (delivered meanwhile); it is then found to point at nothing and dropped, at
the latest when such entries have become the larger part of the heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from leveret.message import NEVER, Message
from leveret.queues.lane import Lane

SWEEP_FROM = 1024  # below this many entries a sweep is not worth its while


class Death(NamedTuple):
    """A message whose time was up; it has left its lane. Without the message: it may be on disk only."""

    lane: int
    sequence: int
    message: Message | None


class Deadlines:
    __slots__ = ("_heap", "_lanes")

    def __init__(self, lanes: list[Lane]) -> None:
        self._lanes = lanes
        self._heap: list[tuple[float, int, int]] = []  # deadline, lane, sequence

    def __len__(self) -> int:
        """Entries, with those that point at nothing."""
        return len(self._heap)

    def watch(self, lane: int, sequence: int, deadline: float) -> None:
        """This one may die out of turn."""
        heappush(self._heap, (deadline, lane, sequence))

    def collect(self, now: float) -> list[Death]:
        """Take out everything that is due and was offered to the consumers at least once (TTL 0 waits for that)."""
        if len(self._heap) > SWEEP_FROM and len(self._heap) > 2 * sum(map(len, self._lanes)):
            self.sweep()
        deaths: list[Death] = []
        for lane in self._lanes:
            self._collect_front(lane, now, deaths)
        later = []
        while self._heap and self._heap[0][0] <= now:
            entry = heappop(self._heap)
            lane = self._lanes[entry[1]]
            if lane.attempted <= entry[2]:
                later.append(entry)
            elif lane.is_paged(entry[2]):
                deaths.append(Death(lane.number, entry[2], None))
            elif waiting := lane.cut_out(entry[2]):
                deaths.append(Death(lane.number, entry[2], waiting[2]))
        for entry in later:
            heappush(self._heap, entry)
        return deaths

    def _collect_front(self, lane: Lane, now: float, deaths: list[Death]) -> None:
        while (first := lane.first()) is not None:
            sequence, _, message = first
            if message[2].deadline > now or sequence >= lane.attempted:
                return
            lane.pop()
            deaths.append(Death(lane.number, sequence, message))

    def sweep(self) -> None:
        """Drop the entries of messages that are not waiting any more; unacked ones get a new one on return."""
        waiting = {(lane.number, sequence) for lane in self._lanes for sequence, _, _ in lane}
        lanes = self._lanes
        kept = {entry for entry in self._heap if entry[1:] in waiting or lanes[entry[1]].is_paged(entry[2])}
        self._heap = list(kept)  # each once, however often its message came back
        heapify(self._heap)

    def next_deadline(self) -> float:
        """When collect() will have something to do."""
        soonest = self._heap[0][0] if self._heap else NEVER
        for lane in self._lanes:
            first = lane.first()
            if first is not None and first[2][2].deadline < soonest:
                soonest = first[2][2].deadline
        return soonest
