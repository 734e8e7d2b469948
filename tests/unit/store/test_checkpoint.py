"""The file of a checkpoint: what is written is read again, and anything else is refused."""

from __future__ import annotations

from errno import ENOSPC

import pytest
from xxhash import xxh3_64_intdigest

from leveret.store import checkpoint
from leveret.store.checkpoint import (
    FOOTER,
    CheckpointWriter,
    Snapshot,
    checkpoint_path,
    checkpoints_on,
    load,
    load_newest,
)
from leveret.store.lane_log import LaneLog
from leveret.store.records import Damage
from leveret.store.run_index import BLOCK_RUNS
from leveret.store.segments import Segment
from tests.support.virtual_disk import VirtualDisk

LINEAGE = b"a" * 32


def segment(disk: VirtualDisk, id_: int, data: bytes) -> Segment:
    disk.put(f"journal/{id_:010d}.seg", data)
    made = Segment(id_, len(data))
    made.content, made.live, made.live_content, made.marks = 900, 70, 800, 25
    made.needs, made.after, made.is_damaged = {1: 25, 2: 50}, {2}, id_ == 3
    return made


def lane(number: int) -> LaneLog:
    log = LaneLog()
    for n in range(number):
        log.index.append(1 + 2 * n, 1, 3, 32 + n, 5, 10)
    log.tail = 2 * number + 1
    log.tries = {1: (3 | 1_700_000_000_000 << 16, 3), 3: (2, 1)} if number > 1 else {}
    for sequence, time in ((1, 12.5), (2, 13.0), (3, 9.0)):
        log.deadlines.add(time, sequence)
    log.freeze(1)
    return log


def snapshot(disk: VirtualDisk, *lanes: LaneLog, following: int = 4) -> Snapshot:
    made = Snapshot(following, 77, 12, is_clean=True)
    made.segments = [segment(disk, 1, b"one"), segment(disk, 3, b"three" * 2000)]
    for key, log in enumerate(lanes, 256):
        assert log.frozen is not None
        made.lanes.append((key, log.frozen))
    return made


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


def test_everything_that_is_written_is_read_again(disk: VirtualDisk) -> None:
    logs = [lane(3), lane(0), lane(5 * BLOCK_RUNS + 7)]
    written = CheckpointWriter(disk, LINEAGE).write(snapshot(disk, *logs))
    assert disk.size(checkpoint_path(4)) == written.size
    found = load(disk, 4, LINEAGE)
    assert (found.following, found.next_number, found.highest_queue, found.is_clean) == (4, 77, 12, True)
    assert list(found.segments) == [1, 3]
    three = found.segments[3]
    assert (three.size, three.content, three.live, three.live_content, three.marks) == (10000, 900, 70, 800, 25)
    assert (three.needs, three.after, three.is_damaged, three.is_safe) == ({1: 25, 2: 50}, {2}, True, True)
    assert not found.segments[1].is_damaged
    for log, (key, got) in zip(logs, found.lanes.items(), strict=True):
        assert list(got.live) == list(log.index)
        assert (len(got.live), got.live.bytes, got.tail) == (len(log.index), log.index.bytes, log.tail)
        assert got.tries == log.tries, key
    assert list(found.lanes[256].deadlines) == [(12.5, 1), (9.0, 3)], "those of live messages"
    assert found.lanes[256].redelivered_below == 4
    assert [len(deadlines) for _, deadlines in written.deadlines] == [2, 0, 2]


def test_a_lane_may_change_after_it_was_frozen(disk: VirtualDisk) -> None:
    log = lane(3000)
    before = list(log.index)
    made = snapshot(disk, log)
    log.index.take(1, 2999)
    log.index.append(9000, 5, 3, 99, 0, 50)
    log.tries.clear()
    log.deadlines.add(1.0, 5)
    CheckpointWriter(disk).write(made)
    found = load(disk, 4).lanes[256]
    assert list(found.live) == before
    assert found.tries
    assert 5 not in found.deadlines.sequences


def test_an_older_one_is_removed_after_the_new_one_is_safe(disk: VirtualDisk) -> None:
    writer = CheckpointWriter(disk)
    writer.write(snapshot(disk))
    begun = len(disk.operations)
    writer.write(snapshot(disk, following=6))
    kinds = [(each.kind, each.path) for each in disk.operations[begun:] if each.kind not in ("append", "put")]
    new, old = checkpoint_path(6), checkpoint_path(4)
    folder = ("sync_folder", "journal")
    part = f"{new}.new"
    written = [("remove", part), ("create", part), ("sync", part), ("rename", part), folder]
    assert kinds == [*written, ("remove", old), folder]
    assert checkpoints_on(disk) == [6]


