"""Readers in threads of their own, beside the one that appends, syncs and trims."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import Random

import pytest

from leveret.store.disk import Disk
from leveret.store.files import Files
from leveret.store.memory_disk import MemoryDisk
from leveret.store.stream_files import StreamFiles, StreamGone
from tests.support.streams import Seen, opened, random_runs, seen_in, seen_in_chunk

RUNS = random_runs(Random(11), 0, 300)
TRUTH = seen_in(RUNS)

Reader = Callable[[StreamFiles, int], list[Seen]]


def by_runs(files: StreamFiles, offset: int) -> list[Seen]:
    return seen_in(files.read(offset, files.next, 500))


def by_columns(files: StreamFiles, offset: int) -> list[Seen]:
    return [seen for chunk in files.chunks(offset, min(files.next, offset + 50)) for seen in seen_in_chunk(chunk)]


def follow(files: StreamFiles, reader: Reader, news: SimpleQueue[bool]) -> int:
    """Read to the end, and be sure that each message is the right one; how many there were."""
    number, offset, goes_on = 0, files.first, True
    while True:
        try:
            seen = reader(files, offset)
        except StreamGone:
            offset = max(offset, files.first)
            continue
        if seen:
            assert seen == TRUTH[seen[0].offset : seen[0].offset + len(seen)]
            offset = seen[-1].offset + 1
            number += len(seen)
        elif goes_on:
            goes_on = news.get(timeout=60)
        else:
            assert offset == len(TRUTH)
            return number


@pytest.mark.parametrize("disk_of", [lambda path: MemoryDisk(), Files], ids=["memory", "files"])
@pytest.mark.parametrize("trims", [False, True])
def test_readers_see_nothing_but_what_was_appended(
    disk_of: Callable[[Path], Disk], trims: bool, tmp_path: Path
) -> None:
    files = opened(disk_of(tmp_path))
    news: list[SimpleQueue[bool]] = [SimpleQueue(), SimpleQueue(), SimpleQueue()]
    with ThreadPoolExecutor(3) as pool:
        ways = zip((by_runs, by_columns, by_runs), news, strict=True)
        readers = [pool.submit(follow, files, reader, own) for reader, own in ways]
        try:
            for place in range(0, len(RUNS), 2):
                files.append(RUNS[place : place + 2])
                if place % 30 == 0:
                    files.sync()
                    files.offset_at(RUNS[place].time)
                if trims and place % 20 == 0:
                    files.trim(max_bytes=3000, before=None, keep_from=None)
                for own in news:
                    own.put(True)
        finally:
            for own in news:
                own.put(False)
        numbers = [reader.result(60) for reader in readers]
    assert trims or numbers == [len(TRUTH)] * 3
    files.close()
