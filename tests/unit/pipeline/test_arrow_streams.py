"""Ranges of a stream's files as batches: exactly what lies in them, in order, or a word of what is missing."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from leveret.http.errors import Gone
from leveret.pipeline.arrow_schema import MOST_ROWS
from leveret.pipeline.arrow_streams import StreamFetch, Wanted
from leveret.pipeline.topics import TopicFilter
from leveret.store.memory_disk import MemoryDisk
from leveret.store.stream_chunk import StreamRun
from leveret.store.stream_files import StreamFiles
from leveret.wire.content import make_content
from leveret.wire.properties import Properties
from tests.support.streams import FOLDER, START, run

COLUMNS = ("body", "routing_key", "exchange", "offset", "timestamp")


def content(place: int) -> bytes:
    return make_content(Properties(), b"m%d" % place)


def stream(runs: list[StreamRun], segment_bytes: int = 1 << 20) -> StreamFiles:
    files = StreamFiles(MemoryDisk(), 7, segment_bytes)
    files.open()
    for place in range(0, len(runs), 3):  # three of them make a chunk, if they are small
        files.append(runs[place : place + 3])
    return files


def uneven(number: int, random: Random) -> list[StreamRun]:
    """Runs of different lengths, keys and times."""
    runs, first = [], 0
    while first < number:
        count = min(random.randint(1, 40), number - first)
        contents = [content(place) for place in range(first, first + count)]
        runs.append(run(first, *contents, key=random.choice(("a.b", "a.c", "z")), time=START + first))
        first += count
    return runs


def fetched(files: StreamFiles, start: int, stop: int, **options: Any) -> pa.Table:
    only = options.get("only")
    chosen = TopicFilter(only) if only is not None else None
    fetch = StreamFetch(files, Wanted("s", 0, start, stop, COLUMNS, chosen, options.get("skips", False)))
    batches: list[pa.RecordBatch] = []
    while not fetch.is_over:
        batches += fetch.step()
    assert all(0 < batch.num_rows <= MOST_ROWS for batch in batches)
    table = pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in COLUMNS})
    table.validate(full=True)
    return table


def expected(runs: list[StreamRun], start: int, stop: int, keys: tuple[str, ...]) -> list[tuple[object, ...]]:
    return [
        (b"m%d" % offset, address.key, offset, time)
        for first, time, messages in runs
        for offset, (_, address, _) in enumerate(messages, first)
        if start <= offset < stop and address.key in keys
    ]


def shown(table: pa.Table) -> list[tuple[object, ...]]:
    times = table.column("timestamp").cast(pa.int64()).to_pylist() if table.num_rows else []
    columns = [table.column(name).to_pylist() for name in ("body", "routing_key", "offset")]
    return list(zip(*columns, times, strict=True))


@pytest.mark.parametrize("segment_bytes", [600, 5000, 1 << 20])
def test_any_range_with_and_without_a_filter(segment_bytes: int) -> None:
    random = Random(segment_bytes)
    runs = uneven(1500, random)
    files = stream(runs, segment_bytes)
    for _ in range(15):
        start = random.randint(0, 1500)
        stop = random.randint(start, 1500)
        assert shown(fetched(files, start, stop)) == expected(runs, start, stop, ("a.b", "a.c", "z"))
        assert shown(fetched(files, start, stop, only="a.*")) == expected(runs, start, stop, ("a.b", "a.c"))
        assert shown(fetched(files, start, stop, only="nobody")) == []


def test_many_rows_come_in_batches() -> None:
    runs = [run(first, *(content(place) for place in range(first, first + 3000))) for first in range(0, 24_000, 3000)]
    table = fetched(stream(runs), 10, 23_990)
    assert table.column("offset").to_pylist() == list(range(10, 23_990))
    assert 3 <= len(table.column("offset").chunks) <= 6


def test_what_retention_took_is_told_with_the_offset_to_go_on_from() -> None:
    files = stream(uneven(2000, Random(1)), 600)
    first = files.trim(max_bytes=8000, before=None, keep_from=None)
    assert first > 100
    with pytest.raises(Gone, match=f"offsets 50 to {first - 1} of stream 's' were deleted by retention") as told:
        fetched(files, 50, 2000)
    assert told.value.extra == {"first": first}
    assert fetched(files, 50, 2000, skips=True).column("offset").to_pylist() == list(range(first, 2000))
    assert fetched(files, first, 2000).num_rows == 2000 - first


def test_retention_that_overtakes_a_fetch() -> None:
    for skips in (True, False):
        files = stream(uneven(20_000, Random(2)), 5000)
        fetch = StreamFetch(files, Wanted("s", 0, 0, 20_000, COLUMNS, None, skips))
        read = sum(batch.num_rows for batch in fetch.step())
        first = files.trim(max_bytes=8000, before=None, keep_from=None)
        assert first > read + 5000
        if skips:
            offsets = finish(fetch)
            assert offsets[-1] == 19_999
            assert offsets == sorted(set(offsets))
        else:
            with pytest.raises(Gone):
                finish(fetch)


def finish(fetch: StreamFetch) -> list[int]:
    """The offsets of all that is left."""
    offsets: list[int] = []
    while not fetch.is_over:
        for batch in fetch.step():
            offsets += batch.column("offset").to_pylist()
    return offsets


def test_a_stream_that_is_deleted_under_a_fetch_ends_it() -> None:
    files = stream(uneven(20_000, Random(3)), 5000)
    fetch = StreamFetch(files, Wanted("s", 0, 0, 20_000, COLUMNS, None, False))
    fetch.step()
    files.remove()
    with pytest.raises(Gone):
        finish(fetch)


def test_damage_in_the_middle_is_not_passed_over_in_silence() -> None:
    disk = MemoryDisk()
    files = StreamFiles(disk, 7, 1 << 20)
    files.open()
    for each in uneven(300, Random(4)):
        files.append([each])
    files.sync()
    (name,) = [name for name in disk.names(FOLDER) if name.endswith(".seg")]
    path = f"{FOLDER}/{name}"
    disk.erase(path, disk.read(path, 0, disk.size(path)).index(b"m150"), 1)
    with pytest.raises(Gone, match="damage"):
        fetched(files, 0, 300)
    offsets = fetched(files, 0, 300, skips=True).column("offset").to_pylist()
    assert 150 not in offsets
    assert 250 < len(offsets) < 300
