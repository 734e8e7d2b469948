"""The files of a stream: append, read, go on in another life."""

from __future__ import annotations

from errno import EIO
from pathlib import Path
from random import Random

import pytest

from leveret.store.files import Files
from leveret.store.memory_disk import MemoryDisk
from leveret.store.stream_segments import index_path, segment_path
from tests.support.streams import (
    FOLDER,
    SMALL,
    START,
    STREAM,
    all_of,
    append_each,
    filled,
    firsts_of,
    opened,
    random_runs,
    run,
    seen_in,
    seen_in_chunk,
)
from tests.support.virtual_disk import VirtualDisk

# ---- appending and reading


def test_a_new_stream_is_empty_and_leaves_no_trace() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    assert (files.first, files.next, files.bytes) == (0, 0, 0)
    assert files.read(0, 100, 1000) == []
    assert list(files.chunks(0, 100)) == []
    assert files.offset_at(START) == 0
    assert files.sync() == 0
    files.close()
    assert disk.files() == {}


def test_what_is_appended_can_be_read_at_once() -> None:
    files = opened(VirtualDisk())
    runs = [run(0, b"a", b"b"), run(2, b"c", key="k", time=START + 1)]
    files.append(runs[:1])
    assert all_of(files) == seen_in(runs[:1])
    files.append(runs[1:])
    assert (files.first, files.next) == (0, 3)
    assert all_of(files) == seen_in(runs)


def test_what_is_handed_again_is_left_out() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    files.append([run(0, b"a", b"b", b"c")])
    size = files.bytes
    files.append([run(0, b"a", b"b"), run(2, b"c")])
    assert files.bytes == size
    files.append([run(1, b"b", b"c", b"d"), run(4, b"e")])
    assert [seen.content for seen in all_of(files)] == [b"a", b"b", b"c", b"d", b"e"]


def test_a_stream_begins_where_its_first_message_does() -> None:
    files = opened(VirtualDisk())
    files.append([run(1000, b"a")])
    assert (files.first, files.next) == (1000, 1001)
    assert [seen.offset for seen in all_of(files)] == [1000]


def test_offsets_may_be_missing() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    files.append([run(0, b"a"), run(10, b"b")])
    files.append([run(20, b"c")])
    assert [seen.offset for seen in all_of(files)] == [0, 10, 20]
    assert files.read(1, 10, 100) == []
    assert [seen.offset for seen in seen_in(files.read(1, 100, 1000))] == [10, 20]
    files.close()
    assert [seen.offset for seen in all_of(opened(disk))] == [0, 10, 20]


def test_all_chunks_of_an_append_are_written_at_once() -> None:
    disk = VirtualDisk()
    files = opened(disk, 1 << 30)
    files.append([run(0, b"a")])
    before = len(disk.operations)
    files.append([run(1, *[b"x"] * 5000), run(6000, b"y")])
    assert [operation.kind for operation in disk.operations[before:]] == ["append"]


@pytest.mark.parametrize("disk_of", [lambda path: VirtualDisk(), lambda path: MemoryDisk(), Files])
def test_any_range_is_what_it_should_be(disk_of: object, tmp_path: Path) -> None:
    files = opened(disk_of(tmp_path))  # type: ignore[operator]
    runs = random_runs(Random(3), 0, 30)
    for place in range(0, 30, 3):
        files.append(runs[place : place + 3])
    truth = seen_in(runs)
    for start in range(0, files.next + 2, 3):
        for stop in range(0, files.next + 2, 5):
            wanted = [seen for seen in truth if start <= seen.offset < stop]
            assert [seen for chunk in files.chunks(start, stop) for seen in seen_in_chunk(chunk)] == wanted
            assert seen_in(files.read(start, stop, 1 << 20)) == wanted
            some = seen_in(files.read(start, stop, 100))
            assert some == wanted[: len(some)]
            assert some or not wanted
            assert len(some) <= 1 or sum(len(seen.content) for seen in some) <= 100
    files.close()
    assert all_of(opened(disk_of(tmp_path) if disk_of is Files else files._disk)) == truth  # type: ignore[operator]


def test_a_reader_that_goes_on_reads_no_more_than_it_needs() -> None:
    """Its place is remembered: it does not begin again where the index says."""
    disk = VirtualDisk()
    files = opened(disk, 1 << 30)
    append_each(files, [run(n, bytes(1000)) for n in range(200)])
    reads = watched_reads(disk)
    offset = 0
    while runs := files.read(offset, files.next, 2000):
        offset = runs[-1].first + len(runs[-1].messages)
    assert offset == 200
    walked = [head for head in reads if head]
    assert len(walked) <= 201


def watched_reads(disk: VirtualDisk) -> list[str]:
    reads: list[str] = []

    def watch(kind: str, path: str) -> None:
        if kind == "read":
            reads.append(path)

    disk.fault = watch  # type: ignore[assignment]
    return reads


def test_readers_go_on_while_segments_are_added() -> None:
    files = opened(VirtualDisk())
    runs = random_runs(Random(2), 0, 40)
    append_each(files, runs[:3])
    seen = []
    reading = files.chunks(0, 1 << 40)
    for each in runs[3:]:
        seen += seen_in_chunk(next(reading))
        files.append([each])
    seen += [one for chunk in reading for one in seen_in_chunk(chunk)]
    assert seen == seen_in(runs)


