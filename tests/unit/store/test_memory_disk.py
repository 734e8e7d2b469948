"""The disk in memory does what the real one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.store.disk import Disk
from leveret.store.files import Files
from leveret.store.memory_disk import MemoryDisk

DISKS = [pytest.param(lambda path: MemoryDisk(), id="memory"), pytest.param(Files, id="files")]


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    make: Callable[[Path], Disk] = request.param
    return make(tmp_path)


def put(disk: Disk, path: str, *buffers: bytes) -> None:
    handle = disk.create(path)
    disk.append(handle, buffers)
    disk.sync(handle)
    disk.close(handle)


def test_what_is_appended_is_read(disk: Disk) -> None:
    handle = disk.create("a/b/file")
    disk.append(handle, [b"one", b"", b"two"])
    assert disk.read("a/b/file", 0, 100) == b"onetwo"
    disk.append(handle, [b"three"])
    assert disk.read("a/b/file", 3, 5) == b"twoth"
    assert disk.read("a/b/file", 20, 5) == b""
    assert disk.size("a/b/file") == 11
    disk.sync(handle)
    disk.close(handle)
    disk.sync_folder("a/b")
    disk.sync_folder(".")


def test_a_file_is_made_once(disk: Disk) -> None:
    put(disk, "a/file", b"x")
    with pytest.raises(FileExistsError):
        disk.create("a/file")
    assert disk.read("a/file", 0, 9) == b"x"


def test_a_renamed_file_replaces_another(disk: Disk) -> None:
    put(disk, "a/old", b"old")
    put(disk, "a/new", b"new")
    disk.rename("a/new", "a/old")
    assert disk.names("a") == ["old"]
    assert disk.read("a/old", 0, 9) == b"new"
    with pytest.raises(FileNotFoundError):
        disk.rename("a/new", "a/old")


def test_a_file_that_was_cut_is_appended_to(disk: Disk) -> None:
    handle = disk.create("a/file")
    disk.append(handle, [b"0123456789"])
    disk.truncate("a/file", 4)
    disk.append(handle, [b"x"])
    assert disk.read("a/file", 0, 99) == b"0123x"
    disk.truncate("a/file", 7)
    assert disk.read("a/file", 0, 99) == b"0123x\0\0"
    disk.erase("a/file", 1, 2)
    assert disk.read("a/file", 0, 99) == b"0\0\x003x\0\0"
    disk.close(handle)


def test_names_and_folders_are_of_one_folder(disk: Disk) -> None:
    for path in ("s/1/b", "s/1/a", "s/10/c", "s/file", "sx/2/d"):
        put(disk, path)
    assert disk.names("s/1") == ["a", "b"]
    assert disk.names("s") == ["file"]
    assert disk.folders("s") == ["1", "10"]
    assert disk.folders("s/1") == []
    assert disk.names("nowhere") == disk.folders("nowhere") == []


def test_what_is_removed_is_gone(disk: Disk) -> None:
    put(disk, "s/1/a", b"x")
    disk.remove("s/1")  # not empty: it stays
    assert disk.read("s/1/a", 0, 1) == b"x"
    disk.remove("s/1/a")
    disk.remove("s/1/a")
    disk.remove("s/1")
    disk.remove("s/1")
    assert disk.folders("s") == []
    for asking in (lambda: disk.read("s/1/a", 0, 1), lambda: disk.size("s/1/a"), lambda: disk.truncate("s/1/a", 0)):
        with pytest.raises(FileNotFoundError):
            asking()


def test_a_root_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Files(tmp_path / "gone").create("streams/7/file")
    assert not (tmp_path / "gone").exists()
