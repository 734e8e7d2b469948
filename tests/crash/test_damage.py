"""Bytes of the journal that are not what they were: the broker starts, and misses nothing but what was in them.

Each test alters the files of a journal of which every record is known (tests/support/recorded_journal.py). By default a
thousand images, chosen by a fixed seed; LEVERET_CRASH_MORE=1 takes more, as ``make crash`` does, LEVERET_CRASH_ALL=1
many more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from leveret.store.records import HEAD_SIZE, SEGMENT_HEAD
from leveret.store.recovery import Recovered, recover
from tests.support.ledger import Key, is_same
from tests.support.recorded_journal import Known, RecordedJournal, made
from tests.support.store_harness import StoreHarness, look
from tests.support.virtual_disk import VirtualDisk

ALL = bool(os.environ.get("LEVERET_CRASH_ALL"))
MORE = ALL or bool(os.environ.get("LEVERET_CRASH_MORE"))
TIMES = 20 if ALL else 1
SEED = int(os.environ.get("LEVERET_CRASH_SEED", "0"))
IMAGES = 250 * TIMES if MORE else 100  # of each kind of damage and seed
CUTS = 1 if ALL else 16 if MORE else 128  # every so many bytes; near the edges of records every byte anyway

pytestmark = [pytest.mark.timeout(3600)] if ALL else []


@cache
def journal() -> RecordedJournal:
    """Some hundred messages in eight segments."""
    known = made(full_size=8 << 10, turns=60, body=300)
    assert len(known.paths) > 5
    assert len(known.left(known.disk)) > 200
    return known


@cache
def long_journal() -> RecordedJournal:
    """One segment of more than 64 KiB, and nothing else."""
    known = made(full_size=1 << 20, turns=18, body=5000)
    assert len(known.paths) == 1
    assert known.disk.size(known.last) > 70_000
    return known


def judge(known: RecordedJournal, image: VirtualDisk, *, closely: bool = False) -> Recovered:
    """Recover twice: the same records remain both times. Closely: by delivering all of them, and in another run."""
    damaged = image.copy()
    first = recover(image, image.queues(), known.full_size)
    known.assert_left(first, damaged)
    second = recover(image, image.queues(), known.full_size)
    assert state(second) == state(first), "recovering twice gives something else"
    if closely:
        wanted = known.left(damaged)
        assert_delivered(image, known, wanted)
        harness = StoreHarness(image, full_size=known.full_size)
        harness.begin()
        harness.publish([harness.declare()], b"goes on")
        harness.rest()
        assert_delivered(image, known, wanted)
    return first


def state(recovered: Recovered) -> dict[int, tuple[list[int], dict[int, int], int]]:
    return {
        key: (
            [n for run in lane.index for n in range(run.sequence, run.sequence + run.number)],
            {sequence: tries for sequence, (tries, _) in lane.tries.items()},
            lane.tail,
        )
        for key, lane in recovered.lanes.items()
    }


def assert_delivered(image: VirtualDisk, known: RecordedJournal, wanted: dict[Key, object]) -> None:
    queues = known.disk.queues()
    found = {key: each for key, each in look(image, known.full_size).messages.items() if key[0] in queues}
    assert found.keys() == wanted.keys()
    assert all(is_same(each, wanted[key]) for key, each in found.items())


def altered(known: RecordedJournal, path: str, data: bytes) -> VirtualDisk:
    image = known.copy()
    image.put(path, data)
    return image


# ---- torn ends


@pytest.mark.feature("S4-17")
def test_the_last_segment_may_end_at_any_byte() -> None:
    """Records carry their length and their checksum: of a torn one nothing is believed."""
    known = long_journal()
    data = known.disk.content(known.last)
    edges = {record.end for record in known.records} | {record.at + HEAD_SIZE for record in known.records}
    near = {edge + n for edge in edges for n in (-HEAD_SIZE, -9, -2, -1, 0, 1, 2, 19, 20, 21, HEAD_SIZE)}
    for cut in range(len(data) - (64 << 10), len(data)):
        if cut % CUTS == 0 or cut in near:
            image = altered(known, known.last, data[:cut])
            found = recover(image, image.queues(), known.full_size, repair=False)
            known.assert_left(found, image)


def test_a_torn_end_is_cut_off_and_stays_cut_off() -> None:
    known = long_journal()
    data, random = known.disk.content(known.last), Random(1)
    for cut in random.sample(range(SEGMENT_HEAD.size, len(data)), 40 * TIMES):
        image = altered(known, known.last, data[:cut])
        judge(known, image)
        assert image.size(known.last) <= cut
        judge(known, image, closely=True)


@pytest.mark.parametrize("cut", [0, 1, 8, 31, 32, 33, 45, 60])
def test_a_last_segment_of_next_to_nothing_is_no_obstacle(cut: int) -> None:
    known = journal()
    image = altered(known, known.last, known.disk.content(known.last)[:cut])
    judge(known, image, closely=True)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_an_older_segment_may_be_cut_anywhere(place: int) -> None:
    known = journal()
    path = known.paths[place]
    data, random = known.disk.content(path), Random(place)
    for cut in [0, 1, 31, 32, *random.sample(range(len(data)), 60 * TIMES)]:
        judge(known, altered(known, path, data[:cut]), closely=cut % 8 == 0)


# ---- altered bytes


def flips(known: RecordedJournal, random: Random, number: int) -> Iterator[tuple[str, bytes]]:
    for _ in range(number):
        path = random.choice(known.paths)
        data = bytearray(known.disk.content(path))
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        yield path, bytes(data)


def lost_pages(known: RecordedJournal, random: Random, number: int) -> Iterator[tuple[str, bytes]]:
    for _ in range(number):
        path, page = random.choice(known.paths), random.choice((512, 4096))
        data = known.disk.content(path)
        start = random.randrange(0, len(data), page)
        other = random.choice((bytes(page), bytes(page), b"\xff" * page, random.randbytes(page)))
        yield path, (data[:start] + other + data[start + page :])[: len(data)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.feature("S4-21")
def test_a_flipped_bit_costs_its_record_only(seed: int) -> None:
    """In heads, bodies, marks and lengths, in the last segment and in older ones."""
    known, random = journal(), Random(SEED + seed)
    for n, (path, data) in enumerate(flips(known, random, IMAGES)):
        judge(known, altered(known, path, data), closely=n % 20 == 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.feature("S4-21")
def test_a_lost_page_costs_the_records_in_it_only(seed: int) -> None:
    """Zeros, ones and rubbish where a page was."""
    known, random = journal(), Random(SEED + seed)
    for n, (path, data) in enumerate(lost_pages(known, random, IMAGES)):
        judge(known, altered(known, path, data), closely=n % 20 == 0)


def test_damage_in_many_places_at_once_costs_no_more_than_these() -> None:
    known, random = journal(), Random(5)
    for n in range(100 * TIMES):
        image = known.copy()
        for path, data in [*flips(known, random, 3), *lost_pages(known, random, 3)]:
            image.put(path, data)
        judge(known, image, closely=n % 10 == 0)


def test_every_single_byte_of_a_record_matters() -> None:
    known = journal()
    several = [each for each in known.records if each.path == known.paths[2] and each.published]
    record = min(several, key=lambda each: each.end - each.at)
    data = known.disk.content(record.path)
    for at in range(record.at, record.end):
        other = bytes((data[at] ^ 0x20,))
        found = judge(known, altered(known, record.path, data[:at] + other + data[at + 1 :]))
        assert found.damages


def test_every_byte_of_a_segment_head_may_be_wrong() -> None:
    """The records behind it say themselves where they belong."""
    known = journal()
    for path in (known.paths[1], known.last):
        data = known.disk.content(path)
        for at in range(SEGMENT_HEAD.size):
            found = judge(known, altered(known, path, data[:at] + b"\x55" + data[at + 1 :]), closely=at % 8 == 0)
            assert found.damages or data[at] == 0x55


# ---- records that are right, elsewhere


def test_a_sound_record_in_another_place_is_not_believed() -> None:
    """The checksum knows the segment and the offset: what was left over or copied is damage, not a message."""
    known, random = journal(), Random(6)
    for _ in range(150 * TIMES):
        source, target = random.choice(known.records), random.choice(known.records)
        if source is target:
            continue
        piece = known.disk.content(source.path)[source.at : source.end]
        data = known.disk.content(target.path)
        image = altered(known, target.path, data[: target.at] + piece + data[target.at + len(piece) :])
        judge(known, image)


def test_a_segment_under_another_name_is_all_damage() -> None:
    known = journal()
    image = known.copy()
    image.put(known.paths[4], known.disk.content(known.paths[1]))
    judge(known, image, closely=True)


# ---- what is put aside


def spoiled(known: RecordedJournal, record: Known) -> tuple[VirtualDisk, bytes]:
    """An image with a bit of the record flipped, and the bytes of the record as they are there."""
    data = bytearray(known.disk.content(record.path))
    data[(record.at + record.end) // 2] ^= 4
    return altered(known, record.path, bytes(data)), bytes(data[record.at : record.end])


def test_damaged_bytes_are_kept_in_quarantine() -> None:
    known = journal()
    for record in known.records[:-10:5]:
        image, bytes_there = spoiled(known, record)
        found = judge(known, image)
        assert found.damages
        kept = [image.content(f"quarantine/{name}") for name in image.names("quarantine")]
        assert any(bytes_there in each for each in kept)


def test_quarantine_does_not_grow_with_every_start() -> None:
    known = journal()
    image, _ = spoiled(known, known.records[20])
    judge(known, image)
    before = {path: data for path, data in image.files().items() if path.startswith("quarantine")}
    for _ in range(5):
        recover(image, image.queues(), known.full_size)
    assert {path: data for path, data in image.files().items() if path.startswith("quarantine")} == before


def test_inspection_changes_nothing() -> None:
    known, random = journal(), Random(7)
    for path, data in [*flips(known, random, 20), (known.last, known.disk.content(known.last)[:-5])]:
        image = altered(known, path, data)
        before = image.files()
        recover(image, image.queues(), known.full_size, repair=False)
        assert image.files() == before


# ---- files that are missing, empty, or from another program


@pytest.mark.parametrize("place", range(8))
def test_a_missing_segment_costs_its_messages_only(place: int) -> None:
    known = journal()
    image = known.copy()
    image.remove(known.paths[place])
    before = VirtualDisk.copy(image)
    first = recover(image, image.queues(), known.full_size)
    if place < 7:  # without the last one the one before is the last, and its groups are whole anyway
        known.assert_left(first, before)
    judge(known, image, closely=True)


@pytest.mark.parametrize("place", range(8))
def test_an_empty_segment_costs_its_messages_only(place: int) -> None:
    known = journal()
    judge(known, altered(known, known.paths[place], b""), closely=True)


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "x.seg",
        "7.seg",
        "77.seg",
        "00000000077.seg",
        "0000000003 (copy).seg",
        "-000000003.seg",
        "²³.seg",
        "٠٠٠٠٠٠٠٠٠٣.seg",
        ".seg",
        "9999999999.seg",
        "0000000003.seg.bak",
    ],
)
@pytest.mark.parametrize("content", [b"", b"hello", bytes(5000)], ids=["empty", "short", "zeros"])
def test_a_foreign_file_among_the_segments_is_left_alone(name: str, content: bytes) -> None:
    known = journal()
    image = altered(known, f"journal/{name}", content)
    judge(known, image, closely=True)
    assert image.content(f"journal/{name}") == content


def test_nothing_at_all_is_an_empty_journal() -> None:
    found = recover(VirtualDisk(), set(), 4096)
    assert not found.lanes
    assert not found.damages
    assert found.clean
