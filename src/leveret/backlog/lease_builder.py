"""Takes messages of a queue for a lease, whose messages are read without a consumer (Spark).

Theory of operation. A lease takes messages as a consumer would, in the order of delivery, and stores only their
numbers: *runs* of consecutive sequences. All of them are in the journal (persistent, in a durable queue, granted), so
the reader reads them there. Messages on disk only are leased without being read, unless an option of the queue requires
a check of each message (``Pager.may_take_unread``).

All other code treats leased messages as unacknowledged: they count as such, and limits, deadlines and purges do not
affect them. The end of a lease is in lease_release.py.
"""

from __future__ import annotations

from enum import Enum, auto
from heapq import heappop
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from leveret.store.pages import Stretch

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog
    from leveret.backlog.lane import Lane
    from leveret.backlog.pager import Pager

STEP = 8_000  # messages that are taken in one tick


class LeasedRun(NamedTuple):
    lane: int
    sequence: int
    number: int
    redelivered: bool


class Next(Enum):
    """Why a step ended."""

    MORE = auto()  # there is more to take, in the next tick
    FULL = auto()
    EMPTY = auto()
    TRANSIENT = auto()  # the first message is not on disk, and will not be written
    UNSYNCED = auto()  # the first message is not on disk yet
    UNREAD = auto()  # the first message must be loaded first: ``Pager.when_loaded``


class LeaseBuilder:
    """Collects the messages of a new lease. They have left the queue, so the caller must create the lease."""

    __slots__ = ("_most", "_most_bytes", "_next", "_queue", "number", "runs", "size")

    def __init__(self, queue: Backlog, most: int, most_bytes: int) -> None:
        self._queue = queue
        self._most = most
        self._most_bytes = most_bytes
        self._next: Next | None = None
        self.runs: list[LeasedRun] = []
        self.number = 0
        self.size = 0

    def step(self) -> Next:
        """Take some messages, in the order in which they would be delivered."""
        queue = self._queue
        if not queue.alive or queue.pager is None:
            return Next.EMPTY
        queue.settle_down()
        if queue.is_paused:
            return Next.EMPTY
        pager, leases = queue.pager, queue.pager.lease_ranges()
        number, size = self.number, self.size
        until = number + STEP
        self._next = None
        while self._next is None:
            lane = queue.highest_lane()
            if self.number >= min(self._most, until):
                self._next = Next.FULL if self.number >= self._most else Next.MORE
            elif not len(lane):
                self._next = Next.EMPTY
            else:
                self._take(lane, min(self._most, until) - self.number, pager)
        number, size = self.number - number, self.size - size
        queue.unacked += number
        queue.held += size
        queue.counters.delivered += number
        leases.number += number
        leases.bytes += size
        queue.account()
        pager.refill()
        return self._next

    def _take(self, lane: Lane, most: int, pager: Pager) -> None:
        """Take from the front of one lane; sets ``_next`` if the step is over."""
        lane.strip()
        synced = pager.pages.synced(self._queue.id, lane.number)
        if lane.returned:
            self._take_returned(lane, most, synced)
        elif lane.ready:
            self._take_ready(lane, most, synced)
        else:
            self._take_unread(lane, most, pager)

    def _take_returned(self, lane: Lane, most: int, synced: int) -> None:
        returned = lane.returned
        first, number, size = returned[0][0], 0, 0
        while returned and number < most and returned[0][0] == first + number:
            sequence, _, (content, _, traits) = returned[0]
            if not traits.persistent:
                self._next = Next.TRANSIENT
            elif sequence >= synced:
                self._next = Next.UNSYNCED
            elif self._fits(size + len(content), bool(number)):
                heappop(returned)
                number += 1
                size += len(content)
            if self._next is not None:
                break
        if number:
            self._took(lane.number, first, number, size, True)

    def _take_ready(self, lane: Lane, most: int, synced: int) -> None:
        number = size = 0
        for content, _, traits in islice(lane.ready, max(min(lane.stretch(most), synced - lane.head), 0)):
            if not traits.persistent:
                self._next = Next.TRANSIENT
                break
            if not self._fits(size + len(content), bool(number)):
                break
            number += 1
            size += len(content)
        if not number:
            self._next = self._next or (Next.TRANSIENT if self._is_transient(lane) else Next.UNSYNCED)
            return
        sequence, _ = lane.take(number)
        self._took(lane.number, sequence, number, size, False)

    def _is_transient(self, lane: Lane) -> bool:
        return not lane.ready[0][2].persistent

    def _take_unread(self, lane: Lane, most: int, pager: Pager) -> None:
        """Take from the part of the lane that is on disk only, when no message of the lane is in memory."""
        if not lane.paged or not pager.may_take_unread(lane):
            pager.fill(lane)
            if lane.is_empty_here:
                self._next = Next.UNREAD
            return
        found = pager.next_stretch(lane, lane.page_start)
        if found is None:
            pager.lose_rest(lane)
            return
        first, stop = found
        left = max(self._most_bytes - self.size, 1)
        for stretch in pager.pages.stretches(self._queue.id, lane.number, first, min(stop, first + most), left):
            if stretch.is_spilled:
                self._next = Next.TRANSIENT
            elif self._fits(stretch.size):
                pager.take_unread(lane, stretch)
                self._took_unread(lane, stretch)
            if self._next is not None:
                return

    def _took_unread(self, lane: Lane, stretch: Stretch) -> None:
        sequence, number, size, _ = stretch
        before = min(max(lane.redelivered_below - sequence, 0), number)
        if before:
            self._took(lane.number, sequence, before, size * before // number, True)
        if before < number:
            self._took(lane.number, sequence + before, number - before, size - size * before // number, False)

    def _fits(self, size: int, is_not_first: bool = False) -> bool:
        """Whether this many more bytes fit; a single message always fits."""
        if self.size + size <= self._most_bytes or not (self.number or is_not_first):
            return True
        self._next = Next.FULL
        return False

    def _took(self, lane: int, sequence: int, number: int, size: int, redelivered: bool) -> None:
        self.number += number
        self.size += size
        if self.runs:
            last = self.runs[-1]
            if (last.lane, last.sequence + last.number, last.redelivered) == (lane, sequence, redelivered):
                self.runs[-1] = LeasedRun(lane, last.sequence, last.number + number, redelivered)
                return
        self.runs.append(LeasedRun(lane, sequence, number, redelivered))
