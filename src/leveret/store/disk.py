"""The contract of a disk, as the store uses it. ``store/files.py`` implements it; tests have disks that fail.

Paths are relative to the data directory, with slashes. Every call blocks and may raise OSError. Nothing here is called
on the broker's loop.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol

FULL = frozenset(getattr(errno, name) for name in ("ENOSPC", "EDQUOT") if hasattr(errno, name))


NO_FILES = frozenset((errno.EMFILE, errno.ENFILE))
NO_FILES_REASON = (
    "no file descriptors left: close connections, or raise the limit of open files (ulimit -n, LimitNOFILE)"
)


def is_shortage(problem: OSError) -> bool:
    """There was no space for a write, or no file descriptor: a later try may succeed. A failed sync, whatever its
    reason, is never a shortage."""
    return problem.errno in FULL or lacks_files(problem)


def lacks_files(problem: OSError) -> bool:
    return problem.errno in NO_FILES


class WritableDisk(Protocol):
    def create(self, path: str) -> int:
        """A new file, open for appending; it must not exist. Its handle."""

    def append(self, handle: int, buffers: Sequence[bytes]) -> None:
        """Write all of the buffers at the end of the file; a short write is continued."""

    def sync(self, handle: int) -> None:
        """The appended data survives a power failure once this returns."""

    def close(self, handle: int) -> None: ...

    def truncate(self, path: str, size: int) -> None:
        """Cut the file to ``size`` bytes, and sync that."""

    def erase(self, path: str, offset: int, size: int) -> None:
        """Overwrite with zeros, and sync that."""

    def sync_folder(self, path: str) -> None:
        """Created and removed names in the folder survive a power failure once this returns."""

    def remove(self, path: str) -> None:
        """Remove a file or an empty folder. A missing file and a folder that is not empty are no errors."""


class ReadableDisk(Protocol):
    def read(self, path: str, offset: int, size: int) -> bytes:
        """``size`` bytes, fewer at the end of the file."""

    def size(self, path: str) -> int: ...

    def names(self, folder: str) -> list[str]:
        """Names of the files in the folder, sorted; empty if there is no such folder."""

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in the folder, sorted."""


class Disk(WritableDisk, ReadableDisk, Protocol):
    """Both."""

    def rename(self, path: str, new: str) -> None:
        """In one step: a process that is killed leaves one of the names. A file of the new name is replaced."""