# ---- segments


def test_a_segment_is_sealed_when_it_is_full() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    for first in firsts_of(disk)[:-1]:
        assert disk.size(segment_path(STREAM, first)) >= SMALL
        assert index_path(STREAM, first) in disk.files()
    assert files.bytes == sum(disk.size(segment_path(STREAM, first)) for first in firsts_of(disk))
    assert files.first == 0 == firsts_of(disk)[0]


def test_a_new_segment_is_known_on_disk_before_a_chunk_is_in_it() -> None:
    disk = VirtualDisk()
    opened(disk).append([run(0, b"a")])
    kinds = [(operation.kind, operation.path) for operation in disk.operations]
    path = segment_path(STREAM, 0)
    folders = [("sync_folder", FOLDER), ("sync_folder", "streams"), ("sync_folder", ".")]
    assert kinds == [("create", path), ("append", path), ("sync", path), *folders, ("append", path)]


def test_a_segment_is_synced_before_the_next_begins() -> None:
    disk = VirtualDisk()
    filled(disk)
    dirty: set[str] = set()
    for operation in disk.operations:
        if operation.path.endswith(".seg"):
            if operation.kind == "create":
                assert not dirty
            if operation.kind == "append":
                dirty.add(operation.path)
            if operation.kind == "sync":
                dirty.discard(operation.path)


# ---- another life


def test_a_stream_goes_on_in_another_life() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    runs = random_runs(Random(8), 0, 60)
    for place in range(0, 60, 10):
        append_each(files, runs[place : place + 10])
        if place % 20:
            files.close()
        files = opened(disk)
        assert all_of(files) == seen_in(runs[: place + 10])
        assert files.next == seen_in(runs[: place + 10])[-1].offset + 1


def test_opening_reads_no_sealed_segment() -> None:
    disk = VirtualDisk()
    filled(disk).close()
    reads = watched_reads(disk)
    before = len(disk.operations)
    opened(disk)
    assert not [path for path in reads if path.endswith(".seg")]
    assert len(disk.operations) == before
    disk.remove(index_path(STREAM, firsts_of(disk)[-1]))
    opened(disk)
    assert {path for path in reads if path.endswith(".seg")} == {segment_path(STREAM, firsts_of(disk)[-1])}


def test_an_index_that_is_missing_or_wrong_is_made_anew() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    files.close()
    truth, path = all_of(files), index_path(STREAM, firsts_of(disk)[2])
    right = disk.content(path)
    other = disk.content(index_path(STREAM, firsts_of(disk)[1]))
    flipped = [right[:at] + bytes((right[at] ^ 8,)) + right[at + 1 :] for at in range(len(right))]
    for wrong in (b"", right[:-1], right[:20], right + b"\0", other, *flipped):
        disk.put(path, wrong)
        assert all_of(opened(disk)) == truth
        assert disk.content(path) == right
    disk.remove(path)
    assert all_of(opened(disk)) == truth
    assert disk.content(path) == right


def test_an_index_that_cannot_be_written_is_no_obstacle() -> None:
    disk = VirtualDisk()
    disk.fault = lambda kind, path: OSError(EIO, "no") if path.endswith(".idx") and kind != "remove" else None
    files = filled(disk)
    files.close()
    truth = all_of(files)
    assert all_of(opened(disk)) == truth
    disk.fault = lambda kind, path: None
    assert all_of(opened(disk)) == truth


def test_an_index_without_its_segment_is_removed() -> None:
    disk = VirtualDisk()
    filled(disk).close()
    gone = firsts_of(disk)[0]
    disk.remove(segment_path(STREAM, gone))
    files = opened(disk)
    assert index_path(STREAM, gone) not in disk.files()
    assert files.first == firsts_of(disk)[0]


def test_somebody_elses_files_are_left_alone() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    files.close()
    truth = all_of(files)
    names = [
        "notes.txt",
        "7.seg",
        "0000000000000000000.seg",
        "00000000000000000000.seg.bak",
        "x.idx",
        "٠" * 20 + ".seg",
    ]
    for name in names:
        disk.put(f"{FOLDER}/{name}", b"hello")
    files = opened(disk)
    assert all_of(files) == truth
    files.remove()
    assert disk.names(FOLDER) == sorted(names)


# ---- times


def test_a_time_leads_to_the_first_message_since_then() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    runs = random_runs(Random(9), 0, 60)
    for place in range(0, 60, 4):
        files.append(runs[place : place + 4])
    for life in range(2):
        truth = all_of(files)
        times = sorted({seen.time + more for seen in truth for more in (-1, 0, 1)})
        for time in times:
            assert files.offset_at(time) == next((seen.offset for seen in truth if seen.time >= time), files.next)
        if life == 0:
            files.close()
            files = opened(disk)


def test_a_time_is_found_without_reading_what_came_before() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    append_each(files, [run(n, bytes(100), time=START + n) for n in range(100)])
    reads = watched_reads(disk)
    assert files.offset_at(START + 70) == 70
    assert len(set(reads)) == 1
