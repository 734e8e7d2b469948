"""The one hand that changes the disk: in which order, and what it leaves behind when the disk refuses."""

from __future__ import annotations

from errno import EIO, ENOSPC
from itertools import count

import pytest

from leveret.store.batch import Batch
from leveret.store.definitions import Put, VhostRow
from leveret.store.records import SEGMENT_HEAD, read_segment_head
from leveret.store.writer import RESERVE, Writer, segment_path
from tests.support.virtual_disk import VirtualDisk

ONE, TWO = segment_path(1), segment_path(2)


def batch(*writes: tuple[int, bytes], sync: bool = True, removals: tuple[int, ...] = ()) -> Batch:
    made = Batch(0)
    made.sync = sync
    made.removals = list(removals)
    for segment, data in writes:
        made.write(segment, [data])
    return made


def trace(disk: VirtualDisk, since: int = 0) -> list[tuple[str, str]]:
    return [(operation.kind, operation.path) for operation in disk.operations[since:]]


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


@pytest.fixture
def writer(disk: VirtualDisk) -> Writer:
    return Writer(disk, disk, 64)


def body(disk: VirtualDisk, path: str) -> bytes:
    return disk.content(path)[SEGMENT_HEAD.size :]


def test_a_new_segment_is_known_on_disk_before_its_first_record(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"record"))])
    assert trace(disk) == [
        ("create", ONE),
        ("append", ONE),
        ("sync", ONE),
        ("sync_folder", "journal"),
        ("append", ONE),
        ("sync", ONE),
    ]
    assert read_segment_head(disk.content(ONE)) == 1
    assert body(disk, ONE) == b"record"


def test_a_segment_is_synced_whole_before_the_next_one_is_made(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"a"), (2, b"b"))])
    done = trace(disk)
    assert done.index(("create", TWO)) > max(n for n, each in enumerate(done) if each == ("sync", ONE))
    assert [body(disk, path) for path in (ONE, TWO)] == [b"a", b"b"]


@pytest.mark.feature("S4-18")
def test_all_batches_are_one_write_and_one_sync(disk: VirtualDisk, writer: Writer) -> None:
    """In their order, whatever was gathered meanwhile."""
    writer.run([batch((1, b"0"))])
    before = len(disk.operations)
    writer.run([batch((1, b"%d" % n), sync=n == 2) for n in range(1, 5)])
    assert body(disk, ONE) == b"01234"
    assert [kind for kind, _ in trace(disk, before)].count("sync") == 1
    assert trace(disk, before)[-1] == ("sync", ONE)


def test_nobody_asked_for_a_sync(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"0"))])
    before = len(disk.operations)
    writer.run([batch((1, b"1"), sync=False)])
    assert ("sync", ONE) not in trace(disk, before)
    writer.run([batch(sync=True)])
    assert trace(disk, before)[-1] == ("sync", ONE)
    writer.run([batch(sync=True)])  # all is synced already
    assert trace(disk, before).count(("sync", ONE)) == 1


def test_definitions_first_then_records_then_removals(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"old")), batch((2, b"new"))])
    before = len(disk.operations)
    last = batch((2, b"copy"), sync=False, removals=(1,))
    last.changes.append(Put(VhostRow("/", None, None)))
    writer.run([last])
    assert trace(disk, before) == [
        ("apply", "meta.db"),
        ("append", TWO),
        ("sync", TWO),  # or what replaces the file might be lost with it
        ("remove", ONE),
        ("sync_folder", "journal"),
    ]


def test_whoever_waits_behind_a_batch_finds_it_on_disk_and_nothing_later(disk: VirtualDisk, writer: Writer) -> None:
    found: list[tuple[int, bytes]] = []
    first, second = batch((1, b"a")), batch((1, b"b"))
    first.after = lambda segment: found.append((segment, body(disk, ONE)))
    writer.run([first, second])
    assert found == [(1, b"a")]
    assert body(disk, ONE) == b"ab"


def test_closing_syncs_what_is_not(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"a"), sync=False)])
    writer.close()
    assert trace(disk)[-1] == ("sync", ONE)
    before = len(disk.operations)
    writer.close()
    assert trace(disk, before) == []


# ---- failures


def failing(kind: str, error: int, path: str = "") -> object:
    return lambda what, where: OSError(error, "told to fail") if what == kind and where.endswith(path) else None


