"""The data directory: its layout, the version of its format, and the lock that keeps a second broker out.

    format      "leveret data directory, format 1": written last, when everything else is complete
    lock        held by the broker that uses the folder; contains its process id, for error messages, and the lineage
    meta.db     the definitions
    journal/    the messages
    replica     only in a cell: up to where of the replicated log the folder is (store/replica_note.py)

Only the user of the broker has access: the files hold messages and password hashes. If an earlier version, a restored
archive or a copy left files open to other users, each start corrects it.

The lock is released when the process ends, in any way; the file stays, since another process may just have opened it.

The lineage is a random number that all runs keep which know checkpoints (store/checkpoint.py). An older version of
Leveret overwrites the file with its process id alone, so that the checkpoints of the directory are not used any more.
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

FORMAT = 1
FORMAT_FILE = "format"
NEW_FORMAT_FILE = "format.new"
LOCK_FILE = "lock"
JOURNAL = "journal"
META = "meta.db"
REPLICA = "replica"
# Files in a folder without a format file that are no obstacle: a crash during its creation or a new disk left them.
HARMLESS = {NEW_FORMAT_FILE, LOCK_FILE, JOURNAL, META, f"{META}-wal", f"{META}-shm", "lost+found"}
SENTENCE = "leveret data directory, format {}\n"
PATTERN = re.compile(rb"leveret data directory, format ([0-9]{1,9})\n")
# No program that the broker starts may inherit the lock.
FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
PROCESS_SIZE = 20  # bytes of the lock file for the process id; the lineage follows
LINEAGE = re.compile(rb"[0-9]+\n *([0-9a-f]{32})\n")
LOCK_SIZE = PROCESS_SIZE + 33
OTHERS = stat.S_IRWXG | stat.S_IRWXO
REMEDY = "choose another with --data-dir"

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
        if (self.path / FORMAT_FILE).exists():
            found = read_format(self.path)
            if found > FORMAT:
                raise StoreError(
                    f"data directory {self.path} has format {found}, this Leveret reads up to {FORMAT}: "
                    f"upgrade Leveret or {REMEDY}"
                )
        make_folder(self.path / JOURNAL)
        if not (self.path / FORMAT_FILE).exists():
            _write_format(self.path)

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
            mode = os.lstat(each).st_mode
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
    with suppress(OSError):  # a full disk is no reason not to start: without it checkpoints are not used
        os.ftruncate(handle, 0)
        os.write(handle, (b"%d\n" % os.getpid()).ljust(PROCESS_SIZE) + lineage + b"\n")
    return handle, lineage


def _write_format(path: Path) -> None:
    """Whole or not at all, whenever the power goes."""
    handle = os.open(path / NEW_FORMAT_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | FLAGS, 0o600)
    try:
        os.write(handle, SENTENCE.format(FORMAT).encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(path / NEW_FORMAT_FILE, path / FORMAT_FILE)
    sync_folder(path)


def sync_folder(path: Path) -> None:
    if os.name == "nt":
        return  # a folder cannot be opened there; NTFS journals its names
    handle = os.open(path, os.O_RDONLY | FLAGS)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
