"""Bytes of a stream that are not what they were: it opens, delivers nothing altered, misses only what was in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from errno import EIO
from functools import cache
from random import Random
from typing import NamedTuple

import pytest

from leveret.store import stream_segments
from leveret.store.stream_chunk import HEAD_SIZE, SEGMENT_HEAD
from leveret.store.stream_files import StreamFiles
from leveret.store.stream_segments import segment_path
from tests.support.streams import SMALL, STREAM, Seen, all_of, firsts_of, opened, random_runs, run, seen_in
from tests.support.virtual_disk import VirtualDisk

ALL = bool(os.environ.get("LEVERET_CRASH_ALL"))
TIMES = 20 if ALL else 1

pytestmark = [pytest.mark.timeout(3600)] if ALL else []


@pytest.fixture(autouse=True, scope="module")
def many_entries() -> Iterator[None]:
    """Of an index: one for every chunk or two, or the small segments here would have a single one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_segments, "STRETCH", 150)
        yield


class Chunk(NamedTuple):
    path: str
    at: int
    end: int
    seen: list[Seen]


class KnownStream:
    """One chunk per run, each of them synced before the next is written."""

    def __init__(self, seed: int = 5, number: int = 20, *, closes: bool) -> None:
        self.disk = VirtualDisk()
        files = opened(self.disk)
        self.chunks: list[Chunk] = []
        for each in random_runs(Random(seed), 0, number):
            files.append([each])
            files.sync()
            path = segment_path(STREAM, firsts_of(self.disk)[-1])
            at = self.chunks[-1].end if self.chunks and self.chunks[-1].path == path else SEGMENT_HEAD.size
            self.chunks.append(Chunk(path, at, self.disk.size(path), seen_in([each])))
        if closes:
            files.close()
        self.paths = [segment_path(STREAM, first) for first in firsts_of(self.disk)]
        self.next = files.next

    def altered(self, path: str, data: bytes) -> VirtualDisk:
        image = self.disk.copy()
        image.put(path, data)
        return image

    def sound(self, image: VirtualDisk) -> list[Chunk]:
        """Chunks that are as they were."""
        files, mine = image.files(), self.disk.files()
        return [
            chunk
            for chunk in self.chunks
            if files.get(chunk.path, b"")[chunk.at : chunk.end] == mine[chunk.path][chunk.at : chunk.end]
        ]


@cache
def sealed() -> KnownStream:
    return KnownStream(closes=True)


@cache
def open_ended() -> KnownStream:
    """The last segment has three chunks and no index."""
    for seed in range(20):
        known = KnownStream(seed, closes=False)
        if known.paths[-1] == known.chunks[-3].path != known.chunks[-4].path and known.chunks[-1].end < SMALL:
            return known
    raise AssertionError("there is no such stream")


def messages(chunks: list[Chunk]) -> list[Seen]:
    return [seen for chunk in chunks for seen in chunk.seen]


def judge(known: KnownStream, image: VirtualDisk, wanted: list[Seen]) -> StreamFiles:
    """It opens, twice, has what is wanted, and goes on."""
    files = opened(image)
    assert all_of(files) == wanted
    again = opened(image)
    assert (again.first, again.next, again.bytes) == (files.first, files.next, files.bytes)
    assert all_of(again) == wanted
    going_on = run(max(known.next, again.next), b"goes on")
    again.append([going_on])
    again.close()
    assert all_of(opened(image)) == [*wanted, *seen_in([going_on])]
    return files


# ---- the end of the last segment


def test_the_last_chunk_may_be_cut_at_any_byte() -> None:
    known = open_ended()
    last = known.chunks[-1]
    data = known.disk.content(last.path)
    for cut in range(last.at, last.end):
        judge(known, known.altered(last.path, data[:cut]), messages(known.chunks[:-1]))


@pytest.mark.parametrize("bit", [1, 128])
def test_any_byte_of_the_last_chunk_may_be_wrong(bit: int) -> None:
    known = open_ended()
    last = known.chunks[-1]
    data = known.disk.content(last.path)
    for at in range(last.at, last.end):
        image = known.altered(last.path, data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :])
        judge(known, image, messages(known.chunks[:-1]))


def test_a_last_segment_of_next_to_nothing_is_no_obstacle() -> None:
    """Its name still contains the last offset of the stream."""
    known = open_ended()
    path = known.paths[-1]
    before = messages([chunk for chunk in known.chunks if chunk.path != path])
    for cut in range(SEGMENT_HEAD.size + HEAD_SIZE + 2):
        files = judge(known, known.altered(path, known.disk.content(path)[:cut]), before)
        assert files.next == before[-1].offset + 1


def test_the_only_segment_may_be_lost() -> None:
    disk = VirtualDisk()
    opened(disk).append([run(500, b"a", b"b")])
    disk.put(segment_path(STREAM, 500), b"rubbish" * 20)
    files = opened(disk)
    assert (files.first, files.next) == (500, 500)
    assert (opened(disk).first, opened(disk).next) == (500, 500)
    files.append([run(500, b"a", b"b", b"c")])
    assert [seen.offset for seen in all_of(files)] == [500, 501, 502]


# ---- damage in the middle


