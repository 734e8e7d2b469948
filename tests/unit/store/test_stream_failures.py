"""A disk that is full, or fails, under a stream."""

from __future__ import annotations

from errno import EIO, ENOSPC
from random import Random

import pytest

from leveret.store import stream_segments
from leveret.store.stream_segments import segment_path
from tests.support.streams import START, STREAM, all_of, append_each, firsts_of, opened, random_runs, run, seen_in
from tests.support.virtual_disk import VirtualDisk


def test_a_full_disk_is_no_loss() -> None:
    runs = random_runs(Random(4), 0, 60)
    for room in range(30, 400, 7):
        disk = VirtualDisk()
        files = opened(disk)
        files.append(runs[:10])
        disk.capacity = disk.used + room
        with pytest.raises(OSError, match="No space"):
            files.append(runs[10:])
        assert all_of(files) == seen_in(runs)[: files.next]
        disk.capacity = None
        if room % 2:
            files.rewind()
        files.append(runs[10:])
        assert all_of(files) == seen_in(runs)
        files.close()
        assert all_of(opened(disk)) == seen_in(runs)


def test_a_full_disk_and_the_end_of_the_broker() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    files.append([run(0, b"a")])
    disk.capacity = disk.used + 100
    with pytest.raises(OSError, match="No space"):
        files.append([run(1, bytes(200))])
    files.close()
    disk.capacity = None
    assert [seen.content for seen in all_of(opened(disk))] == [b"a"]


@pytest.mark.parametrize("kind", ["create", "append", "sync", "sync_folder"])
def test_a_segment_that_cannot_be_begun_is_begun_later(kind: str) -> None:
    disk = VirtualDisk()
    files = opened(disk)
    disk.fault = lambda done, path: OSError(ENOSPC, "no") if done == kind else None
    with pytest.raises(OSError, match="no"):
        files.append([run(0, b"a")])
    assert disk.files() == {}
    assert (files.first, files.next, files.bytes) == (0, 0, 0)
    disk.fault = lambda done, path: None
    files.append([run(0, b"a")])
    assert [seen.content for seen in all_of(files)] == [b"a"]


@pytest.mark.parametrize("stretch", [1, 250, 1 << 20])
def test_after_a_failed_sync_nothing_is_believed_that_was_not_synced(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_segments, "STRETCH", stretch)
    disk = VirtualDisk()
    files = opened(disk)
    runs = [run(n, b"%d" % n, time=START + n) for n in range(6)]
    append_each(files, runs[:2])
    assert files.sync() == 2
    append_each(files, runs[2:4])
    disk.fault = lambda kind, path: OSError(EIO, "broken") if kind == "sync" else None
    with pytest.raises(OSError, match="sync failed: broken"):
        files.sync()
    disk.fault = lambda kind, path: None
    for again in (files.sync, lambda: files.append(runs[4:])):
        with pytest.raises(OSError, match="rewind first"):
            again()
    files.rewind()
    assert (files.next, files.sync()) == (2, 2)
    assert all_of(files) == seen_in(runs[:2])
    assert files.offset_at(START + 3) == 2
    files.append(runs[1:])
    assert all_of(files) == seen_in(runs)
    assert files.offset_at(START + 3) == 3
    assert firsts_of(disk) == [0, 2]
    files.close()
    assert all_of(opened(disk)) == seen_in(runs)


def test_after_a_failed_first_sync_the_segment_is_begun_anew() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    files.append([run(5, b"a")])
    disk.fault = lambda kind, path: OSError(EIO, "broken") if kind == "sync" else None
    with pytest.raises(OSError, match="broken"):
        files.sync()
    disk.fault = lambda kind, path: None
    files.rewind()
    assert all_of(files) == []
    files.append([run(5, b"a", b"b")])
    assert firsts_of(disk) == [5]
    assert [seen.offset for seen in all_of(files)] == [5, 6]
    assert files.bytes == disk.size(segment_path(STREAM, 5))


def test_closing_after_a_failed_sync_lets_go_only() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    files.append([run(0, b"a")])
    disk.fault = lambda kind, path: OSError(EIO, "broken") if kind == "sync" else None
    with pytest.raises(OSError, match="broken"):
        files.close()
    before = len(disk.operations)
    files.close()
    assert len(disk.operations) == before
    assert not disk._handles
