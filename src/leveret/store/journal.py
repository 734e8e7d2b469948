"""The log on disk, as the loop sees it.  Hot path.

Theory of operation. Everything here runs on the broker's loop and touches no file. During a turn, appends and settles
are only noted. ``flush``, at the end of the turn, does the work once for all of them:

    count      which appends were settled before they were written? (a consumer without acks took them): drop them,
               their receipts are granted early
    draft      the rest becomes PUBLISH records, one per run, shared by all queues the run went to
    settle     settled messages leave the index; SETTLE entries gather, and wait for company
    hand over  records get their places (segment, offset) and go to the writer as one batch

The writer takes all batches that wait, writes and syncs them at once, and says so; then the receipts are granted. So
one sync serves all that came while the previous one ran. Settles alone are lazy: they go with the next batch, or after
a while by themselves (``lazily`` asks for that). Large contents are drafted only when the writer is free to take them:
what a consumer settles until then is never written.

For every lane of every queue an index (store/run_index.py) tells where each live message lies. Reclaim and paging live
by it; see store/reclaim.py and store/pages.py. When a write fails for want of space, or of file descriptors, everything
not granted is placed anew. Any other failure ends the writing for good: what is not granted is lost, and said so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from leveret.errors import ResourceFault
from leveret.message import Message
from leveret.store.batch import Append, Batch, Draft, Group, Settled, Unit
from leveret.store.definitions import Change
from leveret.store.disk import is_shortage
from leveret.store.drafting import draft_append, draft_returns, draft_settles, draft_unit, in_runs
from leveret.store.layout import Layout
from leveret.store.log import GRANTED, Placement
from leveret.store.records import SETTLE, STOP, Entry
from leveret.store.segments import Segments

MOST_ENTRIES = 65536  # that may wait for company
LARGE = 16 << 10  # bytes of content that are worth not writing


class Journal:
    def __init__(self, segments: Segments, wall: Callable[[], float]) -> None:
        self.issued = GRANTED
        self.on_granted: Callable[[int], None] = lambda receipt: None
        self.on_early: Callable[[set[int]], None] = lambda receipts: None
        self.on_lost: Callable[[], None] = lambda: None
        self.submit: Callable[[Batch], None] = lambda batch: None  # to the writer
        self.lazily: Callable[[], None] = lambda: None  # asks for hand_over() in a while
        self.always_sync = True
        self.large = LARGE
        self.wall_ahead: Callable[[], float] = lambda: 0.0  # from message time to wall time
        self.layout = Layout(segments)
        self.lanes = self.layout.lanes
        self.failure: str | None = None
        self.held: list[Group | Unit] | None = None  # while the disk is full: what waits for space
        self.is_stopped = False
        self.is_stuck = False  # so full that not even settles can be written
        self.era = 0
        self.in_flight: deque[Batch] = deque()
        self.granted = GRANTED
        self._wall = wall
        self._pending: list[Append | Unit] = []
        self._settles: list[Settled] = []
        self._counted: list[Settled] = []  # settled, and still in the index
        self._returns: list[Entry] = []
        self._entries: list[Entry] = []  # settled, on no disk yet
        self._late: list[Settled] = []  # settled while the message itself waits for space
        self._batch = Batch(0)  # the next one
        self._ungranted: deque[Append] = deque()
        self._drafted = GRANTED  # receipts up to this one are in batches, or need none
        self._unit: Unit | None = None
        self._is_urgent = False
        self._is_waiting = False  # lazily() was asked
        self._written = (1, 0)  # segment and offset up to which all is written
        self._when_written: list[Callable[[], None]] = []

    @property
    def segments(self) -> Segments:
        return self.layout.segments

    # ---- the contract (store/log.py)

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        self.issued = receipt = self.issued + 1
        append = Append(messages, placements, receipt, synced)
        self._ungranted.append(append)
        if self._unit is not None:
            self._unit.appends.append(append)
        else:
            self._pending.append(append)
        for queue, lane, sequence, number, _ in placements:
            log = self.lanes.get(queue << 8 | lane) or self.layout.lane(queue, lane)
            log.open.append((sequence, sequence + number, append))
        return receipt

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        settles = self._settles if self._unit is None else self._unit.settles
        if settles:
            last = settles[-1]
            if last[0] == queue and last[1] == lane and last[2] + last[3] == sequence:
                last[3] += number
                return
        settles.append([queue, lane, sequence, number])

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        returns = self._returns if self._unit is None else self._unit.returns
        returns.append(Entry(queue, lane, sequence, number, tries))

    def forget(self, queue: int) -> None:
        self.layout.forget(queue)

    def record(self, change: Change) -> int:
        self.refuse_if_failed()
        self._batch.changes.append(change)
        self._is_urgent = True
        self.issued += 1
        return self.issued

    def promise(self) -> int:
        self._is_urgent = self._batch.sync = True
        self.issued += 1
        return self.issued

    @contextmanager
    def group(self) -> Iterator[None]:
        if self._unit is not None:  # within another group: part of that
            yield
            return
        self._unit = unit = Unit()
        try:
            yield
        finally:
            self._unit = None
            if unit.appends or unit.settles or unit.returns:
                self._pending.append(unit)
                self.issued += 1

    def refuse_if_failed(self) -> None:
        if self.failure is not None:
            raise ResourceFault(f"the store is read-only since {self.failure}: restart the broker")

    # ---- the end of a turn

    def flush(self, may_wait: bool = True) -> None:
        if self._unit is not None or self.is_stopped:
            return  # in the middle of a group: at the end of the turn
        if self.failure is not None:
            self._lose()
            return
        try:
            self._count_settled()
            if not (may_wait and self._is_better_later()):
                self._flush()
        except Exception as problem:
            self.failure = f"a bug ({problem!r})"  # never grant what may not have been written
            self._lose()
            raise

    def _count_settled(self) -> None:
        if self._settles:
            settles, self._settles = self._settles, []
            self._counted += settles
            if early := self.layout.count_settled(settles):
                self.on_early(early)

    def _is_better_later(self) -> bool:
        """Large contents, and the writer is busy anyway: they may be settled before it can take them."""
        first = self._pending[0] if self._pending and self.in_flight else None
        return isinstance(first, Append) and len(first.messages[0][0]) >= self.large

    def _flush(self) -> None:
        if self._pending:
            self._draft_pending()
        if self._counted:
            settles, self._counted = self._counted, []
            self._entries += self._take_settled(settles)
        if self._returns:
            returns, self._returns = self._returns, []
            self.place([draft_returns(returns)])
        self._drafted = self.issued
        if self._is_urgent or len(self._entries) > MOST_ENTRIES:
            self._submit()
        elif (self._entries or self._batch.writes) and not self._is_waiting:
            self._is_waiting = True
            self.lazily()
        elif self.granted < self.issued:
            self._grant_idle()

    def _grant_idle(self) -> None:
        """When nothing is on its way, all that was issued is done: it was settled before it had to be written."""
        if not self.in_flight and self.held is None and not self._batch.is_needed:
            self._grant(self._drafted)

    def _draft_pending(self) -> None:
        pending, self._pending = self._pending, []
        time, ahead = self._wall(), self.wall_ahead()
        for append in in_runs(pending):
            if isinstance(append, Unit):
                self._batch.sync = self._is_urgent = True
                if self.held is not None:  # what it settles may not have a place yet
                    self.held.append(append)
                else:
                    self.place(self._draft_unit(append, time, ahead))
            else:
                self._batch.sync = self._batch.sync or append.synced
                self._is_urgent = True
                self.place(draft_append(append, time, ahead))

    def _draft_unit(self, unit: Unit, time: float, ahead: float) -> Group:
        return draft_unit(unit, self._take_settled(unit.settles), time, ahead)

    def _take_settled(self, settles: list[Settled]) -> list[Entry]:
        """Out of the index. While the disk is full some are not in it yet: they are looked for again later."""
        if self.held is not None:
            self._late += settles
        return self.layout.take_settled(settles)

    def place(self, group: Group) -> None:
        """Put a group into the next batch."""
        if not group:
            return
        if self.held is not None and (self.is_stuck or group[0].kind != SETTLE):  # no space: settles alone may pass
            self.held.append(group)
        else:
            self.layout.place(group, self._batch)

    # ---- to the writer and back

    def hand_over(self) -> None:
        """Give everything gathered to the writer, without waiting for the end of the turn."""
        self._is_urgent = True
        self.flush(may_wait=False)

    def settle_now(self) -> None:
        """Let the index know of what was settled in this turn, before somebody reads by it."""
        if self._settles or self._counted:
            self.flush(may_wait=False)

    def _submit(self) -> None:
        self._is_urgent = self._is_waiting = False
        entries, self._entries, self.layout.owed = self._entries + self.layout.owed, [], []
        for group in draft_settles(entries):
            self._batch.sync = True
            self.place(group)
        batch = self._batch
        batch.removals += self.segments.take_dead()
        if not batch.is_needed:
            return
        batch.receipt = self._drafted if self.held is None else self.granted
        batch.sync = batch.sync and self.always_sync
        batch.end = self.layout.end
        self._batch = Batch(self.era)
        self.in_flight.append(batch)
        self.submit(batch)

    def done(self, batch: Batch) -> None:
        """The writer has done this batch, and with it all before."""
        first: Batch | None = None
        while self.in_flight and first is not batch:
            first = self.in_flight.popleft()
            self.layout.finish(first)
        for segment in self.segments:
            if segment.is_sealed and not segment.is_safe and segment.id < batch.end[0]:
                segment.is_safe = True  # the writer syncs a segment before it begins the next
        self._written = batch.end
        self._grant(batch.receipt)
        self._grant_idle()
        self._tell_written()
        if self.segments.has_dead() or self._pending:
            self.hand_over()

    def emptied(self, segment: int) -> None:
        """All that counts in the segment is written elsewhere once the next batch is done."""
        self._batch.emptied.append(segment)

    def is_written(self, segment: int, offset: int) -> bool:
        """Whether the record there can be read: a copy has its place before it is written."""
        return (segment, offset) < self._written

    def when_written(self, call: Callable[[], None]) -> None:
        """Call back when more is written, or never will be."""
        self._when_written.append(call)

    def _tell_written(self) -> None:
        calls, self._when_written = self._when_written, []
        for call in calls:
            call()

    def _grant(self, receipt: int) -> None:
        if receipt <= self.granted:
            return
        self.granted = receipt
        ungranted = self._ungranted
        while ungranted and ungranted[0].receipt <= receipt:
            for place in ungranted.popleft().placements:
                log = self.lanes.get(place[0] << 8 | place[1])
                if log is not None:
                    log.close_through(receipt)
        self.on_granted(receipt)

    # ---- failures

    def failed(self, problem: OSError) -> None:
        """The writer could not do the batches in flight, and has let go of its file."""
        batches = [*self.in_flight, self._batch]
        self.in_flight.clear()
        self.era += 1
        self._batch = Batch(self.era)
        for batch in reversed(batches):
            self._undo(batch)
        if self.failure is not None:
            return
        if not is_shortage(problem):
            self.failure = f"the disk failed ({problem.strerror or problem})"
            self._lose()
            self._tell_written()
            return
        self.is_stuck = self.held is not None  # even the reserve was not enough
        held, self.held = self.held or [], []
        self.layout.leave_segment()
        for batch in batches:
            self._batch.changes += batch.changes
            self._batch.sync = self._batch.sync or batch.sync
            for group in batch.groups:
                self.layout.pin(group)
                self.place(group)
        self.held += held
        self._tell_written()
        if not self.is_stuck:
            self._batch.write(self.layout.roll().id, [])  # a life without a segment would look like a clean stop
            self.hand_over()

    def _undo(self, batch: Batch) -> None:
        """Copies are not made and files are not removed: what they were to replace is still there."""
        self.layout.undo_returns(batch.noted)
        for id_ in batch.removals:
            self.segments[id_].is_going = False
        for group in batch.groups:
            for draft in group:
                if draft.home is not None:
                    self.layout.move_back(draft)
        batch.groups = [group for group in batch.groups if group[0].home is None]

    def space_returned(self) -> None:
        """There is room again: what waited gets its places, then what was settled meanwhile leaves them."""
        held, self.held, self.is_stuck = self.held or [], None, False
        if self.layout.is_between:
            self._batch.write(self.layout.roll().id, [])
        time, ahead = self._wall(), self.wall_ahead()
        for group in held:
            self.place(self._draft_unit(group, time, ahead) if isinstance(group, Unit) else group)
        self._counted, self._late = self._late + self._counted, []
        self._batch.sync = self._batch.reserves = self._batch.unpins = True
        self.hand_over()

    @property
    def waits_for(self) -> int:
        """Bytes that wait for space."""
        return sum(
            group.size if isinstance(group, Unit) else sum(draft.size for draft in group) for group in self.held or ()
        )

    def _lose(self) -> None:
        self._settles.clear()
        self._counted.clear()
        self._returns.clear()
        if not (self._ungranted or self._batch.is_needed or self.granted < self.issued):
            return
        self.granted = self.issued
        self._ungranted.clear()
        self._pending.clear()
        self._entries.clear()
        self._batch = Batch(self.era)
        self.on_lost()

    # ---- start and stop

    def go_on(self, segments: Segments, next_segment: int, next_number: int) -> None:
        """From what an earlier life left."""
        self.layout.segments = segments
        self.layout.next_segment, self.layout.next_number = next_segment, next_number
        self._written = (next_segment, 0)

    def seal(self, after: Callable[[int], None] | None = None) -> None:
        """Begin a new segment: all before is on disk when ``after`` gets its number, in the writer. Each life begins
        with one, before anything is delivered: without its STOP record the stop was not clean."""
        self.hand_over()
        self.layout.begin(self._batch, after)
        self.hand_over()

    def stop(self) -> None:
        """The last word: all that came before is known to be on disk. Nothing follows it."""
        self.hand_over()
        self.is_stopped = True
        if self.failure is None and self.held is None:
            self.place([Draft(STOP, [b""])])
            self._batch.sync = True
            self._submit()
