"""The store as a whole: opens a data directory, recovers what is in it, and closes it.

``open`` and ``close`` block and may take seconds: call them in a worker. Everything else of the store runs on the loop
(the journal) or in the two threads that server/flusher.py gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from leveret.clock import Clock
from leveret.errors import StoreError
from leveret.store.checkpoint import Checkpoint, checkpoint_path
from leveret.store.checkpoints import Checkpoints
from leveret.store.data_dir import OF_CELL, DataDir
from leveret.store.definitions import Definitions
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files, SpareFiles
from leveret.store.journal import Journal
from leveret.store.lane_log import LaneLog
from leveret.store.pages import DiskPages
from leveret.store.reclaim import Reclaim
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import Progress, Recovered, recover
from leveret.store.replica_note import read_note
from leveret.store.replicator import LocalWriter, Replicator
from leveret.store.segments import Segments
from leveret.store.spill import FOLDER as SPILL
from leveret.store.writer import Writer


class StoreThreads(LocalWriter, Protocol):
    """The threads that the store works in: server/flusher.py."""

    def in_worker(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """See Store.in_worker."""

    def in_background(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """The same in another thread, for what may take seconds."""


class Opened(NamedTuple):
    definitions: Definitions
    recovered: Recovered
    is_new: bool


class Store:
    replicator: Replicator | None = None  # set before ``start``, if the journal is replicated
    loaded: Checkpoint | None = None  # set before ``open``, if the newest checkpoint is in memory

    def __init__(self, path: Path, *, segment_size: int, synced: bool, clock: Clock) -> None:
        self.path = path
        self.spare = SpareFiles()
        self.disk = Files(path, self.spare, clock.work_time)
        self.journal = Journal(Segments(segment_size), clock, always_sync=synced)
        self.pages = DiskPages(self.journal, self.disk, self.in_worker)
        self.reclaim = Reclaim(self.journal, self.disk, self.in_worker)
        self.checkpoints = Checkpoints(self.journal, self.disk, self._in_background)
        self._threads: StoreThreads | None = None
        self.writer: Writer | None = None
        self._segment_size = segment_size
        self._synced = synced
        self._clock = clock
        self._folder: DataDir | None = None
        self._db: DefinitionsDb | None = None

    def open(self, progress: Progress = lambda done, of: None) -> Opened:
        """Take the directory, and read what is in it."""
        try:
            return self._open(progress)
        except OSError as problem:
            self.close()
            raise StoreError(
                f"cannot use the data directory {self.path}: {problem}; set data_dir to another one"
            ) from problem
        except BaseException:
            self.close()
            raise

    def _open(self, progress: Progress) -> Opened:
        self._folder = DataDir.open(self.path)
        if self.replicator is None and any((self.path / name).exists() for name in OF_CELL):
            raise StoreError(
                f"data directory {self.path} belongs to a cell, and a broker of its own would make it differ from the "
                f"others: choose another with --data-dir, or take it out of the cell with 'leveret cluster leave "
                f"{self.path}'"
            )
        self.spare.refill()
        self._db = DefinitionsDb(self._folder.meta, synced=self._synced)
        definitions = self._db.load()
        for name in self.disk.names(SPILL):
            self.disk.remove(f"{SPILL}/{name}")
        self.checkpoints.writer.lineage = lineage = self._folder.lineage
        queues = {queue.id for queue in definitions.queues}
        recovered = recover(
            self.disk,
            queues,
            self._segment_size,
            progress=progress,
            lineage=lineage,
            loaded=self.loaded,
            is_member=self.replicator is not None and not self.replicator.accepts_damage,
        )
        self.loaded = None  # it has changed
        self.checkpoints.newest = recovered.checkpoint
        if (note := read_note(self.path)) is not None:  # the log may have removed the newest segment: no number twice
            recovered.next_segment = max(recovered.next_segment, note.segment + 1)
        highest = max(definitions.highest_queue, recovered.highest_queue)
        self.writer = Writer(self.disk, self._db, work_time=self._clock.work_time)
        is_new = not definitions.vhosts and not definitions.users
        return Opened(definitions._replace(highest_queue=highest), recovered, is_new)

    def start(self, threads: StoreThreads) -> None:
        self._threads = threads
        if self.replicator is not None:
            self.replicator.start(threads, self.journal.streams)
            self.journal.streams.start(self.replicator)
            self.pages.on_damage = None if self.replicator.accepts_damage else self.replicator.damaged
            self.checkpoints.take_often()
            if self.checkpoints.newest is None:
                self.checkpoints.hurry()  # other members fetch it
        self.journal.start(self.replicator or threads)

    def in_worker(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """Run a blocking job in the reader's thread; ``done`` is called with its result or exception, on the loop."""
        assert self._threads is not None
        self._threads.in_worker(job, done)

    def _in_background(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        assert self._threads is not None
        self._threads.in_background(job, done)

    def adopt(self, recovered: Recovered) -> list[RecoveredLane]:
        """On the loop: the journal continues after what was found. Returns the lanes that have messages or had some."""
        journal = self.journal
        journal.resume(recovered.segments, recovered.next_segment, recovered.next_number, recovered.highest_queue)
        journal.layout.placed, journal.layout.work = (
            recovered.bytes_read,
            recovered.work,
        )  # a crash would cost that again
        for key, lane in recovered.lanes.items():
            journal.layout.owed += lane.owed
            log = journal.lanes[key] = LaneLog()
            log.index, log.tries, log.deadlines = lane.index, lane.tries, lane.deadlines
            log.synced = log.tail = lane.tail
            if not recovered.clean:
                lane.redelivered_below = lane.tail
        return list(recovered.lanes.values())

    def newest_checkpoint(self) -> tuple[int, Path] | None:
        """The newest complete checkpoint: the segment that follows it, and its file. It is valid for all members that
        follow this node. The file is removed when there is a newer one: open it at once, and ask again if it is gone.
        ``checkpoints.when_written`` reports new ones."""
        newest = self.checkpoints.newest
        return None if newest is None else (newest, self.path / checkpoint_path(newest))

    def copy_definitions(self, path: Path) -> None:
        assert self._db is not None
        self._db.copy_to(path)

    def abandon(self) -> None:
        """The writer's thread hangs: leave its files open, and release the directory."""
        self.spare.close()
        if self._folder is not None:
            self._folder.close()
        self.writer = self._db = self._folder = None

    def close(self) -> None:
        try:
            if self.writer is not None and self.journal.failure is None:
                self.writer.close()
                if self.replicator is None:  # else the next leader waits, and the claim of another removes it
                    self.checkpoints.write_last()
            elif self.writer is not None:
                self.writer.abandon(cut=False)
        finally:
            self.spare.close()
            if self._db is not None:
                self._db.close()
            if self._folder is not None:
                self._folder.close()
            self.writer = self._db = self._folder = None