def test_a_full_disk_is_cut_back_to_the_last_good_record(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"good"))])
    disk.capacity = disk.used + 3
    with pytest.raises(OSError, match="space") as caught:
        writer.run([batch((1, b"too long"))])
    assert caught.value.errno == ENOSPC
    assert body(disk, ONE) == b"goodtoo"
    writer.abandon(cut=True)
    assert body(disk, ONE) == b"good"
    assert disk.operations[-1].kind == "truncate"  # which syncs


def test_what_follows_a_failure_begins_a_new_segment(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"good"))])
    disk.capacity = disk.used
    with pytest.raises(OSError, match="space"):
        writer.run([batch((1, b"x"))])
    writer.abandon(cut=True)
    disk.capacity = None
    before = len(disk.operations)
    writer.run([batch((2, b"y"))])
    assert ("append", ONE) not in trace(disk, before)
    assert [body(disk, path) for path in (ONE, TWO)] == [b"good", b"y"]


def test_a_file_that_failed_is_left_as_it_is(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"good"))])
    disk.fault = failing("sync", EIO)  # type: ignore[assignment]
    with pytest.raises(OSError, match="told"):
        writer.run([batch((1, b"doubtful"))])
    disk.fault = lambda kind, path: None
    before = len(disk.operations)
    writer.abandon(cut=False)
    writer.close()
    assert trace(disk, before) == []
    assert body(disk, ONE) == b"gooddoubtful"


@pytest.mark.parametrize("kind", ["create", "append", "sync", "sync_folder"])
def test_a_segment_that_cannot_be_begun_leaves_no_sound_records(disk: VirtualDisk, writer: Writer, kind: str) -> None:
    writer.run([batch((1, b"good"))])
    disk.fault = failing(kind, ENOSPC, "" if kind == "sync_folder" else TWO)  # type: ignore[assignment]
    with pytest.raises(OSError, match="told"):
        writer.run([batch((2, b"lost"))])
    disk.fault = lambda what, where: None
    writer.abandon(cut=True)
    assert body(disk, ONE) == b"good"
    assert TWO not in disk.files() or body(disk, TWO) == b""
    writer.run([batch((3, b"on"))])
    assert body(disk, segment_path(3)) == b"on"


def test_nothing_is_removed_when_a_write_fails(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([batch((1, b"old"), (2, b"new"))])
    disk.fault = failing("append", ENOSPC, TWO)  # type: ignore[assignment]
    with pytest.raises(OSError, match="told"):
        writer.run([batch((2, b"copy"), removals=(1,))])
    assert ONE in disk.files()


# ---- the reserve


def reserving(*writes: tuple[int, bytes]) -> Batch:
    made = batch(*writes)
    made.reserves = True
    return made


def test_the_reserve_is_put_aside_once(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([reserving((1, b"a"))])
    assert disk.content(RESERVE) == bytes(64)
    before = len(disk.operations)
    writer.run([reserving((1, b"b"))])
    assert RESERVE not in [path for _, path in trace(disk, before)]


def test_a_reserve_of_an_earlier_life_is_replaced(disk: VirtualDisk, writer: Writer) -> None:
    disk.put(RESERVE, b"something else")
    writer.run([reserving((1, b"a"))])
    assert disk.content(RESERVE) == bytes(64)


def test_the_reserve_makes_room_when_the_disk_is_full(disk: VirtualDisk, writer: Writer) -> None:
    writer.run([reserving((1, b"a"))])
    disk.capacity = disk.used
    with pytest.raises(OSError, match="space"):
        writer.run([batch((1, b"publish"))])
    writer.abandon(cut=True)
    assert RESERVE not in disk.files()
    writer.run([batch((2, b"settles"))])
    assert body(disk, TWO) == b"settles"


@pytest.mark.parametrize("is_broken", [False, True])
def test_writes_and_syncs_are_counted_and_timed_also_if_a_sync_fails(disk: VirtualDisk, is_broken: bool) -> None:
    ticks = count()
    writer = Writer(disk, disk, 64, work_time=lambda: next(ticks) / 4)
    writer.run([batch((1, b"first"))])
    if is_broken:
        disk.fault = failing("sync", EIO)  # type: ignore[assignment]
        with pytest.raises(OSError, match="sync failed"):
            writer.run([batch((1, b"second"))])
    else:
        writer.run([batch((1, b"second"))])
    assert (writer.writes, writer.written_bytes, writer.write_seconds) == (2, 11, 0.5)
    assert (writer.syncs, writer.sync_seconds) == (3, 0.75), "the first is that of a new segment"
