"""The log on disk, as the event loop sees it.  Hot path.

Theory of operation. Everything here runs on the broker's loop and touches no file. During a tick, appends and settles
are only noted. ``flush``, at the end of the tick, does the work once for all of them:

    count      which appends were settled before they were written? (a consumer without acks took them): drop them,
               their receipts are granted early
    draft      the rest becomes PUBLISH records, one per run, shared by all queues the run went to
    settle     settled messages leave the index; SETTLE entries gather, and wait for the next batch
    hand over  records get their places (segment, offset) and go to the writer as one batch (store/batch_queue.py)

The writer takes all batches that wait, writes and syncs them at once, and reports it; then the receipts are granted. So
one sync serves everything that arrived while the previous one ran. Settles alone are lazy: they go with the next batch,
or after a while by themselves (``submit_later``). Large contents are drafted only when the writer is free to take them,
and messages of queues with quick consumers, or for whose receipts nothing waits, a moment later (store/ack_wait.py):
what a consumer settles until then is never written.

For every lane of every queue an index (store/run_index.py) shows where each live message is. Reclaim and paging use it;
see store/reclaim.py and store/pages.py. When a write fails for want of space, or of file descriptors, everything not
granted gets a new place. Any other failure ends the writing for good: what is not granted is reported as lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from leveret.clock import Clock
from leveret.errors import ResourceFault
from leveret.message import Message
from leveret.store.ack_wait import MOST_WAITING, AckWait
from leveret.store.batch import Append, Batch, Draft, Group, Settled, Unit
from leveret.store.batch_queue import BatchQueue, BatchWriter
from leveret.store.definitions import Change
from leveret.store.disk import is_shortage
from leveret.store.drafts import draft_append, draft_returns, draft_settles, draft_unit, in_runs
from leveret.store.journal_streams import JournalStreams
from leveret.store.layout import Layout
from leveret.store.log import GRANTED, LogListener, NoListener, Placement
from leveret.store.records import STOP, Entry
from leveret.store.segments import Segments
from leveret.store.stream_log import StreamLog

MOST_ENTRIES = 65536  # that may wait for the next batch
LARGE = 16 << 10  # bytes of content that are worth not writing


class Journal:
    def __init__(self, segments: Segments, clock: Clock, *, always_sync: bool = True) -> None:
        self.issued = GRANTED
        self.listener: LogListener = NoListener()
        self.large = LARGE
        self.clock = clock
        self.layout = Layout(segments)
        self.lanes = self.layout.lanes
        self.batches = BatchQueue(self.layout, always_sync)
        self.streams: StreamLog = JournalStreams(self)
        self.ack_wait = AckWait(self.lanes)
        self.failure: str | None = None
        self.is_stopped = False
        self.granted = GRANTED
        self._pending: list[Append | Unit] = []
        self._settles: list[Settled] = []
        self._counted: list[Settled] = []  # settled, and still in the index
        self._returns: list[Entry] = []
        self._entries: list[Entry] = []  # settled, on no disk yet
        self._late: list[Settled] = []  # settled while the message itself waits for space
        self._ungranted: deque[Append] = deque()
        self._drafted = GRANTED  # receipts up to this one are in batches, or need none
        self._unit: Unit | None = None
        self._is_urgent = False
        self._is_waiting = False  # submit_later() was called
        self._publish_time = 0.0  # of the records that are drafted next; 0: when they are drafted

    def start(self, writer: BatchWriter) -> None:
        self.batches.writer = writer

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
            if log.quick <= 0:
                self.ack_wait.has_slow = True
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
        self.streams.forget(queue)

    def record(self, change: Change) -> int:
        self.refuse_if_failed()
        self.batches.next.changes.append(change)
        self._is_urgent = True
        self.issued += 1
        return self.issued

    def publish_time(self) -> float:
        """The wall time in the records of what is appended now."""
        self._publish_time = self._publish_time or self.clock.wall()
        return self._publish_time

    def promise(self) -> int:
        self._is_urgent = self.batches.next.sync = True
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
                self.ack_wait.is_pressed = True
                self.issued += 1

    @property
    def is_consistent(self) -> bool:
        """Whether the index is what the records say that were placed so far: no settle waits for its record."""
        return self.failure is None and self.batches.held is None and not (self._entries or self.layout.owed)

    def refuse_if_failed(self) -> None:
        if self.failure is not None:
            raise ResourceFault(f"the store is read-only since {self.failure}: restart the broker")

    # ---- the end of a tick

    def flush(self, may_wait: bool = True) -> None:
        if self._unit is not None or self.is_stopped:
            return  # in the middle of a group: at the end of the tick
        if self.failure is not None:
            self._lose()
            return
        try:
            self._count_settled()
            if not (may_wait and self._is_better_later()):
                self._flush()
        except Exception as problem:
            self._stop_granting(problem)
            raise

    def _stop_granting(self, problem: Exception) -> None:
        """After a bug: never grant what may not have been written."""
        if self.failure is None:
            self.failure = f"a bug ({problem!r})"
            self._lose()

    def _count_settled(self) -> None:
        if self._settles:
            settles, self._settles = self._settles, []
            self._counted += settles
            if early := self.layout.count_settled(settles):
                self.listener.granted_early(early)

    def _is_better_later(self) -> bool:
        """Large contents, and the writer is busy anyway: they may be settled before it can take them. Or contents that
        are settled soon, as it seems, or that nothing waits for."""
        if not self._pending:
            return False
        first = self._pending[0] if self.batches.in_flight else None
        return (isinstance(first, Append) and len(first.messages[0][0]) >= self.large) or self._awaits_acks()

    def _awaits_acks(self) -> bool:
        wait, writer = self.ack_wait, self.batches.writer
        if wait.is_pressed or self._is_urgent or writer is None or self.batches.held is not None:
            return False
        if wait.has_slow and self.listener.is_awaiting:
            return False
        if len(self._pending) > MOST_WAITING or len(self._counted) > MOST_WAITING:
            return False
        if not wait.is_timed:
            wait.begin(self.issued)
            writer.wait_for_acks()
        return True

    def acks_awaited(self) -> None:
        """A while has passed since the first append began to wait for its acks."""
        if self.is_stopped or self.failure is not None:
            return
        try:
            self._after_ack_wait()
        except Exception as problem:
            self._stop_granting(problem)
            raise

    def _after_ack_wait(self) -> None:
        self._count_settled()
        if self.batches.writer is not None and not self.listener.is_awaiting and self.ack_wait.is_patient():
            self.batches.writer.wait_for_acks()
            return
        if self.ack_wait.was_in_vain(self._pending):
            self.hand_over()
            return
        self._pending = self.ack_wait.unsettled(self._pending)
        if not self._pending:
            self.flush(may_wait=False)
            return
        first = self._pending[0]
        if isinstance(first, Append):
            self._drafted = first.receipt - 1  # all before it is in batches, or was settled
            self._grant_idle()
        self.flush()

    def _flush(self) -> None:
        if self._pending:
            self._draft_pending()
        if self._counted:
            settles, self._counted = self._counted, []
            self._entries += self._take_settled(settles)
        if self._returns:
            returns, self._returns = self._returns, []
            self.batches.place([draft_returns(returns)])
        self._drafted = self.issued
        if self._is_urgent or len(self._entries) > MOST_ENTRIES:
            self._submit()
        elif (self._entries or self.batches.next.writes) and not self._is_waiting and self.batches.writer is not None:
            self._is_waiting = True
            self.batches.writer.submit_later()
        elif self.granted < self.issued:
            self._grant_idle()

    def _grant_idle(self) -> None:
        """When nothing is on its way, all that was issued is done: it was settled before it had to be written."""
        batches = self.batches
        if not batches.in_flight and batches.held is None and not batches.next.is_needed:
            self._grant(self._drafted)

    def _draft_pending(self) -> None:
        pending, self._pending = self._pending, []
        self.ack_wait.is_pressed = self.ack_wait.has_slow = False
        batches, batch = self.batches, self.batches.next
        time, ahead = self._publish_time or self.clock.wall(), self.clock.wall_ahead()
        self._publish_time = 0.0
        for append in in_runs(pending):
            self._is_urgent = True
            if not isinstance(append, Unit):
                batch.sync = batch.sync or append.synced
                batches.place(draft_append(append, time, ahead))
                continue
            batch.sync = True
            if batches.held is not None:  # what it settles may not have a place yet
                batches.held.append(append)
            else:
                batches.place(self._draft_unit(append, time, ahead))

    def _draft_unit(self, unit: Unit, time: float, ahead: float) -> Group:
        return draft_unit(unit, self._take_settled(unit.settles), time, ahead)

    def _take_settled(self, settles: list[Settled]) -> list[Entry]:
        """Out of the index. While the disk is full some are not in it yet: they are looked for again later."""
        if self.batches.held is not None:
            self._late += settles
        return self.layout.take_settled(settles)

    # ---- to the writer and back

    def hand_over(self) -> None:
        """Give everything gathered to the writer, without waiting for the end of the tick."""
        self._is_urgent = True
        self.flush(may_wait=False)

    def settle_now(self) -> None:
        """Take what was settled in this tick out of the index, before it is read."""
        if self._settles or self._counted:
            self.flush(may_wait=False)

    def _submit(self) -> None:
        self._is_urgent = self._is_waiting = False
        entries, self._entries, self.layout.owed = self._entries + self.layout.owed, [], []
        for group in draft_settles(entries):
            self.batches.next.sync = True
            self.batches.place(group)
        self.batches.submit(self._drafted if self.batches.held is None else self.granted)

    def done(self, batch: Batch) -> None:
        """The writer has done this batch, and with it all before."""
        self.batches.finish(batch)
        self._grant(batch.receipt)
        self._grant_idle()
        self.batches.call_when_written()
        if self.segments.has_dead() or (self._pending and not self._awaits_acks()):
            self.hand_over()

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
        self.listener.granted(receipt)

    # ---- failures

    def failed(self, problem: OSError) -> None:
        """The writer failed to write the batches in flight, and has closed its file."""
        batches = self.batches.take_back()
        if self.failure is not None:
            return
        if is_shortage(problem):
            self.batches.hold(batches)
            if not self.batches.is_stuck:
                self.hand_over()
        else:
            self.failure = f"the disk failed ({problem.strerror or problem})"
            self._lose()
            self.batches.call_when_written()

    def space_returned(self) -> None:
        """There is space again: what was held gets its places, then what was settled meanwhile leaves them."""
        held, time, ahead = self.batches.release(), self.clock.wall(), self.clock.wall_ahead()
        for group in held:
            self.batches.place(self._draft_unit(group, time, ahead) if isinstance(group, Unit) else group)
        self._counted, self._late = self._late + self._counted, []
        batch = self.batches.next
        batch.sync = batch.reserves = batch.unpins = True
        self.hand_over()

    def _lose(self) -> None:
        self._settles.clear()
        self._counted.clear()
        self._returns.clear()
        if not (self._ungranted or self.batches.next.is_needed or self.granted < self.issued):
            return
        self.granted = self.issued
        self._ungranted.clear()
        self._pending.clear()
        self._entries.clear()
        self.batches.clear_next()
        self.listener.lost()

    # ---- start and stop

    def resume(self, segments: Segments, next_segment: int, next_number: int, highest_queue: int) -> None:
        """Continue after the segments of previous runs."""
        self.layout.segments, self.layout.highest_queue = segments, highest_queue
        self.layout.next_segment, self.layout.next_number = next_segment, next_number
        self.batches.start_at(next_segment)

    def seal(self, after: Callable[[int], None] | None = None) -> None:
        """Begin a new segment: all before is on disk when ``after`` gets its number, in the writer. Each run begins
        with one, before anything is delivered: without its STOP record the shutdown was not clean."""
        self.hand_over()
        self.layout.begin(self.batches.next, after)
        self.hand_over()

    def stop(self) -> None:
        """Write the clean-shutdown record: all before it is known to be on disk, and nothing follows it."""
        self.hand_over()
        self.is_stopped = True
        if self.failure is None and self.batches.held is None:
            self.batches.place([Draft(STOP, [b""])])
            self.batches.next.sync = True
            self._submit()
