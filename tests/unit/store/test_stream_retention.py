"""What leaves a stream: old segments, and the stream as a whole; and whoever reads it at that moment."""

from __future__ import annotations

from errno import EIO
from pathlib import Path
from random import Random

import pytest

from leveret.store.files import Files
from leveret.store.stream_files import StreamFiles, StreamGone, left_streams
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
)
from tests.support.virtual_disk import VirtualDisk

# ---- retention


def test_retention_by_size_takes_the_oldest_segments() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    truth, firsts = all_of(files), firsts_of(disk)
    sizes = [disk.size(segment_path(STREAM, first)) for first in firsts]
    keep = sum(sizes[2:])
    assert files.trim(max_bytes=sum(sizes), before=None, keep_from=None) == 0
    assert files.trim(max_bytes=keep, before=None, keep_from=None) == firsts[2] == files.first
    assert files.bytes == keep
    assert firsts_of(disk) == firsts[2:]
    assert index_path(STREAM, firsts[1]) not in disk.files()
    assert all_of(files) == [seen for seen in truth if seen.offset >= firsts[2]]
    assert files.trim(max_bytes=keep - 1, before=None, keep_from=None) == firsts[3]


def test_retention_by_age_takes_segments_that_are_old_as_a_whole() -> None:
    disk = VirtualDisk()
    files = opened(disk)
    append_each(files, [run(n, bytes(100), time=START + n) for n in range(50)])
    firsts = firsts_of(disk)
    assert files.trim(max_bytes=None, before=START + firsts[1] - 1, keep_from=None) == 0
    assert files.trim(max_bytes=None, before=START + firsts[1], keep_from=None) == firsts[1]
    assert files.trim(max_bytes=None, before=START + firsts[4] + 1, keep_from=None) == firsts[4]
    assert firsts_of(disk) == firsts[4:]


def test_retention_spares_what_a_reader_still_needs() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    firsts = firsts_of(disk)
    assert files.trim(max_bytes=0, before=None, keep_from=firsts[1] - 1) == 0
    assert files.trim(max_bytes=0, before=None, keep_from=firsts[1]) == firsts[1]
    assert files.trim(max_bytes=0, before=START * 2, keep_from=firsts[3] + 1) == firsts[3]


@pytest.mark.parametrize("reopens", [False, True])
def test_retention_never_takes_the_last_segment(reopens: bool) -> None:
    disk = VirtualDisk()
    files = filled(disk)
    following = files.next
    if reopens:
        files.close()
        files = opened(disk)
    last = firsts_of(disk)[-1]
    assert files.trim(max_bytes=0, before=START * 2, keep_from=None) == last
    assert firsts_of(disk) == [last]
    files.close()
    assert opened(disk).next == following


def test_a_segment_that_cannot_be_removed_is_tried_again() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    firsts = firsts_of(disk)
    disk.fault = lambda kind, path: OSError(EIO, "no") if kind == "remove" else None
    assert files.trim(max_bytes=0, before=None, keep_from=firsts[1]) == firsts[1]
    assert firsts_of(disk) == firsts
    disk.fault = lambda kind, path: None
    assert files.trim(max_bytes=None, before=None, keep_from=None) == firsts[1]
    assert firsts_of(disk) == firsts[1:]


# ---- gone


def test_columns_of_what_is_gone_are_refused() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    first = files.trim(max_bytes=0, before=None, keep_from=firsts_of(disk)[2])
    with pytest.raises(StreamGone, match=f"begins at offset {first}"):
        next(files.chunks(first - 1, files.next))
    assert next(files.chunks(first, files.next)).first == first


def test_messages_are_read_from_the_oldest_that_is_left() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    first = files.trim(max_bytes=0, before=None, keep_from=firsts_of(disk)[2])
    assert files.read(0, files.next, 1000)[0].first == first


def test_a_reader_learns_that_retention_was_faster() -> None:
    """It reads a segment, and finds it removed; or it finds the following ones removed."""
    disk = VirtualDisk()
    files = filled(disk)
    firsts, last = firsts_of(disk), files.next
    reading, other = files.chunks(0, last), files.chunks(firsts[1], last)
    seen = [next(reading), next(other)]
    files.trim(max_bytes=0, before=None, keep_from=firsts[4])
    for one in (reading, other):
        with pytest.raises(StreamGone):
            seen += one
    assert {chunk.first < firsts[2] for chunk in seen} == {True}


def test_a_segment_that_somebody_took_away_is_gone() -> None:
    disk = VirtualDisk()
    files = filled(disk)
    disk.remove(segment_path(STREAM, 0))
    for reading in (lambda: files.read(0, 5, 100), lambda: list(files.chunks(0, 5))):
        with pytest.raises(StreamGone, match="has been removed"):
            reading()


def test_a_deleted_stream_leaves_nothing(tmp_path: Path) -> None:
    disk = Files(tmp_path)
    for stream in (STREAM, 8, 9):
        files = StreamFiles(disk, stream, SMALL)
        files.open()
        append_each(files, random_runs(Random(1), 0, 30))
        if stream == STREAM:
            files.remove()
            assert (files.first, files.bytes) == (files.next, 0)
            assert files.read(0, 100, 100) == []
        else:
            files.close()
    assert not (tmp_path / FOLDER).exists()
    assert left_streams(disk) == [8, 9]
    StreamFiles(disk, 8, SMALL).remove()  # the broker ended while it was removed: no need to open it
    assert left_streams(disk) == [9]


def test_a_stream_that_never_had_messages_is_deleted() -> None:
    disk = VirtualDisk()
    opened(disk).remove()
    assert disk.operations == []
