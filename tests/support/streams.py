"""Streams in tests: runs to append, and what is read back in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from leveret.message import PERSISTENT, Address, Message
from leveret.store.disk import Disk
from leveret.store.stream_files import StreamChunk, StreamFiles, StreamRun
from tests.support.virtual_disk import VirtualDisk

STREAM = 7
FOLDER = f"streams/{STREAM}"
SMALL = 600  # bytes of a segment
START = 1_700_000_000_000_000  # microseconds


class Seen(NamedTuple):
    """One message of a stream."""

    offset: int
    content: bytes
    exchange: str
    key: str
    time: int


def run(first: int, *contents: bytes, exchange: str = "ex", key: str = "key", time: int = START) -> StreamRun:
    address = Address(exchange, key, 1, 131072)
    messages: list[Message] = [(content, address, PERSISTENT) for content in contents]
    return StreamRun(first, time, messages)


def random_runs(random: Random, first: int, number: int) -> list[StreamRun]:
    """Some addresses, times that mostly rise, contents of very different sizes."""
    made: list[StreamRun] = []
    for _ in range(number):
        contents = [random.randbytes(random.choice((0, 1, 30, 30, 30, 200))) for _ in range(random.randint(1, 4))]
        time = START + first * 10 + random.choice((0, 0, 0, -500))
        made.append(run(first, *contents, key=random.choice(("a", "b", "ccc" * 20)), time=time))
        first += len(contents)
    return made


def seen_in(runs: Iterable[StreamRun]) -> list[Seen]:
    return [
        Seen(offset, content, address.exchange, address.key, time)
        for first, time, messages in runs
        for offset, (content, address, _) in enumerate(messages, first)
    ]


def seen_in_chunk(chunk: StreamChunk) -> list[Seen]:
    """By its columns alone."""
    places = [place for place, count in enumerate(chunk.counts) for _ in range(count)]
    assert len(places) == len(chunk.starts) == len(chunk.lengths) == chunk.number
    return [
        Seen(
            chunk.first + n,
            chunk.data[chunk.starts[n] : chunk.starts[n] + chunk.lengths[n]],
            *chunk.addresses[chunk.indexes[place]],
            chunk.times[place],
        )
        for n, place in enumerate(places)
    ]


def opened(disk: Disk, segment_bytes: int = SMALL) -> StreamFiles:
    files = StreamFiles(disk, STREAM, segment_bytes)
    files.open()
    return files


def all_of(files: StreamFiles) -> list[Seen]:
    """Everything in the stream, read both ways."""
    columns = [seen for chunk in files.chunks(files.first, files.next) for seen in seen_in_chunk(chunk)]
    found: list[Seen] = []
    offset = files.first
    while runs := files.read(offset, files.next, 300):
        found += seen_in(runs)
        offset = found[-1].offset + 1
    assert found == columns
    return found


def append_each(files: StreamFiles, runs: Sequence[StreamRun]) -> None:
    """A chunk for each run."""
    for each in runs:
        files.append([each])


def filled(disk: VirtualDisk, number: int = 40) -> StreamFiles:
    """A stream of several segments, one chunk per run."""
    files = opened(disk)
    append_each(files, random_runs(Random(5), 0, number))
    assert len(firsts_of(disk)) > 4
    return files


def firsts_of(disk: VirtualDisk) -> list[int]:
    """Of the segments on disk."""
    return [int(name[:20]) for name in disk.names(FOLDER) if name.endswith(".seg")]
