"""A data directory that follows the journal of another node: the same bytes in the same segments, the same definitions.

Rules of this file:

- Writes come in the order of the leader's journal, and each begins where the one before it ended. Anything else would
  be another journal, and is refused.
- The directory may hold more than what was applied so far: batches that were written before a crash and are applied
  again, or that this node wrote as the leader and never granted. They are overwritten as the log
  proves what belongs there. Only ``cut`` removes the rest, before this node leads.
- Applying a batch again has no effect. So a note may be older than the directory (store/replica_note.py).
- Checkpoints of the index are removed: they are only valid for a broker that continues from them (store/checkpoint.py),
  and the leader that this directory follows may use another copy of a message.

All calls block: a worker makes them, one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from leveret.errors import StoreError
from leveret.store.checkpoint import remove_checkpoints
from leveret.store.data_dir import DataDir
from leveret.store.definitions import Change
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files
from leveret.store.records import SEGMENT_HEAD, segment_head
from leveret.store.replica_note import ReplicaNote, read_note, write_note
from leveret.store.writer import FOLDER, segment_path

SEGMENT_NAME = re.compile(r"([0-9]{10})\.seg")
ReplicaWrite = tuple[int, int, bytes | memoryview]  # segment, offset, data


class Replica:
    def __init__(self, path: Path, cell: str) -> None:
        self._path = path
        self._note = ReplicaNote(cell)
        self._disk = Files(path)
        self._folder: DataDir | None = None
        self._db: DefinitionsDb | None = None
        self._handle: int | None = None
        self._segment, self._offset = 0, 0  # where the journal ends

    def open(self) -> ReplicaNote:
        """Take the directory. Returns up to where of the log it is."""
        self._folder = DataDir.open(self._path)
        try:
            self._db = DefinitionsDb(self._folder.meta)
            self._note = self._check(read_note(self._path))
            remove_checkpoints(self._disk, keep=None)
        except BaseException:
            self.close()
            raise
        self._segment, self._offset = self._note.segment, self._note.offset
        return self._note

    def _check(self, note: ReplicaNote | None) -> ReplicaNote:
        if note is None:
            if self._db is not None and (not self._db.is_new or self._segments()):
                raise StoreError(
                    f"data directory {self._path} has messages or definitions of a node that was in no cell: choose an "
                    "empty one with --data-dir"
                )
            return self._note
        if note.cell != self._note.cell:
            raise StoreError(
                f"data directory {self._path} belongs to the cell {note.cell!r}, not to {self._note.cell!r}: choose "
                "another with --data-dir, or correct the name of the cell"
            )
        return note

    def apply(self, changes: Sequence[Change], writes: Iterable[ReplicaWrite], removals: Iterable[int]) -> None:
        """One batch, in the order of the log."""
        assert self._db is not None
        self._db.apply(changes)
        for segment, offset, data in writes:
            self._write(segment, offset, data)
        for segment in removals:
            self._disk.remove(segment_path(segment))

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

    def keep(self, sequence: int, epoch: int, batch: int) -> ReplicaNote:
        """Sync what was applied, and note that it is up to there of the log."""
        if self._handle is not None:
            self._disk.sync(self._handle)
        self._disk.sync_folder(FOLDER)
        self._note = ReplicaNote(self._note.cell, sequence, epoch, batch, self._segment, self._offset)
        write_note(self._path, self._note)
        return self._note

    def cut(self) -> None:
        """Remove what lies behind the applied batches: this node is about to lead, and the log has nothing of it."""
        self._end_segment()
        for segment in self._segments():
            if segment > self._segment:
                self._disk.remove(segment_path(segment))
        self._disk.sync_folder(FOLDER)

    def _segments(self) -> list[int]:
        return [int(match[1]) for name in self._disk.names(FOLDER) if (match := SEGMENT_NAME.fullmatch(name))]

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)
        if self._db is not None:
            self._db.close()
        if self._folder is not None:
            self._folder.close()
        self._db = self._folder = None
