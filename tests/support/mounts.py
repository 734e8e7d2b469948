"""File systems that a test mounts for itself. Where the kernel refuses, the test is skipped with a `kernel:` reason."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack

import pytest

from tests.support.programs import require_program

# _IOR('X', 125, __u32) with EXT4_GOING_FLAGS_NOLOGFLUSH: from now on nothing more reaches the device, not even what
# ext4's own journal still holds in memory. That is what a power cut does to a file system.
SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125
NO_LOG_FLUSH = 2
SECONDS = 120


class Mount:
    """Unmounting it works in mount namespaces that are created meanwhile, as ``ip netns exec`` of other tests does: an
    ext4 that is still mounted in one of them would be mounted again with its old state. For that the folder is a shared
    mount of itself, below the file system, from which the end of a mount propagates."""

    def __init__(self, place: Path, *arguments: str) -> None:
        self.place = place
        self._arguments = arguments
        self.is_mounted = False

    def share_folder(self) -> None:
        self.place.mkdir(exist_ok=True)
        done = run("mount", "--bind", "--make-shared", str(self.place), str(self.place))
        if done.returncode:
            pytest.skip(f"kernel: cannot mount {self.place}: {done.stderr.strip()}")

    def mount(self) -> None:
        done = run("mount", *self._arguments, str(self.place))
        if done.returncode:
            pytest.skip(f"kernel: cannot mount {' '.join(self._arguments)}: {done.stderr.strip()}")
        self.is_mounted = True

    def unmount(self) -> None:
        done = run("umount", str(self.place))
        assert done.returncode == 0, done.stderr
        self.is_mounted = False

    def cut(self) -> None:
        """What was not synced by now is lost; every later write fails."""
        folder = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, pack("I", NO_LOG_FLUSH))
        except OSError as problem:
            pytest.skip(f"kernel: no ext4 shutdown: {problem}")
        finally:
            os.close(folder)

    def power_up(self) -> None:
        """After a power cut, once no process has files open here: mount again, which replays ext4's journal."""
        self.unmount()
        self.mount()

    def resize(self, size: int) -> None:
        """Only for tmpfs."""
        done = run("mount", "-o", f"remount,size={size}", str(self.place))
        assert done.returncode == 0, done.stderr

    def free(self) -> int:
        figures = os.statvfs(self.place)
        return figures.f_bavail * figures.f_frsize


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def refuse_unless_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("kernel: only root may mount")


@contextmanager
def mounted(mount: Mount) -> Iterator[Mount]:
    refuse_unless_root()
    require_program("mount")
    mount.share_folder()
    try:
        mount.mount()
        yield mount
    finally:
        for _ in range(1 + mount.is_mounted):
            done = run("umount", str(mount.place))
            if done.returncode:  # some files are still open: unmount as soon as they close
                run("umount", "--lazy", str(mount.place))


@contextmanager
def ext4_on_a_file(image: Path, place: Path, size: int) -> Iterator[Mount]:
    refuse_unless_root()
    require_program("mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(size)
    made = run("mkfs.ext4", "-q", "-F", str(image))
    assert made.returncode == 0, made.stderr
    try:
        with mounted(Mount(place, "-o", "loop", str(image))) as mount:
            yield mount
    finally:
        image.unlink()


@contextmanager
def tmpfs(place: Path, size: int) -> Iterator[Mount]:
    with mounted(Mount(place, "-t", "tmpfs", "-o", f"size={size}", "leveret-test")) as mount:
        yield mount