def test_a_process_killed_at_any_moment_leaves_only_complete_files_under_their_names(
    disk: VirtualDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoint, "PIECE", 100)
    writer = CheckpointWriter(disk)
    writer.write(snapshot(disk))
    made = snapshot(disk, lane(100), following=6)
    state, begun = disk.fork(), len(disk.operations)
    writer.write(made)
    used = []
    for operation in disk.operations[begun:]:
        found = load_newest(state, [1, 3])
        assert found is not None
        used.append(found.following)
        state.redo(operation)
    assert set(used) == {4, 6}
    assert used == sorted(used)
    assert not caplog.messages


@pytest.mark.parametrize("following", [5, 6], ids=["older", "of the same segment"])
def test_an_unfinished_one_that_a_killed_process_left_is_removed(disk: VirtualDisk, following: int) -> None:
    disk.put(f"journal/{following:010d}.checkpoint.new", b"begun")
    CheckpointWriter(disk).write(snapshot(disk, following=6))
    assert checkpoints_on(disk) == [6]
    assert [name for name in disk.names("journal") if "checkpoint" in name] == ["0000000006.checkpoint"]


def test_an_unfinished_one_that_another_thread_writes_is_left_alone(disk: VirtualDisk) -> None:
    """A writer that hung may continue while the shutdown writes a newer one."""
    disk.put("journal/0000000007.checkpoint.new", b"begun")
    CheckpointWriter(disk).write(snapshot(disk, following=6))
    assert "0000000007.checkpoint.new" in disk.names("journal")


def test_a_write_that_fails_leaves_the_older_one_alone(disk: VirtualDisk) -> None:
    writer = CheckpointWriter(disk)
    writer.write(snapshot(disk))
    made = snapshot(disk, lane(100), following=6)
    disk.capacity = disk.used + 300
    with pytest.raises(OSError) as problem:
        writer.write(made)
    assert problem.value.errno == ENOSPC
    assert [name for name in disk.names("journal") if "checkpoint" in name] == ["0000000004.checkpoint"]
    assert load(disk, 4).next_number == 77


def test_a_segment_that_goes_while_the_file_is_written_counts_as_gone(disk: VirtualDisk) -> None:
    made = snapshot(disk, lane(2))
    disk.remove("journal/0000000003.seg")
    CheckpointWriter(disk).write(made)
    found = load_newest(disk, [1])
    assert found is not None
    assert found.segments[3].live == 70
    disk.put("journal/0000000003.seg", b"three" * 2000)
    assert load_newest(disk, [1, 3]) is None


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 2], [2]])
def test_an_unknown_segment_makes_it_useless(disk: VirtualDisk, ids: list[int]) -> None:
    CheckpointWriter(disk).write(snapshot(disk))
    assert load_newest(disk, [1, 3, 4, 5]) is not None
    assert load_newest(disk, [3]) is not None, "reclaim removes segments"
    disk.put("journal/0000000002.seg", b"two")
    assert load_newest(disk, ids) is None


def altered(disk: VirtualDisk, at: int, data: bytes) -> None:
    """With a checksum that is right."""
    path = checkpoint_path(4)
    body = bytearray(disk.content(path)[: -FOOTER.size])
    body[at : at + len(data)] = data
    disk.put(path, bytes(body) + FOOTER.pack(len(body), xxh3_64_intdigest(bytes(body), 4)))


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (0, b"LEVERETX", "not the checkpoint"),
        (8, b"\2", "version 2"),
        (12, b"\7", "byte order 7"),
        (16, b"\5", "not the checkpoint"),
        (72, b"\xff\xff", "cannot be read"),
        (76, b"\xff\xff", "cannot be read"),
    ],
    ids=["magic", "version", "byte order", "segment", "segments", "lanes"],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(
    disk: VirtualDisk, at: int, data: bytes, reason: str
) -> None:
    CheckpointWriter(disk).write(snapshot(disk, lane(3)))
    altered(disk, 0, b"L")
    load(disk, 4)
    altered(disk, at, data)
    with pytest.raises(Damage, match=reason):
        load(disk, 4)
    assert load_newest(disk, [1, 3]) is None


def test_a_newer_one_that_cannot_be_used_is_passed_over(disk: VirtualDisk) -> None:
    CheckpointWriter(disk).write(snapshot(disk))
    disk.put(checkpoint_path(9), b"rubbish")
    found = load_newest(disk, [1, 3])
    assert found is not None
    assert found.following == 4


def test_one_of_another_lineage_is_not_used(disk: VirtualDisk) -> None:
    CheckpointWriter(disk, LINEAGE).write(snapshot(disk))
    assert load_newest(disk, [1, 3], LINEAGE) is not None
    assert load_newest(disk, [1, 3], b"b" * 32) is None
