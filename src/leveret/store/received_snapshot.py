"""The files of another node's data directory on their way into this one.

    snapshot.new/       files that arrive; removed if not all of them do
    snapshot.complete/  all of them, synced, with the note of the position that they belong to
    snapshot.install/   the files that were here before are gone from their places; these take their places

Each state follows by one rename, and what is left to do after a crash follows from the state: a start finishes it
before it reads anything. If the former files belong to another log, they are kept in ``before-<id of that log>/``,
which is a data directory too; otherwise they are older copies of the same, and removed.

All calls block: a worker makes them, one at a time.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_64

from leveret.errors import StoreError
from leveret.logs import get_log
from leveret.store.data_dir import (
    COMPLETE_SNAPSHOT,
    FORMAT_FILE,
    INSTALLED_SNAPSHOT,
    JOURNAL,
    META,
    REPLICA,
    DataDir,
    make_folder,
    sync_folder,
)
from leveret.store.replica_note import ReplicaNote, read_note, write_note
from leveret.store.spill import FOLDER as SPILL
from leveret.store.stream_segments import FOLDER as STREAMS

NEW = "snapshot.new"
BEFORE = "before-{}"
NAME = re.compile(rf"(?:{JOURNAL}/|{STREAMS}/[0-9A-Za-z_-]+/)?[0-9A-Za-z_-]+(?:\.[a-z-]+)*")
META_FILES = (META, f"{META}-wal", f"{META}-shm", f"{META}-journal")
CONTENTS = (JOURNAL, STREAMS, SPILL, *META_FILES, REPLICA)  # the note last: until then it is known what this is
MOST_BUFFERED = 64 << 20  # bytes written without a sync

log = get_log("store")


class ReceivedSnapshot:
    """``begin``, ``write`` and ``end`` for each file, then ``install``; ``close`` in any case."""

    def __init__(self, path: Path) -> None:
        """Takes the data directory: its files stay as they are until ``install``."""
        self._path = path
        self._folder = DataDir.open(path)
        self._new = path / NEW
        self._file: BinaryIO | None = None
        self._name = ""
        self._digest = xxh3_64()
        self._unsynced = 0
        try:
            finish_installation(path)
            if self._new.exists():
                shutil.rmtree(self._new)
            make_folder(self._new / JOURNAL)
        except BaseException:
            self._folder.close()
            raise

    def begin(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise StoreError(f"the snapshot has a file with the name {name[:80]!r}: upgrade this node")
        make_folder((self._new / name).parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(self._new / name, flags, 0o600), "wb")
        self._name, self._digest = name, xxh3_64()

    def write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._digest.update(data)
        self._unsynced += len(data)
        if self._unsynced > MOST_BUFFERED:
            self._sync()

    def end(self, digest: str) -> None:
        if digest != self._digest.hexdigest():
            raise StoreError(f"the file {self._name} of the snapshot was damaged on its way")
        self._sync()
        self._close_file()

    def install(self, note: ReplicaNote) -> None:
        """All files are here: put them in place of what was here before."""
        write_note(self._new, note)
        for folder, _, _ in os.walk(self._new):
            sync_folder(Path(folder))
        os.rename(self._new, self._path / COMPLETE_SNAPSHOT)
        sync_folder(self._path)
        finish_installation(self._path)

    def close(self) -> None:
        self._close_file()
        shutil.rmtree(self._new, ignore_errors=True)
        self._folder.close()

    def _sync(self) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unsynced = 0

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def finish_installation(path: Path) -> None:
    """In a data directory that is locked: install a complete snapshot, if there is one."""
    complete, install = path / COMPLETE_SNAPSHOT, path / INSTALLED_SNAPSHOT
    if complete.exists():
        _clear(path, read_note(complete))
        os.rename(complete, install)
        sync_folder(path)
    if install.exists():
        for name in os.listdir(install):
            _move(install / name, path / name)
        sync_folder(path)
        install.rmdir()
        sync_folder(path)


def _clear(path: Path, new: ReplicaNote | None) -> None:
    former = read_note(path)
    if former is not None and new is not None and former.log not in ("", new.log):
        aside = path / BEFORE.format(former.log)
        make_folder(aside)
        shutil.copy(path / FORMAT_FILE, aside / FORMAT_FILE)
        for name in CONTENTS:
            if (path / name).exists():
                _move(path / name, aside / name)
        sync_folder(aside)
        log.warning("files of a former log kept", folder=aside, remedy="remove them when they are not needed")
    else:
        for name in CONTENTS:
            _remove(path / name)
    sync_folder(path)


def _move(source: Path, target: Path) -> None:
    """An empty folder in the way was made by a start after a crash, as was an empty one to be moved."""
    if source.is_dir() and target.is_dir():
        if not os.listdir(source):
            source.rmdir()
            return
        target.rmdir()
    os.replace(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
