"""The real disk: whole writes, whatever the system calls do, and the rest of the contract."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest

from leveret.store.disk import is_shortage
from leveret.store.files import MOST_BUFFERS, Files, SpareFiles


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_buffers_are_written_in_order_at_the_end(files: Files, tmp_path: Path) -> None:
    handle = files.create("journal/one")
    files.append(handle, [b"a", b"", b"bc"])
    files.append(handle, [b"d"])
    files.sync(handle)
    files.close(handle)
    assert (tmp_path / "journal/one").read_bytes() == b"abcd"
    assert files.size("journal/one") == 4


def test_reads_are_counted_and_timed(tmp_path: Path) -> None:
    ticks = count()
    files = Files(tmp_path, work_time=lambda: next(ticks) / 4)
    (tmp_path / "one").write_bytes(b"abcd")
    assert [files.read("one", offset, 3) for offset in (0, 2)] == [b"abc", b"cd"]
    assert (files.reads, files.read_bytes, files.read_seconds) == (2, 5, 0.5)


def test_a_file_that_is_there_is_not_taken_over(files: Files) -> None:
    files.close(files.create("one"))
    with pytest.raises(FileExistsError):
        files.create("one")


def test_only_we_may_read_what_we_make(files: Files, tmp_path: Path) -> None:
    files.close(files.create("one"))
    assert (tmp_path / "one").stat().st_mode & 0o077 == 0


def test_more_buffers_than_the_system_takes_at_once(files: Files, tmp_path: Path) -> None:
    handle = files.create("one")
    buffers = [b"%d," % n for n in range(2 * MOST_BUFFERS + 7)]
    files.append(handle, buffers)
    files.close(handle)
    assert (tmp_path / "one").read_bytes() == b"".join(buffers)


@pytest.mark.parametrize("seed", range(5))
def test_short_writes_are_continued(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    real_writev, real_write = os.writev, os.write
    calls = 0

    def writev(handle: int, buffers: list[bytes]) -> int:
        nonlocal calls
        calls += 1
        whole = b"".join(buffers)
        return real_writev(handle, [whole[: random.randint(0, len(whole))]])

    def write(handle: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        return real_write(handle, data[: random.randint(1, len(data))])

    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(os, "write", write)
    handle = files.create("one")
    buffers = [random.randbytes(random.randint(0, 500)) for _ in range(MOST_BUFFERS + 20)]
    files.append(handle, buffers)
    files.append(handle, [b"the end"])
    files.close(handle)
    assert calls > 4
    assert (tmp_path / "one").read_bytes() == b"".join(buffers) + b"the end"


def test_an_error_of_the_system_comes_out(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, buffers: list[bytes]) -> int:
        raise OSError(28, "No space left on device")

    handle = files.create("one")
    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(OSError, match="space"):
        files.append(handle, [b"a"])
    files.close(handle)


def test_truncate_cuts_and_syncs(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").write_bytes(b"abcdef")
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle)))
    files.truncate("one", 4)
    assert (tmp_path / "one").read_bytes() == b"abcd"
    assert len(synced) == 1


def test_erase_leaves_zeros_and_the_size(files: Files, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"abcdef")
    files.erase("one", 2, 3)
    assert (tmp_path / "one").read_bytes() == b"ab\0\0\0f"


def test_removing_what_is_gone_is_no_error(files: Files, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a")
    files.remove("one")
    files.remove("one")
    assert not (tmp_path / "one").exists()


def test_a_folder_can_be_synced(files: Files) -> None:
    files.close(files.create("journal/one"))
    files.sync_folder("journal")


def test_reading_gives_what_there_is(files: Files, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"abcdef")
    assert files.read("one", 1, 3) == b"bcd"
    assert files.read("one", 4, 100) == b"ef"
    assert files.read("one", 9, 5) == b""
    assert files.read("one", 0, 0) == b""


def test_short_reads_are_continued(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 10
    (tmp_path / "one").write_bytes(data)
    real = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: real(handle, min(size, 100)))
    assert files.read("one", 3, 2000) == data[3:2003]
    assert (files.reads, files.read_bytes) == (1, 2000)
    assert files.read("one", 2500, 100) == data[2500:]
    assert (files.reads, files.read_bytes) == (2, 2060)


def test_reading_leaves_no_handle_open(files: Files, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"abcdef")
    before = len(os.listdir("/dev/fd"))
    for _ in range(10):
        files.read("one", 0, 6)
        with pytest.raises(FileNotFoundError):
            files.read("two", 0, 6)
    assert len(os.listdir("/dev/fd")) == before


def test_names_are_those_of_the_files_in_a_folder(files: Files, tmp_path: Path) -> None:
    assert files.names("journal") == []
    for name in ("b", "a"):
        files.close(files.create(f"journal/{name}"))
    (tmp_path / "journal" / "folder").mkdir()
    assert files.names("journal") == ["a", "b"]


def test_a_file_is_opened_with_a_spare_descriptor_when_there_is_no_other(tmp_path: Path) -> None:
    spare = SpareFiles()
    files = Files(tmp_path, spare)
    assert spare.refill()
    with using_up_descriptors():
        handle = files.create("journal/one")
        files.append(handle, [b"a"])
        files.sync_folder("journal")
        assert not spare.refill()
    files.close(handle)
    assert spare.refill()
    spare.close()


def test_without_a_spare_descriptor_the_lack_is_reported(files: Files) -> None:
    with using_up_descriptors(), pytest.raises(OSError, match="Too many open files") as caught:
        files.create("one")
    assert is_shortage(caught.value)


@contextmanager
def using_up_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
