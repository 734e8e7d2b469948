"""The expiry times of waiting messages.

A message expires at the earlier of its own expiration and its queue's TTL, at any place in the queue. Messages that
only have the queue's TTL expire in the order of the lane, so checking the front of each lane is enough for them; the
same is true for each message that expires no earlier than all messages before it in its lane. ``Lane.in_turn`` is the
latest deadline up to which that holds; a message without a deadline makes it infinite until the lane is empty again.
Messages that may expire before those in front of them, and requeued messages, have an entry in a heap. An entry
may remain after its message was delivered; such entries are dropped when they reach the top of the heap, at the latest
when they have become the larger part of the heap.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, nsmallest
from math import ceil
from typing import NamedTuple

from leveret.backlog.lane import Lane
from leveret.message import NEVER, Message, Traits

SWEEP_FROM = 1024  # entries; sweeping fewer is not worth the cost
UNLIMITED = 1 << 60
ON_DISK_AT_ONCE = 4096  # messages on disk only that expire in one collect()

SEQUENCE_BITS, PLACE_BITS = 40, 48
SEQUENCES, PLACES = (1 << SEQUENCE_BITS) - 1, (1 << PLACE_BITS) - 1


class Expired(NamedTuple):
    """An expired message that has left its lane. ``message`` is None if it may be on disk only."""

    lane: int
    sequence: int
    message: Message | None


class Watched(NamedTuple):
    """An unpacked entry of the heap."""

    deadline: float
    lane: int
    sequence: int


class Deadlines:
    __slots__ = ("_heap", "_kept", "_lanes", "_watches_all")

    def __init__(self, lanes: list[Lane], watches_all: bool = False) -> None:
        """Messages that are already in the lanes do not expire, or have an entry."""
        self._lanes = lanes
        self._watches_all = watches_all  # every deadline gets an entry
        for lane in lanes:
            lane.in_turn = NEVER if len(lane) else 0.0
        self._heap: list[int] = []
        self._kept = 0  # entries that the last sweep could not drop, because their messages are on disk only

    def __len__(self) -> int:
        """The number of entries, including those whose message is gone."""
        return len(self._heap)

    def watch(self, lane: int, sequence: int, deadline: float) -> None:
        """Add an entry for a message that may expire before others in front of it."""
        if deadline != NEVER:
            heappush(self._heap, packed(deadline, lane, sequence))

    def extend(self, lane: Lane, run: list[Message]) -> None:
        """Append a run to a lane, with an entry for each message that expires before one in front of it."""
        sequence = lane.tail
        in_turn = lane.in_turn if len(lane) else 0.0
        if self._watches_all:
            in_turn = NEVER
        last: Traits | None = None
        deadline, is_early = 0.0, False
        for traits in [message[2] for message in run]:
            if traits is not last:
                last, deadline = traits, traits.deadline
                is_early = deadline < in_turn
                if not is_early:
                    in_turn = deadline
            if is_early:
                self.watch(lane.number, sequence, deadline)
            sequence += 1
        lane.in_turn = in_turn
        lane.incoming.extend(run)

    def collect(self, now: float, on_disk: int = ON_DISK_AT_ONCE, most: int = UNLIMITED) -> list[Expired]:
        """Remove messages that are due and were offered to the consumers at least once (TTL 0 waits for that).

        Stops at ``most`` messages, or at ``on_disk`` messages that are on disk only; the next call continues.
        """
        self._kept = min(self._kept, len(self._heap))
        if len(self._heap) > SWEEP_FROM and len(self._heap) > 2 * max(sum(map(len, self._lanes)), self._kept):
            self.sweep()
        expired: list[Expired] = []
        for lane in self._lanes:
            self._collect_front(lane, now, expired, most)
        later = []
        heap, due = self._heap, packed(now, 0xFF, SEQUENCES)
        while heap and heap[0] <= due and len(expired) < most:
            place = heap[0] & PLACES
            lane, sequence = self._lanes[place >> SEQUENCE_BITS], place & SEQUENCES
            if lane.attempted <= sequence:
                later.append(heap[0])
            elif lane.is_paged(sequence):
                if not on_disk:
                    break
                on_disk -= 1
                expired.append(Expired(lane.number, sequence, None))
            elif waiting := lane.cut_out(sequence):
                expired.append(Expired(lane.number, sequence, waiting[2]))
            heappop(heap)
        for entry in later:
            heappush(heap, entry)
        return expired

    def _collect_front(self, lane: Lane, now: float, expired: list[Expired], most: int) -> None:
        """Collect from ``returned`` and from ``ready``: a message without a deadline in one must not hide the other."""
        returned, ready, number = lane.returned, lane.ready, lane.number
        while returned and returned[0][2][2].deadline <= now and len(expired) < most:
            sequence, _, message = heappop(returned)
            expired.append(Expired(number, sequence, message))
        while len(expired) < most:
            if lane.holes:
                lane.strip()
            if not ready or ready[0][2].deadline > now or lane.head >= lane.attempted:
                return
            expired.append(Expired(number, lane.head, ready.popleft()))
            lane.head += 1

    def sweep(self) -> None:
        """Drop entries of messages that no longer wait; unacknowledged messages get a new entry when they return."""
        waiting = {lane.number << SEQUENCE_BITS | sequence for lane in self._lanes for sequence, _, _ in lane}
        kept = {entry for entry in self._heap if entry & PLACES in waiting or self._is_paged(entry)}
        self._heap = list(kept)  # one entry for each message, however often it was requeued
        heapify(self._heap)
        self._kept = len(self._heap)

    def _is_paged(self, entry: int) -> bool:
        place = entry & PLACES
        return self._lanes[place >> SEQUENCE_BITS].is_paged(place & SEQUENCES)

    def next_deadline(self) -> float:
        """The next time at which collect() has something to do."""
        soonest = (self._heap[0] >> PLACE_BITS) / 1e6 if self._heap else NEVER
        for lane in self._lanes:
            lane.strip()
            if lane.returned:
                soonest = min(soonest, lane.returned[0][2][2].deadline)
            if lane.ready:
                soonest = min(soonest, lane.ready[0][2].deadline)
        return soonest

    def soonest(self, most: int, after: int | None = None) -> list[int]:
        """The first entries, or the first entries after the entry ``after``; scans all entries once."""
        if after is None:
            return nsmallest(most, self._heap)
        return nsmallest(most, (entry for entry in self._heap if entry > after))


def packed(deadline: float, lane: int, sequence: int) -> int:
    return ceil(deadline * 1e6) << PLACE_BITS | lane << SEQUENCE_BITS | sequence


def unpacked(entry: int) -> Watched:
    place = entry & PLACES
    return Watched((entry >> PLACE_BITS) / 1e6, place >> SEQUENCE_BITS, place & SEQUENCES)
