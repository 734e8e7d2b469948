"""A backlog larger than memory: which messages of a queue wait on disk only, and when they come back.

Theory of operation. A queue keeps the front of each lane in memory, about as much as ``limit`` allows. What is behind
that and on disk already (persistent messages whose receipt is granted) is simply forgotten: the journal's index knows
where it lies. Transient messages go only when the whole broker is short of memory; they are spilled first. Consumers
drain the front; before it runs dry the next stretch is loaded in a worker, so nobody waits for the disk as long as
reading is faster than consuming, and the loop never does.

A queue that was recovered begins with all of its messages on disk.

Length: what is in memory and what on disk only is one decision, which every method here keeps to.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from itertools import islice
from typing import TYPE_CHECKING

from leveret.clock import TimeSlice
from leveret.message import NEVER, Message
from leveret.queues.bodies import PagedBodies
from leveret.queues.expiry import dated
from leveret.queues.lane import HOLE, Lane
from leveret.queues.withheld import Withheld
from leveret.store.pages import Loaded, Pages, Stretch
from leveret.store.returns import unpack_return

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

LOAD_BYTES = 2 << 20
WORTH_IT = 64  # messages; fewer are not paged out
SMALL_GAP = 64  # sequences that are gone may be bridged by so many holes
SQUEEZED = 1 << 20  # bytes that a queue keeps when the whole broker is short of memory
LOOKS_AT_TIME = 0xFF  # once for so many messages
STORED_AT_ONCE = 50_000  # messages in the journal that are let go of in one time slice
LOOK_AGAIN = 4096  # messages that must come before a lane that could not be paged out is looked at again


class Pager:
    __slots__ = (
        "_chunks",
        "_died",
        "_exhumed",
        "_loading",
        "_queue",
        "_tried",
        "_waiting",
        "bytes",
        "exhuming",
        "limit",
        "paged_bodies",
        "pages",
        "withheld",
    )

    def __init__(self, queue: ClassicQueue, pages: Pages, limit: int) -> None:
        self._queue = queue
        self.pages = pages
        self.limit = limit
        self.bytes = 0  # of content that is on disk only
        self.paged_bodies: PagedBodies | None = None  # where somebody wants to know
        self.withheld: Withheld | None = None  # of queues that were ever leased from
        self._loading: set[int] = set()  # lanes
        self._chunks: dict[int, int] = {}  # by lane, messages in the last load
        self._tried: dict[int, tuple[int, int]] = {}  # by lane: (synced, tail) when nothing could leave
        self._waiting: list[Callable[[], None]] = []
        self._died: set[tuple[int, int]] = set()  # (lane, sequence) of those whose time was up while they were read
        self._exhumed: set[tuple[int, int]] = set()  # those that are read to be sent on, or just were
        self.exhuming = 0  # how many such readings go on

    @property
    def elsewhere(self) -> int:
        """Bytes of content that are not in memory: of what waits on disk only, and of what is leased."""
        return self.bytes if self.withheld is None else self.bytes + self.withheld.bytes

    # ---- out

    def page_out(self, squeeze: bool) -> None:
        """Let go of what is on disk beyond the limit; when squeezed, bring the rest there."""
        queue = self._queue
        here = sum([len(lane.ready) + len(lane.fresh) for lane in queue.lanes])
        if not here or not (squeeze or queue.stored):
            return
        average = max((queue.bytes - self.bytes) // (here + queue.unacked), 1)
        limit = min(SQUEEZED, self.limit) if squeeze else self.limit
        room = limit // average
        time_slice = queue.surroundings.errands.new_slice()
        for lane in reversed(queue.lanes):
            lane.strip()  # or the holes in front would push out what was just brought back
            keep = min(max(room, self._chunks.get(lane.number, 0)), len(lane.ready))
            room = max(room - keep, 0)
            self._shrink(lane, keep, squeeze, time_slice)
        if time_slice.is_over:
            queue.touch()  # more may leave in the next tick
        if queue.stored and queue.bytes - self.elsewhere > limit:
            queue.surroundings.unsynced[queue] = None  # more can go when the disk has it

    def _shrink(self, lane: Lane, keep: int, squeeze: bool, time_slice: TimeSlice) -> None:
        """Widen the stretch of the lane that is on disk only, to both sides, as far as it goes."""
        synced = self.pages.synced(self._queue.id, lane.number)
        tried = self._tried.get(lane.number)
        if tried is not None and not squeeze and tried[0] == synced and lane.tail - tried[1] < LOOK_AGAIN:
            return
        if not lane.page_stop and not self._open_stretch(lane, keep, synced, squeeze):
            self._tried[lane.number] = (synced, lane.tail)
            return
        spilled: list[tuple[int, Message]] = []
        ready, fresh = lane.ready, lane.fresh
        if lane.number not in self._loading:  # else what is being read must find its place at the end of ``ready``
            while len(ready) > keep and self._may_leave(ready[-1], lane.page_start - 1, synced, squeeze):
                self._leave(lane, lane.page_start - 1, ready.pop(), spilled)
                if not len(ready) & LOOKS_AT_TIME and time_slice.is_over:
                    break
        self._let_go_of_stored(lane, synced)
        while fresh and self._may_leave(fresh[0], lane.page_stop, synced, squeeze):
            self._leave(lane, lane.page_stop, fresh.popleft(), spilled)
            lane.page_stop += 1
            if not len(fresh) & LOOKS_AT_TIME and time_slice.is_over:
                break
        if spilled:
            spilled.sort(key=lambda pair: pair[0])
            self.pages.spill(self._queue.id, lane.number, spilled)
        if not lane.paged and lane.number not in self._loading:
            self._close_stretch(lane)

    def _let_go_of_stored(self, lane: Lane, synced: int) -> None:
        """The most common case at once: the first of ``fresh`` are all in the journal and none of them needs a look."""
        number = min(synced - lane.page_stop, len(lane.fresh), STORED_AT_ONCE)
        if number <= 0 or lane.holes or not self._queue.stored or self.paged_bodies is not None:
            return
        leaving = list(islice(lane.fresh, number))
        if not all(traits.persistent for traits in {message[2] for message in leaving}):
            return
        for _ in range(number):
            lane.fresh.popleft()
        lane.page_stop += number
        lane.paged += number
        self.bytes += sum([len(message[0]) for message in leaving])

    def _open_stretch(self, lane: Lane, keep: int, synced: int, squeeze: bool) -> bool:
        """Cut ``ready`` behind the last message that may leave, if enough may; an empty stretch lies between."""
        ready, fresh = lane.ready, lane.fresh
        while len(ready) > keep and (
            ready[-1] is HOLE or not self._may_leave(ready[-1], lane.page_start - 1, synced, squeeze)
        ):
            fresh.appendleft(ready.pop())
        if len(ready) - keep < WORTH_IT:
            ready.extend(fresh)
            fresh.clear()
            return False
        lane.page_stop = lane.page_start
        lane.incoming = fresh
        return True

    def _may_leave(self, message: Message, sequence: int, synced: int, squeeze: bool) -> bool:
        if message is HOLE:
            return True
        if self._queue.stored and message[2].persistent:
            return sequence < synced
        return squeeze

    def _leave(self, lane: Lane, sequence: int, message: Message, spilled: list[tuple[int, Message]]) -> None:
        if message is HOLE:
            lane.holes -= 1
            return
        lane.paged += 1
        self.bytes += len(message[0])
        if self.paged_bodies is not None:
            self.paged_bodies.left(message)
        if not (self._queue.stored and message[2].persistent):
            spilled.append((sequence, message))

    # ---- in

    def refill(self) -> None:
        """Before the front of a lane runs dry, have more of it brought back from disk."""
        for lane in self._queue.lanes:
            if lane.page_stop:
                self.fill(lane)

    def fill(self, lane: Lane) -> None:
        """Have the next stretch loaded if the front runs low."""
        if not lane.page_stop or lane.number in self._loading:
            return
        if not lane.paged:
            self._close_stretch(lane)
            return
        has_enough = len(lane.ready) + len(lane.returned) > self._chunks.get(lane.number, 0) // 2
        # Where not everybody may have the first message, those behind it are wanted too.
        if has_enough and (self._queue.selection is None or not self._has_much_room()):
            return
        found = self.next_stretch(lane, lane.page_start)
        if found is None:
            self.lose_rest(lane)
            return
        first, stop = found
        if first - lane.page_start > SMALL_GAP and lane.ready:
            return  # when the front is gone, it is a leap and not a gap
        self._loading.add(lane.number)
        most = SQUEEZED // 2 if self._queue.surroundings.gauge.is_short else LOAD_BYTES
        self.pages.load(self._queue.id, lane.number, first, stop, most, lambda loaded: self._loaded(lane, loaded))

    def next_stretch(self, lane: Lane, at: int) -> tuple[int, int] | None:
        """The first message from ``at`` on that waits on disk only, and the sequence before which to stop reading."""
        stop, withheld = lane.page_stop, self.withheld
        while (first := self.pages.next_sequence(self._queue.id, lane.number, at)) is not None and first < stop:
            at = first + 1 if (lane.number, first) in self._exhumed else first
            if withheld is not None:
                at = withheld.passed(lane.number, at)
            if at == first:
                return first, stop if withheld is None else withheld.next_start(lane.number, first, stop)
        return None

    def _has_much_room(self) -> bool:
        queue = self._queue
        return queue.bytes - self.bytes - queue.held < self.limit // 2 and not queue.surroundings.gauge.is_short

    def _loaded(self, lane: Lane, loaded: list[Loaded]) -> None:
        self._loading.discard(lane.number)
        if not self._queue.alive:
            self.tell_waiting()
            return
        self._chunks[lane.number] = len(loaded)
        for sequence, message, time in loaded:
            place = (lane.number, sequence)
            if not lane.is_paged(sequence) or place in self._died or place in self._exhumed:
                continue  # purged, or died, while we read
            if sequence - lane.page_start > SMALL_GAP and lane.ready:
                break
            self._take_in(lane, sequence, dated(self._queue, message, time))
        if loaded:
            first = loaded[0].sequence
            self.pages.drop(self._queue.id, lane.number, first, max(lane.page_start - first, 0))
        self._died = {each for each in self._died if each[0] != lane.number}
        if lane.page_stop and not lane.paged:
            self._close_stretch(lane)
        self._queue.touch()
        self.tell_waiting()

    def tell_waiting(self) -> None:
        """Something was loaded, or will never be."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def _take_in(self, lane: Lane, sequence: int, message: Message) -> None:
        lane.paged -= 1
        self.bytes -= len(message[0])
        if self.paged_bodies is not None:
            self.paged_bodies.came_back(lane, sequence, message)
        if not lane.ready:
            lane.head = sequence
        while lane.page_start < sequence:
            lane.ready.append(HOLE)
            lane.holes += 1
        if sequence < lane.redelivered_below:
            tries, until = unpack_return(self.pages.tries(self._queue.id, lane.number, sequence))
            due = until - self._queue.surroundings.wall_ahead()
            if until and self._queue.waiting is not None and due > self._queue.surroundings.now():
                self._queue.waiting.keep(due, lane.number, sequence, tries, message)
            else:
                heappush(lane.returned, (sequence, tries, message))
            if lane.ready:
                lane.ready.append(HOLE)
                lane.holes += 1
            else:
                lane.head = sequence + 1
        else:
            lane.ready.append(message)

    def _close_stretch(self, lane: Lane) -> None:
        """Nothing of the lane is on disk only any more."""
        gap = lane.page_stop - lane.page_start
        if lane.ready and gap > SMALL_GAP:
            return  # it closes when the front is gone
        if not lane.ready:
            lane.head = lane.page_stop
        else:
            lane.ready.extend([HOLE] * gap)
            lane.holes += gap
        lane.ready.extend(lane.fresh)
        lane.fresh.clear()
        lane.incoming = lane.ready
        lane.page_stop = 0
        if not any(each.page_stop for each in self._queue.lanes):
            self._queue.bytes -= self.bytes  # sizes of expired ones are estimates: what is left is the error
            self.forget_sizes()
        if lane.ready:
            self._queue.touch()

    def forget_sizes(self) -> None:
        """Nothing is on disk only any more."""
        self.bytes = 0
        if self.paged_bodies is not None:
            self.paged_bodies.total = 0

    def lose_rest(self, lane: Lane) -> None:
        """The disk knows none of what should be there: it was damaged, and reported."""
        lane.paged = 0
        self._close_stretch(lane)

    def when_loaded(self, call: Callable[[], None]) -> bool:
        """Call back when the next stretch is here; False if there is none to wait for."""
        for lane in self._queue.lanes:
            self.fill(lane)
        if self._loading:
            self._waiting.append(call)
        return bool(self._loading)

    # ---- without loading

    def expire(self, lane: Lane, sequence: int, known_size: int | None = None) -> int | None:
        """A message that is on disk only dies there: its size, about, if it is not known; None if it is gone already,
        or leased."""
        if self.withheld is not None and self.withheld.misses(lane.number, sequence):
            return None
        size = self.pages.size_of(self._queue.id, lane.number, sequence)
        if size is None or (lane.number, sequence) in self._died or (lane.number, sequence) in self._exhumed:
            return None
        if lane.number in self._loading:
            self._died.add((lane.number, sequence))
        size = size if known_size is None else known_size
        self._lose(lane, sequence, size)
        self.pages.drop(self._queue.id, lane.number, sequence, 1)
        return size

    def _lose(self, lane: Lane, sequence: int, size: int) -> None:
        lane.paged -= 1
        self.bytes -= size
        if self.paged_bodies is not None:
            self.paged_bodies.died(lane, sequence, size)

    def take_out(self, lane: Lane, sequence: int) -> int | None:
        """A message that is on disk only leaves the lane, to be read and buried (queues/exhuming.py); as ``expire``."""
        if self.withheld is not None and self.withheld.misses(lane.number, sequence):
            return None
        size = self.pages.size_of(self._queue.id, lane.number, sequence)
        place = (lane.number, sequence)
        if size is None or place in self._died or place in self._exhumed:
            return None
        self._exhumed.add(place)
        self._lose(lane, sequence, size)
        return size

    def forget_exhumed(self) -> None:
        """Those that have left the disk too cannot be loaded by mistake any more."""
        if not self.exhuming:
            self._exhumed = {place for place in self._exhumed if self.pages.size_of(self._queue.id, *place) is not None}

    def drop_first(self, lane: Lane) -> tuple[int, int] | None:
        """The first message that is on disk only dies there: its sequence and size; None if none can be found."""
        found = self.next_stretch(lane, lane.page_start)
        if not lane.paged or found is None:
            return None
        size = self.expire(lane, found[0])
        return None if size is None else (found[0], size)

    def purge(self, lane: Lane) -> int:
        """Drop all that is on disk only: how many."""
        number = lane.paged
        if lane.page_stop:
            self.pages.drop(self._queue.id, lane.number, lane.page_start, lane.page_stop - lane.page_start)
        return number

    def is_loading(self, lane: Lane) -> bool:
        return lane.number in self._loading

    def is_untouched(self, lane: Lane) -> bool:
        """Nothing of the stretch on disk was ever leased, and nothing of the lane came back."""
        return self.withheld is None and not self.pages.has_tries(self._queue.id, lane.number)

    def is_leased(self, lane: Lane, sequence: int) -> bool:
        """Of one that is in the stretch on disk."""
        return self.withheld is not None and self.withheld.passed(lane.number, sequence) > sequence

    def waiting_on_disk(self, lane: Lane) -> list[tuple[int, int]]:
        """The stretches that are on disk only and in nobody's hands: from, below."""
        start, stop = lane.page_start, lane.page_stop
        return [(start, stop)] if self.withheld is None else [*self.withheld.between(lane.number, start, stop)]

    def may_take_unread(self, lane: Lane) -> bool:
        """Whether all that is known to be on disk only can be given away as it is. Else it is to be read first: some
        may be too old, or have to wait for another try."""
        queue = self._queue
        if queue.deadlines is not None or queue.selection is not None or self._died or self._exhumed:
            return False
        return queue.waiting is None or lane.redelivered_below <= lane.page_start

    def take_unread(self, lane: Lane, stretch: Stretch) -> None:
        """The first that are on disk only leave the lane as they are; nothing stands before them."""
        lane.paged -= stretch.number
        self.bytes -= stretch.size
        lane.head = stretch.sequence + stretch.number
        if self.paged_bodies is not None:
            self.paged_bodies.many_died(lane, stretch.sequence, stretch.number, stretch.size)
        if self.withheld is not None:
            self.withheld.forget_below(lane.number, lane.head)

    def restore(self, lane: Lane, first: int, stop: int, number: int, size: int, redelivered_below: int) -> None:
        """What an earlier life left."""
        lane.head = first
        lane.attempted = first
        lane.in_turn = NEVER
        lane.redelivered_below = redelivered_below
        if number:
            lane.page_stop, lane.paged, lane.incoming = stop, number, lane.fresh
            self.bytes += size
        if self.paged_bodies is not None:
            self.paged_bodies.begin(lane)
