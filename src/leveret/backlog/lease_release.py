"""Ends a lease: its messages are settled, or return to their places. Also restores leases after a restart.

To return, messages are read from disk. This is not needed while they are still in the paged stretch of their lane,
where they were only excluded (lease_ranges.py). Both can take many ticks, so both are background tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from leveret.backlog.lease_builder import LeasedRun
from leveret.backlog.pager import EVERYTHING
from leveret.store.pages import Loaded, Pages
from leveret.store.returns import unpack_return

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog
    from leveret.backlog.lane import Lane

STEP = 8_000  # messages that are settled in one tick
READ_BYTES = 256 << 10  # content that is returned in one tick
RUNS_AT_ONCE = 256  # runs that are returned in one tick without being read


def restore_lease(queue: Backlog, runs: Iterable[LeasedRun]) -> tuple[int, int]:
    """Exclude messages leased before the restart, before anything is delivered; returns their number and bytes."""
    pager = queue.pager
    assert pager is not None
    leases = pager.lease_ranges()
    total = size = 0
    ranges: dict[int, list[tuple[int, int]]] = {}
    for run in runs:
        stop = run.sequence + run.number
        lane = queue.lanes[min(run.lane, len(queue.lanes) - 1)]
        number, bytes_ = pager.withhold(lane, run.sequence, stop)
        total += number
        size += bytes_
        ranges.setdefault(lane.number, []).append((run.sequence, stop))
    for lane_number, some in ranges.items():
        leases.add(lane_number, some)
    queue.unacked += total
    queue.held += size
    leases.number += total
    leases.bytes += size
    return total, size


# ---- settled


class LeaseSettlement:
    """A background task that settles leased messages, a step at a time. ``over`` is called once."""

    def __init__(
        self, queue: Backlog, runs: Iterable[LeasedRun], number: int, size: int, over: Callable[[], None]
    ) -> None:
        self._queue = queue
        self._left = deque(runs)
        self._books = Share(queue, number, size)
        self._over = over

    def step(self) -> bool:
        queue, room = self._queue, STEP
        while self._left and room and queue.alive:
            run = self._left.popleft()
            number = min(run.number, room)
            room -= number
            if number < run.number:
                self._left.appendleft(run._replace(sequence=run.sequence + number, number=run.number - number))
            queue.counters.acked += number
            queue.release(run.lane, run.sequence, number, self._books.let_go(number))
        if self._left and queue.alive:
            return True
        self._books.close()
        queue.touch()
        self._over()
        return False


class Share:
    """The part of the queue's unacknowledged messages that a lease still has. The sizes of single messages are
    unknown."""

    def __init__(self, queue: Backlog, number: int, size: int) -> None:
        assert queue.pager is not None
        self._queue = queue
        self._leases = queue.pager.lease_ranges()
        self.number = number
        self.size = size

    def let_go(self, number: int) -> int:
        """This many messages are no longer leased; returns their bytes."""
        number = min(number, self.number)
        size = self.size * number // self.number if number else 0
        self._subtract(number, size)
        return size

    def close(self) -> None:
        """Release the rest: the other messages were not found."""
        if self.number and self._queue.alive:
            self._queue.bytes -= self.size
            self._subtract(self.number, self.size)

    def _subtract(self, number: int, size: int) -> None:
        queue, leases = self._queue, self._leases
        self.number -= number
        self.size -= size
        queue.unacked -= number
        queue.held -= size
        leases.number -= number
        leases.bytes -= size


# ---- returned


class LeaseReturn:
    """A background task that returns leased messages to their places. It is started again by each read from disk.
    ``over`` is called once, with their number."""

    def __init__(
        self,
        queue: Backlog,
        runs: Iterable[LeasedRun],
        number: int,
        size: int,
        send: Callable[[LeaseReturn], None],
        over: Callable[[int], None],
    ) -> None:
        assert queue.pager is not None
        self._queue = queue
        self._pager = queue.pager
        self._left = deque(runs)
        self._books = Share(queue, number, size)
        self._given = 0
        self._send = send
        self._over = over

    def step(self) -> bool:
        for _ in range(RUNS_AT_ONCE):
            if not self._left or not self._queue.alive:
                self._books.close()
                self._queue.touch()
                self._over(self._given)
                return False
            if not self._go_on(self._left[0]):
                return False
        return True

    def _go_on(self, run: LeasedRun) -> bool:
        """Whether the run is returned completely; otherwise it waits for the disk."""
        queue, pager, stop = self._queue, self._pager, run.sequence + run.number
        lane = queue.lanes[run.lane]
        if lane.page_start <= run.sequence and pager.lease_ranges().holds(lane.number, run.sequence, stop):
            if pager.is_loading(lane) and pager.when_loaded(lambda: self._send(self)):
                return False  # messages that are being read must not end up in front of these
            if stop <= lane.page_stop:
                self._left.popleft()
                self._return_unread(lane, run, stop)
                return True
        pager.pages.load(queue.id, lane.number, run.sequence, stop, READ_BYTES, self._loaded)
        return False

    def _return_unread(self, lane: Lane, run: LeasedRun, stop: int) -> None:
        """Return messages that never left the stretch on disk."""
        queue, pager = self._queue, self._pager
        leases = pager.lease_ranges()
        for each in pager.pages.stretches(queue.id, lane.number, run.sequence, stop, EVERYTHING):
            queue.bytes += each.size - self._books.let_go(each.number)
            pager.return_unread(lane, each)
            self._given += each.number
            queue.counters.requeued += each.number
        leases.remove(lane.number, run.sequence, stop)
        if queue.deadlines is not None:
            for sequence in leases.take_missed(lane.number, run.sequence, stop):
                queue.deadlines.watch(lane.number, sequence, queue.context.now())

    def _loaded(self, loaded: list[Loaded]) -> None:
        queue, run = self._queue, self._left.popleft()
        reached = loaded[-1].sequence + 1 if loaded else run.sequence + 1
        if reached < run.sequence + run.number:
            rest = run.sequence + run.number - reached
            self._left.appendleft(run._replace(sequence=reached, number=rest))
        if queue.alive:
            for each in loaded:
                self._put_back(queue.lanes[run.lane], each, self._pager.pages)
            queue.touch()
        self._send(self)

    def _put_back(self, lane: Lane, loaded: Loaded, pages: Pages) -> None:
        queue, (sequence, message, time) = self._queue, loaded
        queue.bytes += len(message[0]) - self._books.let_go(1)
        queue.counters.requeued += 1
        queue.no_longer_unacked(lane.number, sequence, [message])
        count, _ = unpack_return(pages.tries(queue.id, lane.number, sequence))
        queue.put_back(lane.number, sequence, count, queue.dated(message, time))
        self._given += 1
