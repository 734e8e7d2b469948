"""The only code that writes the journal. Runs in a thread of its own (server/flusher.py).

``run`` does all of the batches it is given by one commit, one write per segment and one sync. When it fails, the disk
may hold any part of them; the journal decides what follows. A failed file is never written again: what the journal
does next begins a new segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import EIO
from typing import Protocol

from leveret.logs import get_log
from leveret.store.batch import Batch
from leveret.store.definitions import Change
from leveret.store.disk import WritableDisk
from leveret.store.records import segment_head

FOLDER = "journal"
RESERVE = f"{FOLDER}/reserve"
RESERVE_SIZE = 1 << 20  # bytes


def segment_path(id_: int) -> str:
    return f"{FOLDER}/{id_:010d}.seg"


class Committing(Protocol):
    """The definitions database, as the writer sees it."""

    def apply(self, changes: Sequence[Change]) -> None:
        """All of them, durable on return."""


class Writer:
    def __init__(
        self,
        disk: WritableDisk,
        definitions: Committing,
        reserve_size: int = RESERVE_SIZE,
        *,
        work_time: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``work_time``: seconds, to measure how long the disk takes."""
        self.reserve_size = reserve_size
        self._disk = disk
        self._definitions = definitions
        self._has_reserve = False
        self._segment = 0
        self._handle: int | None = None
        self._unsynced = False
        self._size = 0  # of the current segment
        self._good = 0  # of it, when the last run was done
        self._work_time = work_time
        # Since the start, for metrics: other threads read them.
        self.writes, self.written_bytes, self.write_seconds = 0, 0, 0.0
        self.syncs, self.sync_seconds = 0, 0.0

    def run(self, batches: Sequence[Batch]) -> None:
        begun = 0
        for stop, batch in enumerate(batches, 1):
            if batch.after is not None or stop == len(batches):
                self._run(batches[begun:stop])
                begun = stop
            if batch.after is not None:
                batch.after(self._segment)

    def _run(self, batches: Sequence[Batch]) -> None:
        if not self._has_reserve and any(batch.reserves for batch in batches):
            self.reserve()
        changes = [change for batch in batches for change in batch.changes]
        if changes:
            self._definitions.apply(changes)
        for batch in batches:
            for segment, buffers in batch.writes:
                self._append(segment, buffers)
        if self._unsynced and any(batch.sync or batch.removals for batch in batches):
            self._sync()
        for batch in batches:
            if batch.removals:
                self._remove(batch)
        self._good = self._size

    def _remove(self, batch: Batch) -> None:
        """A file that cannot be removed takes space but does no harm, as long as it stays accounted for."""
        try:
            for segment in batch.removals:
                self._disk.remove(segment_path(segment))
            self._disk.sync_folder(FOLDER)
        except OSError as problem:
            batch.kept = batch.removals
            get_log("store").warning("unused journal files cannot be removed", reason=str(problem))

    def _append(self, segment: int, buffers: list[bytes]) -> None:
        if segment != self._segment:
            self._begin(segment)
        assert self._handle is not None
        self._unsynced = True
        begun = self._work_time()
        self._disk.append(self._handle, buffers)
        self.write_seconds += self._work_time() - begun
        size = sum([len(buffer) for buffer in buffers])
        self._size += size
        self.writes, self.written_bytes = self.writes + 1, self.written_bytes + size

    def _begin(self, segment: int) -> None:
        """The head and the name of a new segment are synced before the first record is written."""
        self.close()
        path = segment_path(segment)
        self._handle = self._disk.create(path)
        self._segment = segment
        head = segment_head(segment)
        self._size = self._good = len(head)
        self._disk.append(self._handle, [head])
        self._sync()
        self._disk.sync_folder(FOLDER)

    def _sync(self) -> None:
        """After a failed sync the state of the disk is unknown, even if the reason was a lack of space."""
        assert self._handle is not None
        begun = self._work_time()
        try:
            self._disk.sync(self._handle)
        except OSError as problem:
            raise OSError(EIO, f"sync failed: {problem.strerror or problem}") from problem
        finally:
            self.syncs, self.sync_seconds = self.syncs + 1, self.sync_seconds + self._work_time() - begun
        self._unsynced = False

    def abandon(self, cut: bool) -> None:
        """After a failure: close the file for good. ``cut`` it behind the last good record when the disk is full;
        a file that the system failed to write or sync is left as it is."""
        handle, segment = self._handle, self._segment
        self._handle, self._segment, self._unsynced = None, 0, False
        if handle is not None:
            self._disk.close(handle)
        if cut:
            self._disk.remove(RESERVE)
            self._has_reserve = False
            if handle is not None:
                self._disk.truncate(segment_path(segment), self._good)

    def reserve(self) -> None:
        """Reserve space for settles, which free more space when the disk is full."""
        if not self._has_reserve:
            self._disk.remove(RESERVE)
            handle = self._disk.create(RESERVE)
            try:
                self._disk.append(handle, [bytes(self.reserve_size)])
            finally:
                self._disk.close(handle)
            self._has_reserve = True

    def close(self) -> None:
        """Sync and close the file."""
        if self._handle is not None:
            if self._unsynced:
                self._sync()
            handle, self._handle = self._handle, None
            self._disk.close(handle)
            self._segment = 0
