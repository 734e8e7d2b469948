"""The real disk. The only file of the store that does IO of its own; see store/disk.py for the contract."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from errno import EEXIST, ENOTEMPTY
from pathlib import Path

from leveret.store.disk import lacks_files

SPARE = 8  # descriptors: a segment and its folder, a stream's, a file that is read, and as many again
PIECE = 1 << 20  # bytes that are copied at a time
MOST_BUFFERS = 1024  # IOV_MAX on all known systems
APPEND = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
EDIT = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def _full_sync(handle: int) -> None:
    """macOS: fsync only reaches the drive's cache there."""
    import fcntl

    fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined]


def _platform_sync() -> object:
    try:
        import fcntl
    except ImportError:
        return os.fsync  # Windows
    if hasattr(fcntl, "F_FULLFSYNC"):
        return _full_sync
    return getattr(os, "fdatasync", os.fsync)


def read_pieces(path: Path) -> Iterator[bytes]:
    """All of a file outside of the data directory."""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


class SpareFiles:
    """File descriptors in reserve. Connections may use up all descriptors of the process; the journal must still be
    able to begin its next segment."""

    def __init__(self, wanted: int = SPARE) -> None:
        self._wanted = wanted
        self._held: list[int] = []

    def refill(self) -> bool:
        """Open descriptors until the reserve is full again; whether that succeeded."""
        try:
            while len(self._held) < self._wanted:
                self._held.append(os.open(os.devnull, READ))
        except OSError as problem:
            if not lacks_files(problem):
                raise
            return False
        return True

    def let_go(self) -> bool:
        """Close one descriptor; whether there was one. Two threads may call this at once."""
        try:
            os.close(self._held.pop())
        except IndexError:
            return False
        return True

    def close(self) -> None:
        while self.let_go():
            pass


class Files:
    """A folder of the file system.

    ``reads``, ``read_bytes`` and ``read_seconds`` are statistics. Several threads read: CPython switches threads at
    calls and jumps only, so no increment is lost. ``work_time``: seconds, to measure how long reads take.
    """

    def __init__(
        self, root: Path, spare: SpareFiles | None = None, work_time: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._root = root
        self._sync = _platform_sync()
        self._spare = spare or SpareFiles()
        self._work_time = work_time
        self.reads, self.read_bytes, self.read_seconds = 0, 0, 0.0

    def _open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        """With a spare descriptor if there is no other; another thread may take it first."""
        while True:
            try:
                return os.open(path, flags, mode)
            except OSError as problem:
                if not lacks_files(problem) or not self._spare.let_go():
                    raise

    def create(self, path: str) -> int:
        folder = self._root
        *folders, name = path.split("/")
        for each in folders:  # below the root; that one must be there
            folder /= each
            folder.mkdir(0o700, exist_ok=True)
        return self._open(folder / name, APPEND, 0o600)

    def edit(self, path: str) -> int:
        """A file to write at any place of; made if there is none. Its handle."""
        return self._open(self._root / path, EDIT, 0o600)

    def write_at(self, handle: int, offset: int, data: bytes | memoryview) -> None:
        os.lseek(handle, offset, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]

    def has(self, path: str) -> bool:
        return (self._root / path).exists()

    def append(self, handle: int, buffers: Sequence[bytes]) -> None:
        for first in range(0, len(buffers), MOST_BUFFERS):
            self._append_some(handle, list(buffers[first : first + MOST_BUFFERS]))

    def _append_some(self, handle: int, buffers: list[bytes]) -> None:
        wanted = sum([len(buffer) for buffer in buffers])
        written = os.writev(handle, buffers) if hasattr(os, "writev") else 0
        if written < wanted:
            rest = memoryview(b"".join(buffers))[written:]
            while rest:
                rest = rest[os.write(handle, rest) :]

    def sync(self, handle: int) -> None:
        self._sync(handle)  # type: ignore[operator]

    def close(self, handle: int) -> None:
        os.close(handle)

    def truncate(self, path: str, size: int) -> None:
        handle = self._open(self._root / path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            os.ftruncate(handle, size)
            os.fsync(handle)
        finally:
            os.close(handle)

    def erase(self, path: str, offset: int, size: int) -> None:
        handle = self._open(self._root / path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            os.lseek(handle, offset, os.SEEK_SET)
            os.write(handle, bytes(size))
            os.fsync(handle)
        finally:
            os.close(handle)

    def sync_folder(self, path: str) -> None:
        if os.name == "nt":
            return  # a folder cannot be opened there; NTFS journals its names
        handle = self._open(self._root / path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, path: str, new: str) -> None:
        os.replace(self._root / path, self._root / new)

    def remove(self, path: str) -> None:
        full = self._root / path
        try:
            if full.is_dir():
                full.rmdir()
            else:
                full.unlink()
        except FileNotFoundError:
            pass  # a removal that is repeated after a failure
        except OSError as problem:
            if problem.errno not in (ENOTEMPTY, EEXIST):
                raise

    def read(self, path: str, offset: int, size: int) -> bytes:
        begun = self._work_time()
        handle = self._open(self._root / path, READ)
        try:
            os.lseek(handle, offset, os.SEEK_SET)
            parts: list[bytes] = []
            while size > 0 and (part := os.read(handle, min(size, 1 << 30))):
                parts.append(part)
                size -= len(part)
        finally:
            os.close(handle)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        number, seconds = len(data), self._work_time() - begun
        self.reads += 1
        self.read_bytes += number
        self.read_seconds += seconds
        return data

    def size(self, path: str) -> int:
        return (self._root / path).stat().st_size

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / folder).iterdir() if entry.is_file())
        except FileNotFoundError:
            return []

    def folders(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / folder).iterdir() if entry.is_dir())
        except FileNotFoundError:
            return []
