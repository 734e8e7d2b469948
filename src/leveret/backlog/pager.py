"""Paging of a backlog larger than memory: keeps messages on disk only, and loads them again.

Theory of operation. A queue keeps the front of each lane in memory, about as much as ``limit`` allows. Messages behind
the front that are on disk already (persistent messages whose receipt is granted) are removed from memory: the index of
the journal has their positions. Transient messages leave memory only when the whole broker is short of memory; they are
spilled first. Consumers drain the front; before it is empty the next stretch is loaded in a worker. So consumers do not
wait for the disk as long as reading is faster than consuming, and the loop never waits for it.

A recovered queue starts with all of its messages on disk.

Length: all methods maintain one invariant, the division of a lane into memory and disk.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from leveret.backlog.body_sizes import PagedBodySizes
from leveret.backlog.lane import HOLE, Lane
from leveret.backlog.lease_ranges import LeaseRanges
from leveret.clock import TimeSlice
from leveret.message import NEVER, Message
from leveret.store.pages import Loaded, Pages, Stretch
from leveret.store.returns import unpack_return

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog

EVERYTHING = 1 << 62  # bytes
LOAD_BYTES = 2 << 20
WORTH_IT = 64  # messages; fewer are not paged out
SMALL_GAP = 64  # holes that may be created for messages that are gone
SQUEEZED = 1 << 20  # bytes that a queue keeps when the whole broker is short of memory
CHECKS_TIME = 0xFF  # the time slice is checked once per this many messages
STORED_AT_ONCE = 50_000  # messages in the journal that leave memory in one time slice
LOOK_AGAIN = 4096  # new messages before a lane that could not be paged out is checked again


class Pager:
    __slots__ = (
        "_chunks",
        "_dropped",
        "_loading",
        "_queue",
        "_read_expired",
        "_tried",
        "_waiting",
        "bytes",
        "leases",
        "limit",
        "paged_bodies",
        "pages",
        "reads_expired",
    )

    def __init__(self, queue: Backlog, pages: Pages, limit: int) -> None:
        self._queue = queue
        self.pages = pages
        self.limit = limit
        self.bytes = 0  # of content that is on disk only
        self.paged_bodies: PagedBodySizes | None = None  # if the queue counts bodies
        self.leases: LeaseRanges | None = None  # if the queue had a lease
        self._loading: set[int] = set()  # lanes that are being loaded
        self._chunks: dict[int, int] = {}  # by lane, messages in the last load
        self._tried: dict[int, tuple[int, int]] = {}  # by lane: (synced, tail) when nothing could leave
        self._waiting: list[Callable[[], None]] = []
        self._dropped: set[tuple[int, int]] = set()  # (lane, sequence) of messages that left while they were being read
        self._read_expired: set[tuple[int, int]] = set()  # messages that are or were being read to be dead-lettered
        self.reads_expired = 0  # such reads in progress

    @property
    def elsewhere(self) -> int:
        """Bytes of content that are not in memory: on disk only, or leased."""
        return self.bytes if self.leases is None else self.bytes + self.leases.bytes

    # ---- out

    def page_out(self, squeeze: bool) -> None:
        """Remove messages that are on disk from memory, down to the limit; with ``squeeze``, spill the rest."""
        queue = self._queue
        here = sum([len(lane.ready) + len(lane.fresh) for lane in queue.lanes])
        if not here or not (squeeze or queue.stored):
            return
        average = max((queue.bytes - self.bytes) // (here + queue.unacked), 1)
        limit = min(SQUEEZED, self.limit) if squeeze else self.limit
        room = limit // average
        time_slice = queue.context.background.new_slice()
        for lane in reversed(queue.lanes):
            lane.strip()  # otherwise holes in front would push out messages that were just loaded
            keep = min(max(room, self._chunks.get(lane.number, 0)), len(lane.ready))
            room = max(room - keep, 0)
            self._shrink(lane, keep, squeeze, time_slice)
        if time_slice.is_over:
            queue.touch()  # more messages may leave in the next tick
        if queue.stored and queue.bytes - self.elsewhere > limit:
            queue.context.unsynced[queue] = None  # more messages can leave once they are on disk

    def _shrink(self, lane: Lane, keep: int, squeeze: bool, time_slice: TimeSlice) -> None:
        """Widen the stretch of the lane that is on disk only, to both sides, as far as possible."""
        synced = self.pages.synced(self._queue.id, lane.number)
        tried = self._tried.get(lane.number)
        if tried is not None and not squeeze and tried[0] == synced and lane.tail - tried[1] < LOOK_AGAIN:
            return
        if not lane.page_stop and not self._open_stretch(lane, keep, synced, squeeze):
            self._tried[lane.number] = (synced, lane.tail)
            return
        spilled: list[tuple[int, Message]] = []
        ready, fresh = lane.ready, lane.fresh
        if lane.number not in self._loading:  # messages that are being read go to the end of ``ready``
            while len(ready) > keep and self._may_leave(ready[-1], lane.page_start - 1, synced, squeeze):
                self._leave(lane, lane.page_start - 1, ready.pop(), spilled)
                if not len(ready) & CHECKS_TIME and time_slice.is_over:
                    break
        self._page_out_stored(lane, synced)
        while fresh and self._may_leave(fresh[0], lane.page_stop, synced, squeeze):
            self._leave(lane, lane.page_stop, fresh.popleft(), spilled)
            lane.page_stop += 1
            if not len(fresh) & CHECKS_TIME and time_slice.is_over:
                break
        if spilled:
            spilled.sort(key=lambda pair: pair[0])
            self.pages.spill(self._queue.id, lane.number, spilled)
        if not lane.paged and lane.number not in self._loading:
            self._close_stretch(lane)

    def _page_out_stored(self, lane: Lane, synced: int) -> None:
        """The most common case, in one step: the first of ``fresh`` are all in the journal and none needs a check."""
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
        """Cut ``ready`` behind the last message that may leave, if enough may, and start an empty stretch there."""
        ready, fresh = lane.ready, lane.fresh
        while len(ready) > keep and (
            ready[-1] is HOLE or not self._may_leave(ready[-1], lane.page_start - 1, synced, squeeze)
        ):
            fresh.appendleft(ready.pop())
        if len(ready) - keep < WORTH_IT:
            ready.extend(fresh)
            fresh.clear()
            return False
        lane.open_stretch()
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
            self.paged_bodies.paged_out(message)
        if not (self._queue.stored and message[2].persistent):
            spilled.append((sequence, message))

    # ---- in

    def refill(self) -> None:
        """Load more of each lane from disk before its front is empty."""
        for lane in self._queue.lanes:
            if lane.page_stop:
                self.fill(lane)

    def fill(self, lane: Lane) -> None:
        """Load the next stretch if the front runs low."""
        if not lane.page_stop or lane.number in self._loading:
            return
        if not lane.paged:
            self._close_stretch(lane)
            return
        has_enough = len(lane.ready) + len(lane.returned) > self._chunks.get(lane.number, 0) // 2
        if has_enough and not (self._queue.is_selective and self._has_much_room()):
            return
        found = self.next_stretch(lane, lane.page_start)
        if found is None:
            self.lose_rest(lane)
            return
        first, stop = found
        if first - lane.page_start > SMALL_GAP and lane.ready:
            return  # once the front is gone, the head moves there without holes
        self._loading.add(lane.number)
        most = SQUEEZED // 2 if self._queue.context.gauge.is_short else LOAD_BYTES
        self.pages.load(self._queue.id, lane.number, first, stop, most, lambda loaded: self._loaded(lane, loaded))

    def next_stretch(self, lane: Lane, at: int) -> tuple[int, int] | None:
        """The first message from ``at`` on that waits on disk only, and the sequence before which to stop reading."""
        stop, leases = lane.page_stop, self.leases
        while (first := self.pages.next_sequence(self._queue.id, lane.number, at)) is not None and first < stop:
            at = first + 1 if (lane.number, first) in self._read_expired else first
            if leases is not None:
                at = leases.passed(lane.number, at)
            if at == first:
                return first, stop if leases is None else leases.next_start(lane.number, first, stop)
        return None

    def _has_much_room(self) -> bool:
        queue = self._queue
        return queue.bytes - self.bytes - queue.held < self.limit // 2 and not queue.context.gauge.is_short

    def _loaded(self, lane: Lane, loaded: list[Loaded]) -> None:
        self._loading.discard(lane.number)
        if not self._queue.alive:
            self.tell_waiting()
            return
        self._chunks[lane.number] = len(loaded)
        for sequence, message, time in loaded:
            place = (lane.number, sequence)
            if not lane.is_paged(sequence) or place in self._dropped or place in self._read_expired:
                continue  # purged, expired or dropped during the read
            if sequence - lane.page_start > SMALL_GAP and lane.ready:
                break
            self._take_in(lane, sequence, self._queue.dated(message, time))
        if loaded:
            first = loaded[0].sequence
            self.pages.drop(self._queue.id, lane.number, first, max(lane.page_start - first, 0))
        self._dropped = {each for each in self._dropped if each[0] != lane.number}
        if lane.page_stop and not lane.paged:
            self._close_stretch(lane)
        self._queue.touch()
        self.tell_waiting()

    def tell_waiting(self) -> None:
        """Run the callbacks that wait for a load: it is done, or will never be."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def _take_in(self, lane: Lane, sequence: int, message: Message) -> None:
        lane.paged -= 1
        self.bytes -= len(message[0])
        if self.paged_bodies is not None:
            self.paged_bodies.loaded(lane, sequence, message)
        if not lane.ready:
            lane.head = sequence
        lane.fill_holes(sequence)
        if sequence < lane.redelivered_below:
            queue = self._queue
            count, until = unpack_return(self.pages.tries(queue.id, lane.number, sequence))
            due = until - queue.context.wall_ahead()
            if until and queue.delayed is not None and due > queue.context.now():
                queue.delayed.keep(due, lane.number, sequence, count, message)
            else:
                lane.put_back(sequence, count, message)
            if lane.ready:
                lane.fill_holes(sequence + 1)
            else:
                lane.head = sequence + 1
        else:
            lane.ready.append(message)

    def _close_stretch(self, lane: Lane) -> None:
        """No message of the lane is on disk only any more."""
        if lane.ready and lane.page_stop - lane.page_start > SMALL_GAP:
            return  # the stretch is closed when the front is gone
        lane.close_stretch()
        if not any(each.page_stop for each in self._queue.lanes):
            self._queue.bytes -= self.bytes  # sizes of expired messages are estimates: the rest is their error
            self.forget_sizes()
        if lane.ready:
            self._queue.touch()

    def forget_sizes(self) -> None:
        """Reset the sizes, because no message is on disk only any more."""
        self.bytes = 0
        if self.paged_bodies is not None:
            self.paged_bodies.total = 0

    def lose_rest(self, lane: Lane) -> None:
        """The disk has none of the messages that should be there: it was damaged, which was logged."""
        lane.paged = 0
        self._close_stretch(lane)

    def when_loaded(self, call: Callable[[], None]) -> bool:
        """Call back when the next stretch is loaded; False if there is no stretch to wait for."""
        for lane in self._queue.lanes:
            self.fill(lane)
        if self._loading:
            self._waiting.append(call)
        return bool(self._loading)

    # ---- without loading

    def expire(self, lane: Lane, sequence: int, known_size: int | None = None) -> int | None:
        """Remove a message that is on disk only without reading it; returns its (estimated) size, or None if it is gone
        or leased."""
        if self.leases is not None and self.leases.misses(lane.number, sequence):
            return None
        size = self.pages.size_of(self._queue.id, lane.number, sequence)
        if size is None or (lane.number, sequence) in self._dropped or (lane.number, sequence) in self._read_expired:
            return None
        if lane.number in self._loading:
            self._dropped.add((lane.number, sequence))
        size = size if known_size is None else known_size
        self._lose(lane, sequence, size)
        self.pages.drop(self._queue.id, lane.number, sequence, 1)
        return size

    def _lose(self, lane: Lane, sequence: int, size: int) -> None:
        lane.paged -= 1
        self.bytes -= size
        if self.paged_bodies is not None:
            self.paged_bodies.dropped(lane, sequence, size)

    def take_out(self, lane: Lane, sequence: int) -> int | None:
        """As ``expire``, for a message that is about to be read (``Backlog.read_expired``)."""
        if self.leases is not None and self.leases.misses(lane.number, sequence):
            return None
        size = self.pages.size_of(self._queue.id, lane.number, sequence)
        place = (lane.number, sequence)
        if size is None or place in self._dropped or place in self._read_expired:
            return None
        self._read_expired.add(place)
        self._lose(lane, sequence, size)
        return size

    def forget_read_expired(self) -> None:
        """Forget messages that have left the disk as well, and so can no longer be loaded by mistake."""
        if not self.reads_expired:
            self._read_expired = {
                place for place in self._read_expired if self.pages.size_of(self._queue.id, *place) is not None
            }

    def drop_first(self, lane: Lane) -> tuple[int, int] | None:
        """Remove the first message that is on disk only; returns its sequence and size, or None if there is none."""
        found = self.next_stretch(lane, lane.page_start)
        if not lane.paged or found is None:
            return None
        size = self.expire(lane, found[0])
        return None if size is None else (found[0], size)

    def purge(self, lane: Lane) -> int:
        """Drop everything that is on disk only; returns the number of messages."""
        number = lane.paged
        if lane.page_stop:
            self.pages.drop(self._queue.id, lane.number, lane.page_start, lane.page_stop - lane.page_start)
        return number

    def lease_ranges(self) -> LeaseRanges:
        """Created by the first lease of the queue."""
        if self.leases is None:
            self.leases = LeaseRanges()
        return self.leases

    def withhold(self, lane: Lane, first: int, stop: int) -> tuple[int, int]:
        """Exclude a range that was leased before the restart; returns messages and bytes. No new message gets such a
        sequence."""
        total = size = 0
        for each in self.pages.stretches(self._queue.id, lane.number, first, stop, EVERYTHING):
            lane.paged -= each.number
            self.bytes -= each.size
            total += each.number
            size += each.size
        lane.redelivered_below = max(lane.redelivered_below, stop)  # all messages before these were delivered first
        if lane.page_stop:
            lane.page_stop = max(lane.page_stop, stop)
        else:
            lane.head = max(lane.head, stop)
        return total, size

    def return_unread(self, lane: Lane, stretch: Stretch) -> None:
        """Make leased messages that were never taken from the stretch on disk wait there again."""
        lane.paged += stretch.number
        self.bytes += stretch.size

    def is_loading(self, lane: Lane) -> bool:
        return lane.number in self._loading

    def is_untouched(self, lane: Lane) -> bool:
        """Whether no message of the stretch on disk was ever leased, and no message of the lane was requeued."""
        return self.leases is None and not self.pages.has_tries(self._queue.id, lane.number)

    def is_leased(self, lane: Lane, sequence: int) -> bool:
        """Whether a message in the stretch on disk is leased."""
        return self.leases is not None and self.leases.passed(lane.number, sequence) > sequence

    def waiting_on_disk(self, lane: Lane) -> list[tuple[int, int]]:
        """The ranges that are on disk only and not leased: first, stop."""
        start, stop = lane.page_start, lane.page_stop
        return [(start, stop)] if self.leases is None else [*self.leases.between(lane.number, start, stop)]

    def may_take_unread(self, lane: Lane) -> bool:
        """Whether messages on disk only can be leased without reading them. Otherwise some may have expired, or have to
        wait for a retry."""
        queue = self._queue
        if queue.deadlines is not None or queue.is_selective or self._dropped or self._read_expired:
            return False
        return queue.delayed is None or lane.redelivered_below <= lane.page_start

    def take_unread(self, lane: Lane, stretch: Stretch) -> None:
        """Remove the first messages that are on disk only from the lane, unread; nothing is in front of them."""
        lane.paged -= stretch.number
        self.bytes -= stretch.size
        lane.head = stretch.sequence + stretch.number
        if self.paged_bodies is not None:
            self.paged_bodies.many_dropped(lane, stretch.sequence, stretch.number, stretch.size)
        if self.leases is not None:
            self.leases.forget_below(lane.number, lane.head)

    def restore(self, lane: Lane, first: int, stop: int, number: int, size: int, redelivered_below: int) -> None:
        """Set up a lane whose messages were on disk before the start."""
        lane.head = first
        lane.attempted = first
        lane.in_turn = NEVER
        lane.redelivered_below = redelivered_below
        if number:
            lane.page_stop, lane.paged, lane.incoming = stop, number, lane.fresh
            self.bytes += size
        if self.paged_bodies is not None:
            self.paged_bodies.begin(lane)
