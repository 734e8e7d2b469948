"""Checkpoints of the leader in a data directory that follows its journal: a take-over reads only what is behind.

A checkpoint is valid for a broker whose journal continues that of its writer (store/checkpoint.py): a take-over is then
the same as a restart of the leader. All members of a cell have the same lineage, which follows from the cell's name.
Whether a checkpoint may be used is decided by leader epochs:

- A checkpoint is installed only if its leader's epoch is the current one.
- When another node claims, all checkpoints are removed: the new leader may have started without them, and may then use
  another copy of a message. Its own first one takes their place. The claim of this node itself removes nothing: this
  node continues from its checkpoint.
- So those in a directory are of the epoch of its note or a later one, whose claim is still to be read and then removes
  them. This includes what a leader leaves: it started from them, or wrote them in its epoch.
- A checkpoint covers complete segments. It is put in place once the log has begun the segment that follows them. A
  leader may have written one that covers more than the log has: ``cut`` removes it.

The newest checkpoint is also kept in memory: a take-over does not even read the file.

What is settled in a checkpoint of streams is in the leader's files. It is in the files here too, because they have all
messages of the batches that were applied (store/replica_streams.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh3_128_hexdigest

from leveret.logs import get_log
from leveret.store.checkpoint import Checkpoint, checkpoint_path, checkpoints_on, load, remove_checkpoints, verify
from leveret.store.data_dir import DataDir
from leveret.store.files import Files
from leveret.store.records import Damage
from leveret.store.writer import FOLDER

NEW = f"{FOLDER}/checkpoint.new"


def cell_lineage(cell: str) -> bytes:
    return xxh3_128_hexdigest(f"leveret cell {cell}".encode()).encode()


class ReplicaCheckpoints:
    def __init__(self, disk: Files, cell: str) -> None:
        self._disk = disk
        self._lineage = cell_lineage(cell)
        self.loaded: Checkpoint | None = None  # the newest, for a take-over
        self._waiting: int | None = None  # the segment that the log must begin before the new file may be used
        self._log = get_log("cluster").bind(cell=cell)

    def open(self, folder: DataDir) -> None:
        """Those of another lineage are from the time before the cell."""
        self._disk.remove(NEW)
        if folder.lineage != self._lineage:
            self.remove()
            folder.begin_lineage(self._lineage)

    def remove(self) -> None:
        """Another node leads from now on."""
        self._waiting = self.loaded = None
        self._disk.remove(NEW)
        remove_checkpoints(self._disk, keep=None)

    def install(self, following: int, pieces: Iterable[bytes], begun: int) -> bool:
        """Take the leader's checkpoint in front of this segment; ``begun`` is the newest segment of the journal here.
        Whether it is sound, and newer than the last."""
        newest = max([*checkpoints_on(self._disk)[:1], self._waiting or 0])
        if following <= newest:
            return False
        self._waiting = None
        self._disk.remove(NEW)
        try:
            self._write(pieces)
            verify(self._disk, NEW, following, self._lineage)
        except (Damage, OSError) as problem:  # it only saves time
            self._disk.remove(NEW)
            self._log.warning("checkpoint of the leader not used", following=following, reason=str(problem))
            return False
        self._waiting = following
        self.reached(begun)
        return True

    def _write(self, pieces: Iterable[bytes]) -> None:
        handle = self._disk.create(NEW)
        try:
            for piece in pieces:
                self._disk.append(handle, [piece])
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)

    def reached(self, begun: int) -> None:
        """The log has begun this segment."""
        following = self._waiting
        if following is not None and begun >= following:
            self._waiting = None
            self._disk.rename(NEW, checkpoint_path(following))
            self._disk.sync_folder(FOLDER)
            remove_checkpoints(self._disk, keep=following)
            self._log.debug("checkpoint of the leader installed", following=following)
            self._load(following)

    def _load(self, following: int) -> None:
        self.loaded = None  # not two of them at once
        try:
            self.loaded = load(self._disk, following, self._lineage)
        except (Damage, OSError) as problem:  # a take-over looks again
            self._log.warning("checkpoint of the leader cannot be loaded", following=following, reason=str(problem))

    def cut(self, last: int) -> None:
        """The journal ends in this segment: remove those that cover more, and one that was never put in place. That one
        which covers all of it is checked by the recovery, which compares the segments."""
        self._waiting = None
        self._disk.remove(NEW)
        for following in checkpoints_on(self._disk):
            if following > last + 1:
                self._disk.remove(checkpoint_path(following))
                self.loaded = None