@pytest.mark.parametrize("known_of", [sealed, open_ended])
@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_costs_its_chunk_only(known_of: Callable[[], KnownStream], seed: int) -> None:
    known, random = known_of(), Random(seed)
    for _ in range(40 * TIMES):
        path = random.choice(known.paths)
        data = bytearray(known.disk.content(path))
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        image = known.altered(path, bytes(data))
        judge(known, image, messages(known.sound(image)))


@pytest.mark.parametrize("seed", range(3))
def test_a_lost_page_costs_the_chunks_in_it_only(seed: int) -> None:
    known, random = sealed(), Random(seed)
    for _ in range(40 * TIMES):
        image = known.disk.copy()
        for path in random.sample(known.paths, random.randint(1, 3)):
            data = known.disk.content(path)
            size = random.choice((16, 64, 300))
            start = random.randrange(0, len(data))
            other = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))
            image.put(path, (data[:start] + other + data[start + size :])[: len(data)])
        judge(known, image, messages(known.sound(image)))


def test_a_sealed_segment_may_be_cut_anywhere() -> None:
    known = sealed()
    path = known.paths[2]
    data = known.disk.content(path)
    for cut in range(0, len(data), 7):
        image = known.altered(path, data[:cut])
        judge(known, image, messages(known.sound(image)))


@pytest.mark.parametrize("place", [0, 2, -2])
def test_a_missing_segment_costs_its_messages_only(place: int) -> None:
    known = sealed()
    image = known.disk.copy()
    image.remove(known.paths[place])
    judge(known, image, messages([chunk for chunk in known.chunks if chunk.path != known.paths[place]]))


def test_every_byte_of_a_segment_head_may_be_wrong() -> None:
    known = open_ended()
    for path in (known.paths[1], known.paths[-1]):
        data = known.disk.content(path)
        for at in range(SEGMENT_HEAD.size):
            judge(known, known.altered(path, data[:at] + b"\x55" + data[at + 1 :]), messages(known.chunks))


def test_a_sound_chunk_in_another_place_is_not_believed() -> None:
    known, random = sealed(), Random(6)
    for _ in range(40 * TIMES):
        source, target = random.sample(known.chunks, 2)
        piece = known.disk.content(source.path)[source.at : source.end]
        data = known.disk.content(target.path)
        image = known.altered(target.path, (data[: target.at] + piece + data[target.at + len(piece) :])[: len(data)])
        judge(known, image, messages(known.sound(image)))


def test_content_that_looks_like_chunks_is_not_read_as_chunks() -> None:
    known = sealed()
    bait = known.disk.content(known.paths[0]) + b"\xf2LVS" * 50
    disk = VirtualDisk()
    files = opened(disk, 1 << 20)
    for n, content in enumerate((b"a", bait, b"b")):
        files.append([run(n, content)])
    files.sync()
    files.append([run(3, b"c")])
    data = disk.content(segment_path(STREAM, 0))
    at = data.index(bait) - 40  # in the head of its chunk: its size is not known any more
    disk.put(segment_path(STREAM, 0), data[:at] + b"\x55" + data[at + 1 :])
    assert [seen.content for seen in all_of(opened(disk))] == [b"a", b"b", b"c"]


# ---- what is logged and kept


def spoiled(known: KnownStream, chunk: Chunk) -> VirtualDisk:
    data = bytearray(known.disk.content(chunk.path))
    data[chunk.end - 3] ^= 4
    return known.altered(chunk.path, bytes(data))


def test_damage_is_logged_once_and_kept_in_quarantine(caplog: pytest.LogCaptureFixture) -> None:
    known = sealed()
    chunk = known.chunks[7]
    image = spoiled(known, chunk)
    bytes_there = image.content(chunk.path)[chunk.at : chunk.end]
    files = opened(image)
    for _ in range(3):
        all_of(files)
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert f"path={chunk.path} offset={chunk.at} bytes={chunk.end - chunk.at}" in told
    (name,) = image.names("quarantine")
    assert image.content(f"quarantine/{name}") == bytes_there
    all_of(opened(image))
    assert image.names("quarantine") == [name]


def test_a_torn_end_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    known = open_ended()
    last = known.chunks[-1]
    image = known.altered(last.path, known.disk.content(last.path)[:-1])
    with caplog.at_level("INFO"):
        opened(image)
    (told,) = caplog.records
    assert told.levelname == "INFO"
    assert "incomplete write" in told.getMessage()
    assert image.names("quarantine") == []


def test_a_sector_that_cannot_be_read_costs_its_chunk_only() -> None:
    disk = VirtualDisk()
    files = opened(disk, 1 << 20)
    runs = [run(n, Random(n).randbytes(20_000)) for n in range(6)]
    for each in runs:
        files.append([each])
    files.close()
    healthy = disk.read

    def sick(path: str, offset: int, size: int) -> bytes:
        if path.endswith(".seg") and offset <= 50_000 < offset + size:
            raise OSError(EIO, "Input/output error")
        return healthy(path, offset, size)

    disk.read = sick  # type: ignore[method-assign]
    assert all_of(opened(disk)) == seen_in(runs[:2] + runs[3:])


def test_damage_that_cannot_be_put_aside_is_no_obstacle() -> None:
    known = sealed()
    image = spoiled(known, known.chunks[7])
    image.fault = lambda kind, path: OSError(EIO, "no") if path.startswith("quarantine") else None
    assert all_of(opened(image)) == messages(known.sound(image))
