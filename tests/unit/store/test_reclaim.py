"""Giving disk space back: what is carried along, what is not, and that it comes to an end.

Length: one journal, many histories."""

from __future__ import annotations

from random import Random

import pytest

from leveret.store import reclaim
from leveret.store.records import PUBLISH, RETURN, SEGMENT_HEAD, SETTLE, Record, read_entries, read_publish
from leveret.store.scan import scan
from tests.support.store_house import StoreHouse, look, message

FULL = 2048


def begun(queues: int = 2) -> StoreHouse:
    """Reclaims only when it is told to."""
    house = StoreHouse(full_size=FULL)
    house.begin()
    house.reclaims = False
    for _ in range(queues):
        house.declare()
    house.rest()
    return house


def records(house: StoreHouse, kind: int) -> list[tuple[bytes, Record]]:
    found: list[tuple[bytes, Record]] = []
    for name in house.segments:
        data = house.disk.content(f"journal/{name}")
        for item in scan(data, int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            if item.kind == kind:
                found.append((data, item))
    return found


def roll(house: StoreHouse) -> None:
    """Let what was written so far be in sealed segments."""
    house.journal.seal()
    house.rest()


def reclaim_all(house: StoreHouse) -> int:
    """As long as something is worth it: how often."""
    for times in range(100):
        before = house.journal.segments.to_reclaim()
        if before is None:
            return times
        house.reclaim.consider()
        house.rest()
    raise AssertionError("reclaim goes round in circles")


# ---- what is copied


@pytest.mark.feature("S4-22")
def test_a_mostly_dead_segment_gives_its_space_back() -> None:
    """What lives in it moves, the rest goes with the file."""
    house = begun()
    house.publish([1], *(b"%02d" % n + bytes(70) for n in range(20)))
    house.rest()
    roll(house)
    house.settle(1, *range(1, 16))
    house.rest()
    before = house.disk.used
    assert reclaim_all(house) == 1
    assert house.disk.used < before / 2
    assert [body[:2] for body in look(house.disk.copy(), FULL).bodies(1)] == [b"%02d" % n for n in range(15, 20)]


def test_a_message_shared_by_queues_is_copied_once_with_the_places_that_hold_it() -> None:
    house = begun(3)
    house.publish([1, 2, 3], b"shared" * 20)
    house.publish([1], bytes(900))
    house.rest()
    roll(house)
    house.settle(1, 1, 2)
    house.rest()
    assert reclaim_all(house) == 1
    ((data, record),) = records(house, PUBLISH)
    assert [place.queue for place in read_publish(data, record).places] == [2, 3]
    found = look(house.disk.copy(), FULL)
    assert (found.bodies(1), found.bodies(2), found.bodies(3)) == ([], [b"shared" * 20], [b"shared" * 20])


def test_a_run_with_holes_is_copied_in_stretches() -> None:
    house = begun()
    house.send([1, 2], [message(b"%02d" % n + bytes(60), priority=n % 2) for n in range(12)], highest=1)
    house.publish([1], bytes(600))
    house.rest()
    roll(house)
    house.settle(1, 2, 5, lane=0)
    house.settle(1, 1, 2, 3, lane=1)
    house.settle(2, *range(1, 7), lane=0)
    house.settle(2, 4, lane=1)
    house.settle(1, 7, lane=0)
    house.rest()
    before = look(house.disk.copy(), FULL)
    assert reclaim_all(house) == 1
    after = look(house.disk.copy(), FULL)
    assert after.messages.keys() == before.messages.keys()
    assert {key: each[0] for key, each in after.messages.items()} == {
        key: each[0] for key, each in before.messages.items()
    }
    assert len(records(house, PUBLISH)) > 1


def test_priorities_deadlines_and_addresses_move_along() -> None:
    house = begun()
    kept = message(b"kept", priority=3, deadline=house.clock.now() + 500)
    house.send([1], [kept, message(bytes(900))], highest=9)
    house.rest()
    roll(house)
    house.settle(1, 1, lane=0)
    house.rest()
    assert reclaim_all(house) == 1
    ((_, address, traits),) = look(house.disk.copy(), FULL).messages.values()
    assert (address.exchange, address.key, traits.priority, traits.deadline) == ("ex", "key", 3, kept[2].deadline)


def test_a_needed_settle_moves_along_and_one_that_is_not_needed_stays_behind() -> None:
    house = begun()
    house.publish([1], *(b"%d" % n + bytes(200) for n in range(8)))  # 1 and 2 in a segment that stays
    house.rest()
    roll(house)
    house.publish([2], bytes(1000))
    house.settle(1, 2)
    house.rest()
    house.settle(2, 1)
    roll(house)
    assert [len(read_entries(data, record)) for data, record in records(house, SETTLE)] == [1, 1]
    assert reclaim_all(house) >= 1
    entries = [entry for data, record in records(house, SETTLE) for entry in read_entries(data, record)]
    assert [(entry.queue, entry.sequence) for entry in entries] == [(1, 2)]
    assert len(look(house.disk.copy(), FULL).bodies(1)) == 7


def test_a_settle_stays_until_the_segment_it_is_about_is_gone() -> None:
    house = begun()
    house.publish([1], *(b"%d" % n + bytes(200) for n in range(8)))
    house.rest()
    roll(house)
    house.settle(1, 2)
    for _ in range(6):
        roll(house)
        reclaim_all(house)
        assert len(look(house.disk.copy(), FULL).bodies(1)) == 7
    house.settle(1, 1, *range(3, 9))
    house.rest()
    roll(house)
    reclaim_all(house)
    assert records(house, SETTLE) == []
    assert records(house, PUBLISH) == []


def test_returns_of_live_messages_move_along() -> None:
    house = begun()
    house.publish([1], b"kept" + bytes(200), bytes(900))
    house.journal.returned(1, 0, 1, 1, 2)
    house.rest()
    house.journal.returned(1, 0, 1, 1, 3)
    house.journal.returned(1, 0, 2, 1, 5)
    house.rest()
    roll(house)
    house.settle(1, 2)
    house.rest()
    assert reclaim_all(house) == 1
    entries = [entry for data, record in records(house, RETURN) for entry in read_entries(data, record)]
    assert entries == [(1, 0, 1, 1, 3)]
    assert look(house.disk.copy(), FULL).tries == {(1, 0, 1): 3}


def test_what_is_settled_while_its_copy_is_made_is_gone() -> None:
    house = begun()
    house.publish([1], b"a" + bytes(100), b"b" + bytes(100), bytes(800))
    house.rest()
    roll(house)
    house.settle(1, 3)
    house.rest()
    house.jobs = []
    house.reclaim.consider()  # reads
    house.settle(1, 1)
    house.turn()
    house.work()  # and copies
    house.settle(1, 2)
    house.rest()
    assert not look(house.disk.copy(), FULL).messages
    reclaim_all(house)
    roll(house)
    assert not look(house.disk.copy(), FULL).messages


@pytest.mark.parametrize("size", [40, 200, 700])
def test_a_segment_is_read_slice_by_slice(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(reclaim, "SLICE", size)
    house = begun()
    for n in range(12):
        house.publish([1 + n % 2], b"%02d" % n + bytes(100))
        house.rest()
    roll(house)
    house.settle(1, *range(1, 7))
    house.settle(2, 2, 4)
    house.rest()
    house.jobs = []
    house.reclaim.consider()
    slices = 0
    while house.jobs:
        slices += 1
        house.work_one()
        house.publish([1], b"beside it")
        house.turn()
        house.write()
    assert slices > 1
    house.rest()
    assert [body[:2] for body in look(house.disk.copy(), FULL).bodies(2)] == [b"01", b"05", b"09", b"11"]


# ---- when it ends


def test_a_fully_live_segment_is_left_alone() -> None:
    house = begun()
    for n in range(40):
        house.publish([1, 2], b"%d" % n + bytes(200))
        house.rest()
    assert reclaim_all(house) == 0


@pytest.mark.feature("S4-25")
def test_small_segments_are_merged_once() -> None:
    """Short lives leave small files; they become one, and then it is over."""
    house = begun()
    for n in range(12):
        house.publish([1], b"life %d" % n)
        house.rest()
        roll(house)
    before = len(house.segments)
    assert 0 < reclaim_all(house) < 20
    assert len(house.segments) < before / 2
    assert look(house.disk.copy(), FULL).bodies(1) == [b"life %d" % n for n in range(12)]


@pytest.mark.parametrize("shape", ["in order", "out of order", "fan-out", "returned again and again"])
def test_a_queue_that_fills_and_empties_keeps_the_disk_small(shape: str) -> None:
    house = begun()
    house.reclaims = True
    random = Random(7)
    largest = 0
    for n in range(150):
        house.publish([1, 2] if shape == "fan-out" else [1], *(bytes(150) for _ in range(10)))
        house.rest()
        sequences = list(range(10 * n + 1, 10 * n + 11))
        if shape == "out of order":
            random.shuffle(sequences)
        if shape == "returned again and again":
            for tries in range(1, 5):
                for sequence in sequences:
                    house.journal.returned(1, 0, sequence, 1, tries)
                house.rest()
        house.settle(1, *sequences[:5])
        house.rest()
        house.settle(1, *sequences[5:])
        if shape == "fan-out":
            house.settle(2, *sequences)
        house.rest()
        largest = max(largest, house.disk.used)
    assert largest < 6 * FULL
    assert house.disk.used < 3 * FULL


def test_messages_that_come_back_all_the_time_keep_the_disk_small() -> None:
    house = begun()
    house.reclaims = True
    house.publish([1], *(b"x" for _ in range(300)))
    house.rest()
    sizes = []
    for tries in range(1, 40):
        for sequence in range(1, 301):
            house.journal.returned(1, 0, sequence, 1, tries)
        house.rest()
        sizes.append(house.disk.used)
    assert max(sizes[20:]) <= 1.5 * max(sizes[:20])
    assert set(look(house.disk.copy(), FULL).tries.values()) == {39}


def test_one_old_message_keeps_no_more_than_its_own_record() -> None:
    house = begun()
    house.reclaims = True
    house.publish([1], b"old and unacked")
    house.rest()
    for n in range(300):
        house.publish([2], bytes(300))
        house.rest()
        house.settle(2, n + 1)
        house.rest()
    assert house.disk.used < 3 * FULL
    assert look(house.disk.copy(), FULL).bodies(1) == [b"old and unacked"]


@pytest.mark.feature("S4-24")
def test_a_deleted_queue_frees_its_space() -> None:
    """Whole files at once, and its part of shared ones in time."""
    house = begun(3)
    house.reclaims = True
    for n in range(30):
        house.publish([1], bytes(300))
        house.publish([2], b"%02d" % n)
        house.rest()
    before = house.disk.used
    house.delete(1)
    house.rest()
    house.publish([3], b"time goes by")
    house.rest()
    assert house.disk.used < before / 3
    assert look(house.disk.copy(), FULL).bodies(2) == [b"%02d" % n for n in range(30)]


@pytest.mark.feature("S4-23")
def test_the_old_file_goes_after_the_copies_are_synced() -> None:
    """A crash at any moment leaves the old records, the copies, or both."""
    house = begun()
    house.publish([1], b"kept")
    house.turn()
    house.publish([1], bytes(900))
    house.rest()
    roll(house)
    house.settle(1, 2)
    house.rest()
    before = len(house.disk.operations)
    assert reclaim_all(house) == 1
    done = [operation.kind for operation in house.disk.operations[before:]]
    assert done.index("append") < done.index("sync") < done.index("remove") < done.index("sync_folder")


# ---- what cannot be read


def spoil(house: StoreHouse, path: str, what: bytes) -> None:
    data = house.disk.content(path)
    assert what in data
    house.disk.put(path, data.replace(what, b"?" * len(what)))


def test_a_segment_with_a_record_that_cannot_be_read_stays_and_is_not_tried_again() -> None:
    house = begun()
    house.publish([1], b"sound" + bytes(50))
    house.turn()
    house.publish([1], b"spoilt" + bytes(50))
    house.turn()
    house.publish([1], bytes(900))
    house.rest()
    roll(house)
    spoil(house, "journal/0000000001.seg", b"spoilt")
    house.settle(1, 3)
    house.rest()
    assert reclaim_all(house) == 1
    assert "0000000001.seg" in house.segments
    assert look(house.disk.copy(), FULL).bodies(1) == [b"sound" + bytes(50)]


def test_a_segment_found_damaged_at_the_start_is_carried_away() -> None:
    house = begun()
    for n in range(5):
        house.publish([1], b"%d" % n + bytes(200))
        house.rest()
    roll(house)
    spoil(house, "journal/0000000001.seg", b"3" + bytes(200))
    again = StoreHouse(house.disk, full_size=FULL)
    again.begin()
    again.publish([2], b"time goes by")
    again.rest()
    assert "0000000001.seg" not in again.segments
    assert [body[:1] for body in look(again.disk.copy(), FULL).bodies(1)] == [b"0", b"1", b"2", b"4"]


def test_a_reclaim_that_gave_up_half_way_leaves_nothing_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies count, and the settles about them hold as long as the old file is there."""
    monkeypatch.setattr(reclaim, "SLICE", 200)
    house = begun()
    house.publish([1], b"moved" + bytes(100))
    house.publish([2], b"spoilt" + bytes(900))
    house.publish([1], b"stays" + bytes(300))
    house.rest()
    roll(house)
    house.settle(2, 1)
    house.rest()
    roll(house)
    spoil(house, "journal/0000000001.seg", b"spoilt")
    reclaim_all(house)
    house.settle(1, 1)
    promise = house.journal.promise()
    house.rest()
    assert house.journal.granted >= promise
    house.reclaims = True
    for n in range(40):
        house.publish([2], bytes(300))
        house.rest()
        house.settle(2, n + 2)
        house.rest()
    assert [body[:5] for body in look(house.disk.copy(), FULL).bodies(1)] == [b"stays"]
