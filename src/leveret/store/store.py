"""The store as a whole: a data directory opened, recovered, and put back in order at the end.

``open`` and ``close`` block and may take seconds: call them in a worker. Everything else of the store runs on the loop
(the journal) or in the two threads that server/flusher.py gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from leveret.errors import StoreError
from leveret.store.data_dir import DataDir
from leveret.store.definitions import Definitions
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files, SpareFiles
from leveret.store.journal import Journal
from leveret.store.lane_log import LaneLog
from leveret.store.pages import DiskPages
from leveret.store.reclaim import Reclaim
from leveret.store.recovery import Progress, Recovered, RecoveredLane, recover
from leveret.store.segments import Segments
from leveret.store.spill import FOLDER as SPILL
from leveret.store.spill import InWorker
from leveret.store.writer import Writer


class Opened(NamedTuple):
    definitions: Definitions
    recovered: Recovered
    is_new: bool


class Store:
    def __init__(self, path: Path, *, segment_size: int, synced: bool, wall: Callable[[], float]) -> None:
        self.path = path
        self.spare = SpareFiles()
        self.disk = Files(path, self.spare)
        self.journal = Journal(Segments(segment_size), wall)
        self.journal.always_sync = synced
        self.in_worker: InWorker = lambda job, done: done(job())
        self.pages = DiskPages(self.journal, self.disk, lambda job, done: self.in_worker(job, done))
        self.reclaim = Reclaim(self.journal, self.disk, lambda job, done: self.in_worker(job, done))
        self.writer: Writer | None = None
        self._segment_size = segment_size
        self._synced = synced
        self._folder: DataDir | None = None
        self._db: DefinitionsDb | None = None

    def open(self, progress: Progress = lambda done, of: None) -> Opened:
        """Take the directory, and read what is in it."""
        try:
            return self._open(progress)
        except OSError as problem:
            self.close()
            raise StoreError(
                f"cannot use the data directory {self.path}: {problem}; choose another with --data-dir"
            ) from problem
        except BaseException:
            self.close()
            raise

    def _open(self, progress: Progress) -> Opened:
        self._folder = DataDir.open(self.path)
        self.spare.refill()
        self._db = DefinitionsDb(self._folder.meta, synced=self._synced)
        definitions = self._db.load()
        for name in self.disk.names(SPILL):
            self.disk.remove(f"{SPILL}/{name}")
        recovered = recover(
            self.disk, {queue.id for queue in definitions.queues}, self._segment_size, progress=progress
        )
        highest = max(definitions.highest_queue, recovered.highest_queue)
        self.writer = Writer(self.disk, self._db)
        is_new = not definitions.vhosts and not definitions.users
        return Opened(definitions._replace(highest_queue=highest), recovered, is_new)

    def adopt(self, recovered: Recovered) -> list[RecoveredLane]:
        """On the loop: the journal goes on from what was found; the lanes with messages or a past."""
        journal = self.journal
        journal.go_on(recovered.segments, recovered.next_segment, recovered.next_number)
        for key, lane in recovered.lanes.items():
            journal.layout.owed += lane.owed
            log = journal.lanes[key] = LaneLog()
            log.index, log.tries, log.synced = lane.index, lane.tries, lane.tail
            if not recovered.clean:
                lane.redelivered_below = lane.tail
        return list(recovered.lanes.values())

    def copy_definitions(self, path: Path) -> None:
        assert self._db is not None
        self._db.copy_to(path)

    def abandon(self) -> None:
        """The writer's thread hangs: leave to it what it holds, and let go of the directory."""
        self.spare.close()
        if self._folder is not None:
            self._folder.close()
        self.writer = self._db = self._folder = None

    def close(self) -> None:
        if self.writer is not None and self.journal.failure is None:
            self.writer.close()
        self.spare.close()
        if self._db is not None:
            self._db.close()
        if self._folder is not None:
            self._folder.close()
        self.writer = self._db = self._folder = None
