"""When checkpoints are taken, and how: a snapshot on the event loop in small steps, then a file in a worker.

A snapshot begins with a new segment, so that its position is the beginning of a file, and a new epoch of the layout.
Each lane is frozen the first time that it changes in this epoch, the others some at a time; a frozen lane shares its
blocks with the snapshot, and a block is copied before it changes (store/run_index.py). So all lanes are frozen as they
were when the segment began, no step takes long, and memory is copied only where something changes meanwhile.

The file is written once the writer reports that all of the lower segments are synced. If a write fails before that, the
snapshot is dropped: the records that it includes are placed again elsewhere.

A checkpoint is due when a recovery would have to read much: ``EVERY`` bytes, or ``MOST_WORK`` records and entries.
After a large one the next is due later, in proportion to its size, so that their cost is bounded too. If other nodes
wait to take over, they are taken more often, whatever the size of the segments: a client notices each second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from leveret.logs import get_log
from leveret.store.checkpoint import CheckpointWriter, Snapshot, Written
from leveret.store.disk import Disk
from leveret.store.journal import Journal
from leveret.store.lane_log import LaneLog
from leveret.store.segments import Segment
from leveret.store.spill import InWorker

EVERY = 256 << 20  # bytes of new records
MOST_WORK = 500_000  # new records and entries
SHORT_WORK = 50_000  # the same in a cell: half a second of a take-over
BYTES_PER_WORK = 8  # a shift: records and entries that are worth a large file, one per 256 bytes of it
SHORT_BYTES = 10  # the same in a cell: one per KiB
SHORT_PAUSE = 5.0  # seconds between two in a cell
LITTLE_WORK = 2_000  # records and entries that a take-over may read, for which no checkpoint is worth it
STEP = 1000  # lanes and blocks that are frozen at once


class Checkpoints:
    def __init__(self, journal: Journal, disk: Disk, in_worker: InWorker, every: int = EVERY) -> None:
        self.writer = CheckpointWriter(disk)
        self.every = every
        self.most_work = MOST_WORK
        self._pause: float | None = None  # seconds between two, if they are taken often
        self._not_before = 0.0
        self.is_running = False  # a snapshot is taken or written
        self.newest: int | None = None  # the segment that follows the newest complete one
        self._listeners: list[Callable[[int], None]] = []
        self._journal = journal
        self._disk = disk
        self._in_worker = in_worker
        self._snapshot: Snapshot | None = None
        self._waiting: list[tuple[int, LaneLog]] = []  # lanes that are not part of the snapshot yet
        self._era = 0  # in which the snapshot began
        self._is_synced = False  # all that the snapshot covers
        self._is_stepping = False
        self._begun_at = (0, 0)  # bytes and work when the last one was taken
        self._log = get_log("store")
        self.schedule(0)

    def consider(self) -> None:
        """Called after each batch that was written: continue, or begin one if it is due."""
        layout = self._journal.layout
        if self._snapshot is not None:
            self._go_on()
        elif (layout.placed >= self._due_placed or layout.work >= self._due_work) and self._may_begin:
            self._begin()

    @property
    def _may_begin(self) -> bool:
        """Not while another is written, and not behind a small segment, which would have to be merged later."""
        layout = self._journal.layout
        if self._pause is not None:
            return not self.is_running and self._journal.clock.now() >= self._not_before
        is_late = layout.placed >= 2 * self._due_placed - self._begun_at[0]
        return not self.is_running and (is_late or layout.end[1] >= layout.segments.full_size // 2)

    def schedule(self, size: int) -> None:
        """When the next one is due; ``size`` is that of the last file."""
        placed, work = self._begun_at
        self._due_placed = placed + max(self.every, size)
        self._due_work = work + max(self.most_work, size >> (BYTES_PER_WORK if self._pause is None else SHORT_BYTES))

    def take_often(self) -> None:
        """Other nodes fetch them, and may have to take over."""
        self.most_work, self._pause = SHORT_WORK, SHORT_PAUSE
        self.schedule(0)

    def hurry(self) -> None:
        """The next one is due now: with the next batch that is written."""
        self._due_placed, self._not_before = 0, 0.0

    def take_now(self) -> bool:
        """Another node is about to take over: begin one, if there is much behind the last; whether one is due."""
        layout = self._journal.layout
        if layout.work - self._begun_at[1] < LITTLE_WORK:
            return False
        self.hurry()
        self.consider()
        return True

    def when_written(self, call: Callable[[int], None]) -> None:
        """Call with ``newest`` whenever a checkpoint is complete, on the loop."""
        self._listeners.append(call)

    # ---- the snapshot

    def _begin(self) -> None:
        journal, layout = self._journal, self._journal.layout
        journal.hand_over()
        if not journal.is_consistent:
            return
        self.is_running = True
        self._is_synced = False
        layout.begin(journal.batches.next, self._synced)
        self._snapshot = self._new_snapshot(layout.end[0], is_clean=False)
        self._era = journal.batches.era
        self.schedule(0)
        if self._pause is not None:
            self._not_before = journal.clock.now() + self._pause
        journal.hand_over()
        self._go_on()

    def _synced(self, segment: int) -> None:
        """In the writer's thread."""
        self._is_synced = True

    def _new_snapshot(self, following: int, *, is_clean: bool) -> Snapshot:
        layout = self._journal.layout
        layout.epoch += 1
        self._begun_at = layout.placed, layout.work
        self._waiting = list(layout.lanes.items())
        snapshot = Snapshot(following, layout.next_number, layout.highest_queue, is_clean=is_clean)
        snapshot.segments = [_copy(segment) for segment in layout.segments if segment.id < following]
        return snapshot

    def _go_on(self) -> None:
        journal, snapshot = self._journal, self._snapshot
        if snapshot is None:
            return
        has_failed = journal.failure is not None or (journal.batches.era != self._era and not self._is_synced)
        if has_failed or journal.is_stopped:
            self._snapshot, self._waiting, self.is_running = None, [], False
        elif self._waiting and not self._is_stepping:
            self._is_stepping = True
            self._freeze_some(snapshot, STEP)
            self._in_worker(lambda: None, self._stepped)  # other work of the loop comes in between
        elif not self._waiting and self._is_synced:
            self._snapshot = None
            self._in_worker(lambda: self.writer.write(snapshot), partial(self._written, snapshot.following))

    def _stepped(self, result: object) -> None:
        self._is_stepping = False
        self._go_on()

    def _freeze_some(self, snapshot: Snapshot, most: int) -> None:
        epoch = self._journal.layout.epoch
        while self._waiting and most > 0:
            key, log = self._waiting.pop()
            if log.epoch != epoch:
                log.freeze(epoch)
            assert log.frozen is not None
            snapshot.lanes.append((key, log.frozen))
            most -= 1 + len(log.frozen.blocks)
            log.frozen = None

    def _written(self, following: int, result: object) -> None:
        self.is_running = False
        if self._journal.is_stopped:
            return  # the last one is being written
        if not isinstance(result, Written):
            self._log.warning("checkpoint cannot be written, the next start will take longer", reason=str(result))
            return
        self.schedule(result.size)
        for lane, deadlines in result.deadlines:
            lane.deadlines.replace(lane.timed, deadlines)
        self._log.debug("checkpoint written", bytes=result.size)
        self.newest = following
        for call in self._listeners:
            call(following)

    # ---- the clean shutdown

    def write_last(self) -> None:
        """After the clean-shutdown record, when all is synced. Blocks. Another one may still be written meanwhile, in a
        thread that hangs: this one has a writer of its own, and no step on the loop touches its snapshot."""
        journal = self._journal
        if not journal.is_stopped or not journal.is_consistent or journal.batches.in_flight:
            return
        snapshot = self._new_snapshot(journal.layout.next_segment, is_clean=True)
        self._freeze_some(snapshot, 1 << 62)
        try:
            CheckpointWriter(self._disk, self.writer.lineage).write(snapshot)
        except OSError as problem:
            self._log.warning("checkpoint cannot be written, the next start will take longer", reason=str(problem))


def _copy(segment: Segment) -> Segment:
    copy = Segment(segment.id, segment.size)
    copy.content, copy.live, copy.live_content = segment.content, segment.live, segment.live_content
    copy.marks, copy.is_damaged = segment.marks, segment.is_damaged
    copy.needs, copy.after = segment.needs.copy(), segment.after.copy()
    return copy
