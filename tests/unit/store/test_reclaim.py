"""Giving disk space back: what is carried along, what is not, and that it comes to an end.

Length: one journal, many histories."""

from __future__ import annotations

from random import Random

import pytest

from leveret.store import reclaim
from leveret.store.records import PUBLISH, RETURN, SEGMENT_HEAD, SETTLE, Record, read_entries, read_publish
from leveret.store.scan import scan
from tests.support.store_harness import StoreHarness, look, message

FULL = 2048


def begun(queues: int = 2) -> StoreHarness:
    """Reclaims only when it is told to."""
    harness = StoreHarness(full_size=FULL)
    harness.begin()
    harness.reclaims = False
    for _ in range(queues):
        harness.declare()
    harness.rest()
    return harness


def records(harness: StoreHarness, kind: int) -> list[tuple[bytes, Record]]:
    found: list[tuple[bytes, Record]] = []
    for name in harness.segments:
        data = harness.disk.content(f"journal/{name}")
        for item in scan(data, int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            if item.kind == kind:
                found.append((data, item))
    return found


def roll(harness: StoreHarness) -> None:
    """Let what was written so far be in sealed segments."""
    harness.journal.seal()
    harness.rest()


def reclaim_all(harness: StoreHarness) -> int:
    """As long as something is worth it: how often."""
    for times in range(100):
        before = harness.journal.segments.to_reclaim()
        if before is None:
            return times
        harness.reclaim.consider()
        harness.rest()
    raise AssertionError("reclaim goes round in circles")


# ---- what is copied


@pytest.mark.feature("S4-22")
def test_a_mostly_dead_segment_gives_its_space_back() -> None:
    """What lives in it moves, the rest goes with the file."""
    harness = begun()
    harness.publish([1], *(b"%02d" % n + bytes(70) for n in range(20)))
    harness.rest()
    roll(harness)
    harness.settle(1, *range(1, 16))
    harness.rest()
    before = harness.disk.used
    assert reclaim_all(harness) == 1
    assert harness.disk.used < before / 2
    assert [body[:2] for body in look(harness.disk.copy(), FULL).bodies(1)] == [b"%02d" % n for n in range(15, 20)]


def test_a_message_shared_by_queues_is_copied_once_with_the_places_that_hold_it() -> None:
    harness = begun(3)
    harness.publish([1, 2, 3], b"shared" * 20)
    harness.publish([1], bytes(900))
    harness.rest()
    roll(harness)
    harness.settle(1, 1, 2)
    harness.rest()
    assert reclaim_all(harness) == 1
    ((data, record),) = records(harness, PUBLISH)
    assert [place.queue for place in read_publish(data, record).places] == [2, 3]
    found = look(harness.disk.copy(), FULL)
    assert (found.bodies(1), found.bodies(2), found.bodies(3)) == ([], [b"shared" * 20], [b"shared" * 20])


def test_a_run_with_holes_is_copied_in_stretches() -> None:
    harness = begun()
    harness.send([1, 2], [message(b"%02d" % n + bytes(60), priority=n % 2) for n in range(12)], highest=1)
    harness.publish([1], bytes(600))
    harness.rest()
    roll(harness)
    harness.settle(1, 2, 5, lane=0)
    harness.settle(1, 1, 2, 3, lane=1)
    harness.settle(2, *range(1, 7), lane=0)
    harness.settle(2, 4, lane=1)
    harness.settle(1, 7, lane=0)
    harness.rest()
    before = look(harness.disk.copy(), FULL)
    assert reclaim_all(harness) == 1
    after = look(harness.disk.copy(), FULL)
    assert after.messages.keys() == before.messages.keys()
    assert {key: each[0] for key, each in after.messages.items()} == {
        key: each[0] for key, each in before.messages.items()
    }
    assert len(records(harness, PUBLISH)) > 1


def test_priorities_deadlines_and_addresses_move_along() -> None:
    harness = begun()
    kept = message(b"kept", priority=3, deadline=harness.clock.now() + 500)
    harness.send([1], [kept, message(bytes(900))], highest=9)
    harness.rest()
    roll(harness)
    harness.settle(1, 1, lane=0)
    harness.rest()
    assert reclaim_all(harness) == 1
    ((_, address, traits),) = look(harness.disk.copy(), FULL).messages.values()
    assert (address.exchange, address.key, traits.priority, traits.deadline) == ("ex", "key", 3, kept[2].deadline)


def test_a_needed_settle_moves_along_and_one_that_is_not_needed_stays_behind() -> None:
    harness = begun()
    harness.publish([1], *(b"%d" % n + bytes(200) for n in range(8)))  # 1 and 2 in a segment that stays
    harness.rest()
    roll(harness)
    harness.publish([2], bytes(1000))
    harness.settle(1, 2)
    harness.rest()
    harness.settle(2, 1)
    roll(harness)
    assert [len(read_entries(data, record)) for data, record in records(harness, SETTLE)] == [1, 1]
    assert reclaim_all(harness) >= 1
    entries = [entry for data, record in records(harness, SETTLE) for entry in read_entries(data, record)]
    assert [(entry.queue, entry.sequence) for entry in entries] == [(1, 2)]
    assert len(look(harness.disk.copy(), FULL).bodies(1)) == 7


def test_a_settle_stays_until_the_segment_it_is_about_is_gone() -> None:
    harness = begun()
    harness.publish([1], *(b"%d" % n + bytes(200) for n in range(8)))
    harness.rest()
    roll(harness)
    harness.settle(1, 2)
    for _ in range(6):
        roll(harness)
        reclaim_all(harness)
        assert len(look(harness.disk.copy(), FULL).bodies(1)) == 7
    harness.settle(1, 1, *range(3, 9))
    harness.rest()
    roll(harness)
    reclaim_all(harness)
    assert records(harness, SETTLE) == []
    assert records(harness, PUBLISH) == []


def test_returns_of_live_messages_move_along() -> None:
    harness = begun()
    harness.publish([1], b"kept" + bytes(200), bytes(900))
    harness.journal.returned(1, 0, 1, 1, 2)
    harness.rest()
    harness.journal.returned(1, 0, 1, 1, 3)
    harness.journal.returned(1, 0, 2, 1, 5)
    harness.rest()
    roll(harness)
    harness.settle(1, 2)
    harness.rest()
    assert reclaim_all(harness) == 1
    entries = [entry for data, record in records(harness, RETURN) for entry in read_entries(data, record)]
    assert entries == [(1, 0, 1, 1, 3)]
    assert look(harness.disk.copy(), FULL).tries == {(1, 0, 1): 3}


def test_what_is_settled_while_its_copy_is_made_is_gone() -> None:
    harness = begun()
    harness.publish([1], b"a" + bytes(100), b"b" + bytes(100), bytes(800))
    harness.rest()
    roll(harness)
    harness.settle(1, 3)
    harness.rest()
    harness.jobs = []
    harness.reclaim.consider()  # reads
    harness.settle(1, 1)
    harness.turn()
    harness.work()  # and copies
    harness.settle(1, 2)
    harness.rest()
    assert not look(harness.disk.copy(), FULL).messages
    reclaim_all(harness)
    roll(harness)
    assert not look(harness.disk.copy(), FULL).messages


@pytest.mark.parametrize("size", [40, 200, 700])
def test_a_segment_is_read_slice_by_slice(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(reclaim, "SLICE", size)
    harness = begun()
    for n in range(12):
        harness.publish([1 + n % 2], b"%02d" % n + bytes(100))
        harness.rest()
    roll(harness)
    harness.settle(1, *range(1, 7))
    harness.settle(2, 2, 4)
    harness.rest()
    harness.jobs = []
    harness.reclaim.consider()
    slices = 0
    while harness.jobs:
        slices += 1
        harness.work_one()
        harness.publish([1], b"beside it")
        harness.turn()
        harness.write()
    assert slices > 1
    harness.rest()
    assert [body[:2] for body in look(harness.disk.copy(), FULL).bodies(2)] == [b"01", b"05", b"09", b"11"]


# ---- when it ends


def test_a_fully_live_segment_is_left_alone() -> None:
    harness = begun()
    for n in range(40):
        harness.publish([1, 2], b"%d" % n + bytes(200))
        harness.rest()
    assert reclaim_all(harness) == 0


@pytest.mark.feature("S4-25")
def test_small_segments_are_merged_once() -> None:
    """Short lives leave small files; they become one, and then it is over."""
    harness = begun()
    for n in range(12):
        harness.publish([1], b"life %d" % n)
        harness.rest()
        roll(harness)
    before = len(harness.segments)
    assert 0 < reclaim_all(harness) < 20
    assert len(harness.segments) < before / 2
    assert look(harness.disk.copy(), FULL).bodies(1) == [b"life %d" % n for n in range(12)]


@pytest.mark.parametrize("shape", ["in order", "out of order", "fan-out", "returned again and again"])
def test_a_queue_that_fills_and_empties_keeps_the_disk_small(shape: str) -> None:
    harness = begun()
    harness.reclaims = True
    random = Random(7)
    largest = 0
    for n in range(150):
        harness.publish([1, 2] if shape == "fan-out" else [1], *(bytes(150) for _ in range(10)))
        harness.rest()
        sequences = list(range(10 * n + 1, 10 * n + 11))
        if shape == "out of order":
            random.shuffle(sequences)
        if shape == "returned again and again":
            for tries in range(1, 5):
                for sequence in sequences:
                    harness.journal.returned(1, 0, sequence, 1, tries)
                harness.rest()
        harness.settle(1, *sequences[:5])
        harness.rest()
        harness.settle(1, *sequences[5:])
        if shape == "fan-out":
            harness.settle(2, *sequences)
        harness.rest()
        largest = max(largest, harness.disk.used)
    assert largest < 6 * FULL
    assert harness.disk.used < 3 * FULL


def test_messages_that_come_back_all_the_time_keep_the_disk_small() -> None:
    harness = begun()
    harness.reclaims = True
    harness.publish([1], *(b"x" for _ in range(300)))
    harness.rest()
    sizes = []
    for tries in range(1, 40):
        for sequence in range(1, 301):
            harness.journal.returned(1, 0, sequence, 1, tries)
        harness.rest()
        sizes.append(harness.disk.used)
    assert max(sizes[20:]) <= 1.5 * max(sizes[:20])
    assert set(look(harness.disk.copy(), FULL).tries.values()) == {39}


def test_one_old_message_keeps_no_more_than_its_own_record() -> None:
    harness = begun()
    harness.reclaims = True
    harness.publish([1], b"old and unacked")
    harness.rest()
    for n in range(300):
        harness.publish([2], bytes(300))
        harness.rest()
        harness.settle(2, n + 1)
        harness.rest()
    assert harness.disk.used < 3 * FULL
    assert look(harness.disk.copy(), FULL).bodies(1) == [b"old and unacked"]


@pytest.mark.feature("S4-24")
def test_a_deleted_queue_frees_its_space() -> None:
    """Whole files at once, and its part of shared ones in time."""
    harness = begun(3)
    harness.reclaims = True
    for n in range(30):
        harness.publish([1], bytes(300))
        harness.publish([2], b"%02d" % n)
        harness.rest()
    before = harness.disk.used
    harness.delete(1)
    harness.rest()
    harness.publish([3], b"time goes by")
    harness.rest()
    assert harness.disk.used < before / 3
    assert look(harness.disk.copy(), FULL).bodies(2) == [b"%02d" % n for n in range(30)]


@pytest.mark.feature("S4-23")
def test_the_old_file_goes_after_the_copies_are_synced() -> None:
    """A crash at any moment leaves the old records, the copies, or both."""
    harness = begun()
    harness.publish([1], b"kept")
    harness.turn()
    harness.publish([1], bytes(900))
    harness.rest()
    roll(harness)
    harness.settle(1, 2)
    harness.rest()
    before = len(harness.disk.operations)
    assert reclaim_all(harness) == 1
    done = [operation.kind for operation in harness.disk.operations[before:]]
    assert done.index("append") < done.index("sync") < done.index("remove") < done.index("sync_folder")


# ---- what cannot be read


def spoil(harness: StoreHarness, path: str, what: bytes) -> None:
    data = harness.disk.content(path)
    assert what in data
    harness.disk.put(path, data.replace(what, b"?" * len(what)))


def test_a_segment_with_a_record_that_cannot_be_read_stays_and_is_not_tried_again() -> None:
    harness = begun()
    harness.publish([1], b"sound" + bytes(50))
    harness.turn()
    harness.publish([1], b"spoilt" + bytes(50))
    harness.turn()
    harness.publish([1], bytes(900))
    harness.rest()
    roll(harness)
    spoil(harness, "journal/0000000001.seg", b"spoilt")
    harness.settle(1, 3)
    harness.rest()
    assert reclaim_all(harness) == 1
    assert "0000000001.seg" in harness.segments
    assert look(harness.disk.copy(), FULL).bodies(1) == [b"sound" + bytes(50)]


def test_a_segment_found_damaged_at_the_start_is_carried_away() -> None:
    harness = begun()
    for n in range(5):
        harness.publish([1], b"%d" % n + bytes(200))
        harness.rest()
    roll(harness)
    spoil(harness, "journal/0000000001.seg", b"3" + bytes(200))
    again = StoreHarness(harness.disk, full_size=FULL)
    again.begin()
    again.publish([2], b"time goes by")
    again.rest()
    assert "0000000001.seg" not in again.segments
    assert [body[:1] for body in look(again.disk.copy(), FULL).bodies(1)] == [b"0", b"1", b"2", b"4"]


def test_a_reclaim_that_gave_up_half_way_leaves_nothing_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies count, and the settles about them hold as long as the old file is there."""
    monkeypatch.setattr(reclaim, "SLICE", 200)
    harness = begun()
    harness.publish([1], b"moved" + bytes(100))
    harness.publish([2], b"spoilt" + bytes(900))
    harness.publish([1], b"stays" + bytes(300))
    harness.rest()
    roll(harness)
    harness.settle(2, 1)
    harness.rest()
    roll(harness)
    spoil(harness, "journal/0000000001.seg", b"spoilt")
    reclaim_all(harness)
    harness.settle(1, 1)
    promise = harness.journal.promise()
    harness.rest()
    assert harness.journal.granted >= promise
    harness.reclaims = True
    for n in range(40):
        harness.publish([2], bytes(300))
        harness.rest()
        harness.settle(2, n + 2)
        harness.rest()
    assert [body[:5] for body in look(harness.disk.copy(), FULL).bodies(1)] == [b"stays"]
