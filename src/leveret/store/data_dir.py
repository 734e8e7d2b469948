"""The data directory: its layout, the version of its format, and the lock that keeps a second broker out.

    format      "leveret data directory, format 2": written last, when everything else is complete
    lock        held by the broker that uses the folder; contains its process id, for error messages, and the lineage
    meta.db     the definitions
    journal/    the messages
    sessions    logins of the management UI (http/sessions.py); may be removed while no broker runs
    history     samples of the last eight hours (stats/history.py); may be removed while no broker runs
    replica     only in a cell: up to where of the replicated log the folder is (store/replica_note.py)
    cell.json   only in a cell: its secret and its members (cluster/cell_file.py)
    snapshot.*  only in a cell: the leader's files on their way (store/received_snapshot.py)
    before-*    only in a cell: the files of a former log of the cell

Only the user of the broker has access: the files hold messages and password hashes. If an earlier version, a restored
archive or a copy left files open to other users, each start corrects it.

The lock is released when the process ends, in any way; the file stays, since another process may just have opened it.

The lineage is a random number that all runs keep which know checkpoints (store/checkpoint.py). An older version of
Leveret overwrites the file with its process id alone, so that the checkpoints of the directory are not used any more.
In a cell, it follows from the name of the cell (store/replica_checkpoints.py).

Formats: 2 has records and definitions that the first readers of 1 take for damage. Each start brings a directory to the
newest format before anything is written, so that an older version refuses it instead of dropping messages.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leveret.errors import StoreError
from leveret.logs import get_log

FORMAT = 2
FORMAT_FILE = "format"
NEW_FORMAT_FILE = "format.new"
LOCK_FILE = "lock"
JOURNAL = "journal"
META = "meta.db"
REPLICA = "replica"
CELL = "cell.json"
CELLS = "cells"  # the folder of all cells but the first, with --cells
REMOVED = "removed"  # a file in the folder of a cell that was taken out of service
NUMBER = "number"  # a file in the folder of the cells: how many there are, if some were added while the broker ran
COMPLETE_SNAPSHOT, INSTALLED_SNAPSHOT = "snapshot.complete", "snapshot.install"
# A folder with one of these belongs to a cell.
OF_CELL = (REPLICA, COMPLETE_SNAPSHOT, INSTALLED_SNAPSHOT)
# Files in a folder without a format file that are no obstacle: a crash during its creation or a new disk left them.
HARMLESS = {NEW_FORMAT_FILE, LOCK_FILE, JOURNAL, META, f"{META}-wal", f"{META}-shm", "lost+found", CELL, f"{CELL}.new"}
SENTENCE = "leveret data directory, format {}\n"
PATTERN = re.compile(rb"leveret data directory, format ([0-9]{1,9})\n")
# No program that the broker starts may inherit the lock.
FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
PROCESS_SIZE = 20  # bytes of the lock file for the process id; the lineage follows
LINEAGE = re.compile(rb"[0-9]+\n *([0-9a-f]{32})\n")
LOCK_SIZE = PROCESS_SIZE + 33
OTHERS = stat.S_IRWXG | stat.S_IRWXO
REMEDY = "set data_dir to another one"

log = get_log("store")

if sys.platform == "win32":
    import msvcrt

    LOCKED_BYTE = 1 << 20  # far behind the process id: a locked byte cannot be read there

    def _lock(handle: int) -> None:
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as problem:
            raise BlockingIOError from problem
        os.lseek(handle, 0, os.SEEK_SET)

    def _unlock(handle: int) -> None:
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


class DataDir:
    """A data directory, locked until ``close``."""

    def __init__(self, path: Path, handle: int, lineage: bytes) -> None:
        """Use ``open``; ``handle`` is that of the locked file."""
        self.path = path
        self.lineage = lineage
        self.meta = path / META
        self._handle: int | None = handle

    @classmethod
    def open(cls, path: Path) -> DataDir:
        """Make it if there is none. Raises StoreError when it is in use or cannot be used."""
        with _refusals(path):
            make_folder(path)
            _refuse_foreign_folder(path)
            folder = cls(path, *_locked(path))
            try:
                folder._prepare()
            except BaseException:
                folder.close()
                raise
            return folder

    def _prepare(self) -> None:
        _close_to_others(self.path)
        found = read_format(self.path) if (self.path / FORMAT_FILE).exists() else None
        if found is not None and found > FORMAT:
            raise StoreError(
                f"data directory {self.path} has format {found}, this Leveret reads up to {FORMAT}: "
                f"upgrade Leveret or {REMEDY}"
            )
        make_folder(self.path / JOURNAL)
        if found != FORMAT:
            _write_format(self.path)
        if found is not None and found < FORMAT:
            log.info("data directory upgraded", folder=self.path, before=found, format=FORMAT)

    def begin_lineage(self, lineage: bytes) -> None:
        """This one from now on: checkpoints of the one before are not used any more."""
        assert self._handle is not None
        _write_lineage(self._handle, lineage)
        self.lineage = lineage

    def close(self) -> None:
        """Release the lock, also for forked processes that still have the file open."""
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                _unlock(handle)
            finally:
                os.close(handle)


def read_format(path: Path) -> int:
    """The format of a data directory, which may be newer than ours."""
    try:
        text = (path / FORMAT_FILE).read_bytes()
    except FileNotFoundError as problem:
        raise StoreError(f"{path} is not a Leveret data directory (no file 'format'): {REMEDY}") from problem
    except OSError as problem:
        raise _refusal(path, problem) from problem
    match = PATTERN.fullmatch(text)
    if match is None:
        raise StoreError(
            f"data directory {path} has an unknown format (its file 'format' contains {text[:60]!r}): "
            f"restore a backup, or {REMEDY}"
        )
    return int(match[1])


@contextmanager
def kept_still(path: Path) -> Iterator[str | None]:
    """Lock a data directory for inspection without changing it. If a broker uses it, yields its process instead."""
    handle = _lock_file(path)
    if handle is None:  # never used by a broker
        yield None
        return
    try:
        owner: str | None = None
        try:
            _lock(handle)
        except BlockingIOError:
            owner = f"in use by a broker{_process(handle)}"
        try:
            yield owner
        finally:
            if owner is None:
                _unlock(handle)
    finally:
        os.close(handle)


def _lock_file(path: Path) -> int | None:
    try:
        return os.open(path / LOCK_FILE, os.O_RDWR | FLAGS)  # only so can it be locked on every file system
    except FileNotFoundError:
        return None
    except OSError:
        return os.open(path / LOCK_FILE, os.O_RDONLY | FLAGS)


def _process(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    owner = os.read(handle, PROCESS_SIZE).decode("ascii", "replace").strip()
    return f" (process {owner})" if owner else ""  # it may not have written it yet


def _refusal(path: Path, problem: OSError) -> StoreError:
    return StoreError(f"cannot use {path} as data directory: {problem}; {REMEDY}")


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise _refusal(path, problem) from problem


def make_folder(path: Path) -> None:
    """With its parents, each for its owner only (mkdir gives parents the default mode), and so that the names survive
    a power cut."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(0o700, exist_ok=True)
        sync_folder(folder.parent)


