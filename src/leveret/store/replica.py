"""A data directory that follows the journal of another node: the same bytes in the same segments, the same definitions.

Rules of this file:

- Writes come in the order of the leader's journal, and each begins where the one before it ended. Anything else would
  be another journal, and is refused.
- The directory may hold more than what was applied so far: batches that were written before a crash and are applied
  again, or that this node wrote as the leader and never granted. They are overwritten as the log
  proves what belongs there. The rest is removed when the claim of another node is read: then the log will never have
  it. ``cut`` does the same before this node leads.
- Applying a batch again has no effect. So a note may be older than the directory (store/replica_note.py).
- After a batch that could not be applied, nothing is applied or noted any more until the directory is opened again.
- Checkpoints of the index come from the leader (store/replica_checkpoints.py).
- The files of streams are written from the records of the journal (store/replica_streams.py).

All calls block: a worker makes them, one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from leveret.errors import StoreError
from leveret.store.checkpoint import Checkpoint
from leveret.store.data_dir import DataDir
from leveret.store.definitions import Change
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files, read_pieces
from leveret.store.received_snapshot import finish_installation
from leveret.store.records import SEGMENT_HEAD, segment_head
from leveret.store.replica_checkpoints import ReplicaCheckpoints
from leveret.store.replica_note import ReplicaNote, read_note, remove_note, write_note
from leveret.store.replica_streams import ReplicaStreams
from leveret.store.writer import FOLDER, segment_path

SEGMENT_NAME = re.compile(r"([0-9]{10})\.seg")
ReplicaWrite = tuple[int, int, bytes | memoryview]  # segment, offset, data


class Replica:
    def __init__(self, path: Path, cell: str) -> None:
        self._path = path
        self._note = ReplicaNote(cell)
        self._disk = Files(path)
        self._streams = ReplicaStreams(self._disk)
        self._checkpoints = ReplicaCheckpoints(self._disk, cell)
        self._epoch = 0  # of the leader whose batches are applied
        self._folder: DataDir | None = None
        self._db: DefinitionsDb | None = None
        self._handle: int | None = None
        self._segment, self._offset = 0, 0  # where the journal ends
        self._has_failed = False  # to apply a batch

    def open(self, may_found: bool = False) -> ReplicaNote:
        """Take the directory. Returns up to where of the log it is. ``may_found``: it may have data of a single node,
        which a new log begins with; its note is then to be written by ``found``."""
        self._folder = DataDir.open(self._path)
        try:
            finish_installation(self._path)
            self._db = DefinitionsDb(self._folder.meta)
            self._note = self._check(read_note(self._path), may_found)
            self._checkpoints.open(self._folder)
            self._streams.open(self._db.load().queues)
        except BaseException:
            self.close()
            raise
        self._segment, self._offset = self._note.segment, self._note.offset
        self._epoch = self._note.epoch
        return self._note

    def _check(self, note: ReplicaNote | None, may_found: bool) -> ReplicaNote:
        if note is None:
            is_base = self._has_data()
            if is_base and not may_found:
                raise StoreError(
                    f"data directory {self._path} has messages or definitions of a node that was in no cell, and the "
                    "cell has begun already: choose an empty one with --data-dir, the node will copy the cell's data. "
                    "To found a cell with this one, choose a new name with --cell"
                )
            if not is_base:
                write_note(self._path, self._note)  # from now on it belongs to the cell
            return self._note._replace(is_base=is_base)
        if note.cell != self._note.cell:
            raise StoreError(
                f"data directory {self._path} belongs to the cell {note.cell!r}, not to {self._note.cell!r}: choose "
                "another with --data-dir, or correct the name of the cell"
            )
        return note

    def _has_data(self) -> bool:
        assert self._db is not None
        definitions = self._db.load()
        return bool(definitions.vhosts or definitions.users or self._segments())

    def found(self, log: str, epoch: int) -> ReplicaNote:
        """A new log begins with this directory: with all that is in its journal, whether a former log had it or not."""
        self._segment, self._offset = max(journal_end(self._path), (self._note.segment, self._note.offset))
        self._note = ReplicaNote(self._note.cell, 0, epoch, 0, self._segment, self._offset, log, is_base=True)
        write_note(self._path, self._note)
        return self._note

    def follow(self, log: str) -> None:
        """The next note is about this log."""
        self._note = self._note._replace(log=log)

    def leave(self) -> None:
        """Undo ``found``: the directory is that of a single node again."""
        remove_note(self._path)

    def apply(
        self,
        changes: Sequence[Change],
        writes: Sequence[ReplicaWrite],
        removals: Iterable[int],
        trims: Iterable[tuple[int, int]],
    ) -> None:
        """One batch, in the order of the log."""
        self._check_failure()
        self._has_failed = True
        assert self._db is not None
        self._db.apply(changes)
        self._streams.change(changes)
        for segment, offset, data in writes:
            self._write(segment, offset, data)
        self._streams.write(writes)
        for segment in removals:
            self._disk.remove(segment_path(segment))
        for stream, first in trims:
            self._streams.trim(stream, first)
        self._has_failed = False

    def _check_failure(self) -> None:
        if self._has_failed:
            raise StoreError(
                f"an earlier batch of the replicated log could not be applied to {self._path}: see the log"
            )

    def _write(self, segment: int, offset: int, data: bytes | memoryview) -> None:
        begins = segment > self._segment and offset == SEGMENT_HEAD.size
        if not begins and (segment, offset) != (self._segment, self._offset):
            raise StoreError(
                f"the replicated log writes at {offset} of segment {segment}, but the journal in {self._path} ends at "
                f"{self._offset} of segment {self._segment}: remove the data directory, the node will copy it again"
            )
        if begins:
            self._begin(segment)
        handle = self._open_segment()
        self._disk.write_at(handle, offset, data)
        self._offset = offset + len(data)

    def _begin(self, segment: int) -> None:
        self._end_segment()
        self._disk.remove(segment_path(segment))  # a former leader may have written another one of this number
        self._segment, self._offset = segment, SEGMENT_HEAD.size
        self._disk.write_at(self._open_segment(), 0, segment_head(segment))
        self._checkpoints.reached(segment)

    def _open_segment(self) -> int:
        if self._handle is None:
            self._handle = self._disk.edit(segment_path(self._segment))
        return self._handle

    def _end_segment(self) -> None:
        """Nothing more is written to this one: cut off what the log does not have, and sync."""
        if self._segment and self._disk.has(segment_path(self._segment)):
            self._disk.truncate(segment_path(self._segment), self._offset)
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.sync(handle)
            self._disk.close(handle)

    def claimed(self, epoch: int) -> None:
        """Another node leads: the batches that follow are of its epoch. What lies behind the applied ones was never
        granted. It must not stay: a segment of it could have a higher number than those of the new leader, and would
        count as the end of the journal."""
        self._check_failure()
        self._epoch = epoch
        self._remove_rest()
        self._checkpoints.remove()

    def install_checkpoint(self, epoch: int, following: int, data: bytes | Path) -> bool:
        """Take the checkpoint that the leader of this epoch has written in front of the segment ``following``: its
        bytes or a file, which stays. Whether it is taken; not if it is of another epoch, damaged, no newer than the
        last, or if the disk is full. It may be installed before its segments are applied."""
        if epoch != self._epoch:
            return False
        pieces = [data] if isinstance(data, bytes) else read_pieces(data)
        return self._checkpoints.install(following, pieces, self._segment)

    @property
    def loaded(self) -> Checkpoint | None:
        """The newest checkpoint, if it is in memory. The store that opens the directory next may use and change it."""
        return self._checkpoints.loaded

    def keep(self, sequence: int, epoch: int, batch: int) -> ReplicaNote:
        """Sync what was applied, and note that it is up to there of the log."""
        self._check_failure()
        if self._handle is not None:
            self._disk.sync(self._handle)
        self._disk.sync_folder(FOLDER)
        self._streams.sync()
        cell, log = self._note.cell, self._note.log
        self._note = ReplicaNote(cell, sequence, epoch, batch, self._segment, self._offset, log)
        write_note(self._path, self._note)
        return self._note

    def cut(self) -> None:
        """Remove what lies behind the applied batches: this node is about to lead, and the log has nothing of it."""
        self._check_failure()
        self._remove_rest()
        self._checkpoints.cut(self._segment)
        self._disk.sync_folder(FOLDER)

    def _remove_rest(self) -> None:
        self._end_segment()
        for segment in self._segments():
            if segment > self._segment:
                self._disk.remove(segment_path(segment))

    def _segments(self) -> list[int]:
        return [int(match[1]) for name in self._disk.names(FOLDER) if (match := SEGMENT_NAME.fullmatch(name))]

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)
        try:
            self._streams.close()
        finally:
            if self._db is not None:
                self._db.close()
            if self._folder is not None:
                self._folder.close()
            self._db = self._folder = None


def journal_end(path: Path) -> tuple[int, int]:
    """The newest segment of a data directory and its size; zeros if it has none. It may be in use."""
    try:
        names = sorted(each.name for each in (path / FOLDER).iterdir() if SEGMENT_NAME.fullmatch(each.name))
    except FileNotFoundError:
        return 0, 0
    return (int(names[-1][:10]), (path / FOLDER / names[-1]).stat().st_size) if names else (0, 0)
