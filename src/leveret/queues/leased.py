"""Leased messages after they were leased: withheld again by the next life, settled, or back in their places.

They come back by being read from disk, or without it while they still lie in the paged stretch of their lane: there
they only were withheld (queues/withheld.py). Either way it takes as many turns as it takes: both ways out are errands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from leveret.queues.expiry import dated
from leveret.queues.leasing import LeasedRun
from leveret.queues.returning import restore
from leveret.queues.withheld import withheld_of
from leveret.store.pages import Loaded, Pages
from leveret.store.returns import unpack_return

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane

STEP = 8_000  # messages that are settled in one turn
READ_BYTES = 256 << 10  # that come back in one turn
RUNS_AT_ONCE = 256  # that come back in one turn without being read
EVERYTHING = 1 << 62


# ---- after a restart


def take_again(queue: ClassicQueue, runs: Iterable[LeasedRun]) -> tuple[int, int]:
    """What an earlier life had leased leaves the lanes before anything is delivered: messages and bytes of it.

    Nobody gets one of these sequences again, even if nothing is left of them.
    """
    pager = queue.pager
    assert pager is not None
    total = size = 0
    ranges: dict[int, list[tuple[int, int]]] = {}
    for run in runs:
        stop = run.sequence + run.number
        lane = queue.lanes[min(run.lane, len(queue.lanes) - 1)]
        for each in pager.pages.stretches(queue.id, lane.number, run.sequence, stop, EVERYTHING):
            lane.paged -= each.number
            pager.bytes -= each.size
            total += each.number
            size += each.size
        lane.redelivered_below = max(lane.redelivered_below, stop)  # all before them were delivered before them
        if lane.page_stop:
            lane.page_stop = max(lane.page_stop, stop)
        else:
            lane.head = max(lane.head, stop)
        ranges.setdefault(lane.number, []).append((run.sequence, stop))
    for number, some in ranges.items():
        withheld_of(queue).add(number, some)
    return total, size


def hold(queue: ClassicQueue, number: int, size: int) -> None:
    """So many that have left the lanes are leased."""
    withheld = withheld_of(queue)
    queue.unacked += number
    queue.held += size
    withheld.number += number
    withheld.bytes += size


# ---- gone


class Settling:
    """An errand: leased messages are done with, a step at a time. ``over`` is called once."""

    def __init__(
        self, queue: ClassicQueue, runs: Iterable[LeasedRun], number: int, size: int, over: Callable[[], None]
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
    """What a lease still has of the queue's unacked messages. Sizes of single ones are not known."""

    def __init__(self, queue: ClassicQueue, number: int, size: int) -> None:
        self._queue = queue
        self.number = number
        self.size = size

    def let_go(self, number: int) -> int:
        """So many are not leased any more: their bytes."""
        number = min(number, self.number)
        size = self.size * number // self.number if number else 0
        self._subtract(number, size)
        return size

    def close(self) -> None:
        """The rest could not be found."""
        if self.number and self._queue.alive:
            self._queue.bytes -= self.size
            self._subtract(self.number, self.size)

    def _subtract(self, number: int, size: int) -> None:
        queue, withheld = self._queue, withheld_of(self._queue)
        self.number -= number
        self.size -= size
        queue.unacked -= number
        queue.held -= size
        withheld.number -= number
        withheld.bytes -= size


# ---- back


class GiveBack:
    """An errand: leased messages go back to their places. It is sent again by each answer of the disk. ``over`` gets
    how many there were, once."""

    def __init__(
        self,
        queue: ClassicQueue,
        runs: Iterable[LeasedRun],
        number: int,
        size: int,
        send: Callable[[GiveBack], None],
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
        """Whether the run is back; else it is waited for."""
        queue, pager, stop = self._queue, self._pager, run.sequence + run.number
        lane = queue.lanes[run.lane]
        if lane.page_start <= run.sequence and withheld_of(queue).holds(lane.number, run.sequence, stop):
            if pager.is_loading(lane) and pager.when_loaded(lambda: self._send(self)):
                return False  # what is being read must not be put before these
            if stop <= lane.page_stop:
                self._left.popleft()
                self._let_lie(lane, run, stop)
                return True
        pager.pages.load(queue.id, lane.number, run.sequence, stop, READ_BYTES, self._loaded)
        return False

    def _let_lie(self, lane: Lane, run: LeasedRun, stop: int) -> None:
        """They were never taken from where they lie."""
        queue, pager = self._queue, self._pager
        withheld = withheld_of(queue)
        for each in pager.pages.stretches(queue.id, lane.number, run.sequence, stop, EVERYTHING):
            queue.bytes += each.size - self._books.let_go(each.number)
            lane.paged += each.number
            pager.bytes += each.size
            self._given += each.number
            queue.counters.requeued += each.number
        withheld.remove(lane.number, run.sequence, stop)
        if queue.deadlines is not None:
            for sequence in withheld.take_missed(lane.number, run.sequence, stop):
                queue.deadlines.watch(lane.number, sequence, queue.surroundings.now())

    def _loaded(self, loaded: list[Loaded]) -> None:
        queue, run = self._queue, self._left.popleft()
        reached = loaded[-1].sequence + 1 if loaded else run.sequence + 1
        if reached < run.sequence + run.number:
            rest = run.sequence + run.number - reached
            self._left.appendleft(run._replace(sequence=reached, number=rest))
        if queue.alive:
            for each in loaded:
                self._give_back(queue.lanes[run.lane], each, self._pager.pages)
            queue.touch()
        self._send(self)

    def _give_back(self, lane: Lane, loaded: Loaded, pages: Pages) -> None:
        queue, (sequence, message, time) = self._queue, loaded
        queue.bytes += len(message[0]) - self._books.let_go(1)
        queue.counters.requeued += 1
        if queue.selection is not None:
            queue.selection.let_go(lane.number, sequence, [message])
        tries, _ = unpack_return(pages.tries(queue.id, lane.number, sequence))
        restore(queue, lane.number, sequence, tries, dated(queue, message, time))
        self._given += 1