def _close_to_others(path: Path) -> None:
    """Files of another user stay as they are, which is common for the root of a container's volume, and are
    reported. Symbolic links are not followed: what they point to may belong to another program."""
    if os.name == "nt":
        return  # access is inherited from the folder there
    closed, problem = 0, None
    for folder, _, names in os.walk(path):
        for each in (folder, *(os.path.join(folder, name) for name in names)):
            try:
                mode = os.lstat(each).st_mode
            except FileNotFoundError:
                continue  # renamed meanwhile, for example a new note
            if stat.S_ISLNK(mode) or not mode & OTHERS:
                continue
            try:
                os.chmod(each, stat.S_IMODE(mode) & ~OTHERS)
                closed += 1
            except OSError as refusal:
                problem = problem or refusal
    if closed:
        log.info("access to the data directory restricted to its owner", folder=path, changed=closed)
    if problem is not None:
        log.warning(
            "data directory is readable by other users",
            folder=path,
            reason=problem,
            remedy="give it to the broker's user (chown -R), or let chmod -R go-rwx be run by its owner",
        )


def _refuse_foreign_folder(path: Path) -> None:
    names = set(os.listdir(path))
    if FORMAT_FILE not in names and names - HARMLESS:
        raise StoreError(f"{path} is not a Leveret data directory (no file 'format'): choose an empty folder")


def read_lineage(path: Path) -> bytes | None:
    """The lineage of the directory, if it has one."""
    try:
        found = LINEAGE.fullmatch((path / LOCK_FILE).read_bytes()[:LOCK_SIZE])
    except OSError:
        return None
    return found[1] if found is not None else None


def _locked(path: Path) -> tuple[int, bytes]:
    """The handle of the locked file, and the lineage."""
    handle = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | FLAGS, 0o600)
    try:
        _lock(handle)
    except BlockingIOError:
        owner = _process(handle)
        os.close(handle)
        raise StoreError(f"data directory {path} is in use by another broker{owner}: stop it, or {REMEDY}") from None
    except OSError:
        os.close(handle)
        raise
    lineage = read_lineage(path) or os.urandom(16).hex().encode()
    _write_lineage(handle, lineage)
    return handle, lineage


def _write_lineage(handle: int, lineage: bytes) -> None:
    with suppress(OSError):  # a full disk is no reason not to start: without it checkpoints are not used
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, (b"%d\n" % os.getpid()).ljust(PROCESS_SIZE) + lineage + b"\n")


def _write_format(path: Path) -> None:
    replace_file(path, FORMAT_FILE, SENTENCE.format(FORMAT).encode())


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Whole or not at all, whenever the power goes or the disk is full; for the owner only."""
    new = folder / f"{name}.new"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | FLAGS, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(new, folder / name)
    sync_folder(folder)


def sync_folder(path: Path) -> None:
    if os.name == "nt":
        return  # a folder cannot be opened there; NTFS journals its names
    handle = os.open(path, os.O_RDONLY | FLAGS)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cell_folder(folder: Path, cell: str) -> Path:
    """The data directory of another cell than the first, in that of the first."""
    return folder / CELLS / cell


def highest_cell(folder: Path) -> int:
    """The number of the last cell that has data in the directory, and was not removed."""
    present = [each.name for each in (folder / CELLS).glob("c*") if each.name[1:].isdecimal()]
    return max([int(name[1:]) for name in present if not is_removed(folder, name)], default=1)


def refuse_fewer_cells(folder: Path, number: int) -> None:
    """StoreError if the directory has the data of more cells than are started: their queues could not be reached."""
    if (highest := highest_cell(folder)) > number:
        raise StoreError(
            f"the data directory {folder} has the data of {highest} cells: start it with --cells {highest}. To use "
            f"fewer, take cell c{highest} out of service first: leveret cells remove c{highest}"
        )


def kept_cells(folder: Path) -> int:
    """How many cells there are, if cells were added while the broker ran; otherwise 0."""
    path = folder / CELLS / NUMBER
    try:
        return int(path.read_text("ascii"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as problem:
        raise StoreError(f"cannot read the number of cells in {path} ({problem}): write it there") from problem


def keep_cells(folder: Path, number: int) -> None:
    make_folder(folder / CELLS)
    replace_file(folder / CELLS, NUMBER, b"%d\n" % number)


def is_removed(folder: Path, cell: str) -> bool:
    """Whether the cell was taken out of service: its queues are in other cells."""
    return (cell_folder(folder, cell) / REMOVED).exists()


def mark_removed(folder: Path, cell: str) -> None:
    replace_file(cell_folder(folder, cell), REMOVED, b"its queues are in other cells\n")
    if kept_cells(folder) > (highest := highest_cell(folder)):
        keep_cells(folder, highest)


def unmark_removed(folder: Path, cell: str) -> None:
    (cell_folder(folder, cell) / REMOVED).unlink(missing_ok=True)
    sync_folder(cell_folder(folder, cell))
