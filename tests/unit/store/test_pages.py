"""Messages that wait on disk only: how they are found, read, checked, and what becomes of those that cannot be."""

from __future__ import annotations

from errno import EIO, ENOENT
from random import Random

import pytest

from leveret.message import TRANSIENT, Message
from leveret.store import pages
from leveret.store.pages import Loaded, fetch
from leveret.store.run_block import Run
from tests.support.store_house import ADDRESS, StoreHouse, look, message

FULL = 2048


@pytest.fixture
def house() -> StoreHouse:
    """With the queues 1 and 2, in small segments; reclaims only when it is told to."""
    made = StoreHouse(full_size=FULL)
    made.begin()
    made.reclaims = False
    for _ in range(2):
        made.declare()
    made.rest()
    return made


def load(house: StoreHouse, first: int, stop: int, most: int = 1 << 20, queue: int = 1, lane: int = 0) -> list[Loaded]:
    loaded: list[list[Loaded]] = []
    house.pages.load(queue, lane, first, stop, most, loaded.append)
    (found,) = loaded
    return found


def bodies(loaded: list[Loaded]) -> list[tuple[int, bytes]]:
    return [(each.sequence, each.message[0].rstrip(b"\0")) for each in loaded]


def publish(house: StoreHouse, number: int, size: int = 300) -> None:
    """Messages 1, 2, ... of queue 1, each in a record of its own."""
    for n in range(1, number + 1):
        house.publish([1], (b"m%d" % n).ljust(size, b"\0"))
        house.rest()


def numbered(*sequences: int) -> list[tuple[int, bytes]]:
    return [(sequence, b"m%d" % sequence) for sequence in sequences]


def spoil(house: StoreHouse, what: bytes) -> None:
    """Where it is on disk, it is something else from now on."""
    for path, data in house.disk.files().items():
        if what in data:
            house.disk.put(path, data.replace(what, b"?" * len(what)))
            return
    raise AssertionError(f"{what!r} is nowhere")


# ---- reading


def test_messages_come_back_in_order_out_of_many_segments(house: StoreHouse) -> None:
    publish(house, 20)
    assert len(house.segments) > 3
    assert bodies(load(house, 1, 21)) == numbered(*range(1, 21))
    assert bodies(load(house, 7, 12)) == numbered(*range(7, 12))
    assert load(house, 21, 40) == []


def test_a_part_of_a_run_is_read_as_such(house: StoreHouse) -> None:
    house.publish([2], b"other", b"queue")
    house.send([1, 2], [message(b"m%d" % n) for n in range(1, 31)])
    house.rest()
    house.settle(1, 1, 2, 10, 11, 30)
    house.rest()
    assert bodies(load(house, 1, 100)) == numbered(*range(3, 10), *range(12, 30))
    assert bodies(load(house, 8, 14)) == numbered(8, 9, 12, 13)
    assert [body for _, body in bodies(load(house, 1, 5, queue=2))] == [b"other", b"queue", b"m1", b"m2"]


def test_lanes_of_one_record_are_told_apart(house: StoreHouse) -> None:
    house.send([1], [message(b"p%d" % (n % 3), priority=n % 3) for n in range(9)], highest=2)
    house.rest()
    for lane in range(3):
        assert bodies(load(house, 1, 9, lane=lane)) == [(n, b"p%d" % lane) for n in (1, 2, 3)]


def test_a_load_is_about_as_large_as_was_asked_for(house: StoreHouse) -> None:
    publish(house, 20)
    assert bodies(load(house, 1, 21, most=1000)) == numbered(1, 2, 3)
    assert bodies(load(house, 5, 21, most=1)) == numbered(5)  # one at least


def test_the_time_of_the_publish_comes_along(house: StoreHouse) -> None:
    house.publish([1], b"now")
    house.rest()
    house.clock.move_to(house.clock.now() + 50)
    house.send([1], [message(b"later", deadline=house.clock.now() + 5)])
    house.rest()
    first, second = load(house, 1, 9)
    assert second.time - first.time == 50
    assert second.message[2].deadline == house.clock.now() + 5


@pytest.mark.parametrize("ahead", [1, 30, 400, 1000])
def test_records_larger_than_what_is_read_ahead(house: StoreHouse, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    monkeypatch.setattr(pages, "READ_AHEAD", max(ahead, 28))
    for n, size in enumerate((10, 5000, 20, 900, 30), 1):
        house.publish([1], (b"m%d" % n).ljust(size, b"\0"))
    house.rest()
    assert bodies(load(house, 1, 9)) == numbered(1, 2, 3, 4, 5)


def test_neighbours_are_read_at_once(house: StoreHouse) -> None:
    publish(house, 5, 100)
    reads: list[str] = []
    house.disk.fault = lambda kind, path: reads.append(path) if kind == "read" else None  # type: ignore[func-returns-value]
    assert len(load(house, 1, 9)) == 5
    assert len(reads) == 1


def test_the_disk_knows_what_is_where(house: StoreHouse) -> None:
    publish(house, 3)
    house.settle(1, 2)
    house.journal.returned(1, 0, 3, 1, 6)
    house.rest()
    assert house.pages.next_sequence(1, 0, 1) == 1
    assert house.pages.next_sequence(1, 0, 2) == 3
    assert house.pages.next_sequence(1, 0, 4) is None
    assert house.pages.size_of(1, 0, 1) == 300
    assert house.pages.size_of(1, 0, 2) is None
    assert (house.pages.tries(1, 0, 1), house.pages.tries(1, 0, 3)) == (0, 6)
    assert house.pages.next_sequence(9, 0, 1) is None
    assert load(house, 1, 9, queue=9) == []


def test_what_is_not_granted_is_not_counted_as_on_disk(house: StoreHouse) -> None:
    publish(house, 2)
    assert house.pages.synced(1, 0) == 3
    house.publish([1], b"on its way")
    house.turn()
    assert house.pages.synced(1, 0) == 3
    house.write()
    assert house.pages.synced(1, 0) == 4
    assert house.pages.synced(9, 0) == 0


def test_what_was_settled_in_this_turn_is_not_loaded(house: StoreHouse) -> None:
    publish(house, 3)
    house.settle(1, 1)
    assert house.pages.next_sequence(1, 0, 1) == 2
    assert bodies(load(house, 1, 9)) == numbered(2, 3)


# ---- damage


def test_a_damaged_record_is_lost_and_nothing_else_is(house: StoreHouse, caplog: pytest.LogCaptureFixture) -> None:
    publish(house, 6)
    spoil(house, b"m3")
    assert bodies(load(house, 1, 9)) == numbered(1, 2, 4, 5, 6)
    assert "damaged and lost" in caplog.text
    house.rest()
    assert house.live(1) == 5  # it is settled, and not tried again
    assert house.pages.next_sequence(1, 0, 3) == 4
    assert len(look(house.disk.copy(), FULL).messages) == 5


def test_a_load_of_which_all_is_damaged_says_so(house: StoreHouse) -> None:
    publish(house, 1)
    spoil(house, b"m1")
    assert load(house, 1, 9) == []
    house.rest()
    assert house.pages.next_sequence(1, 0, 1) is None


def test_damage_between_two_parts_of_a_record_alters_neither(house: StoreHouse) -> None:
    house.send([1], [message(b"m%d" % n) for n in range(1, 4)])
    house.rest()
    house.publish([2], b"spoilt".ljust(1990, b"\0"))
    house.rest()
    spoil(house, b"spoilt")
    whole = next(iter(house.journal.lanes[1 << 8].index))
    other = next(iter(house.journal.lanes[2 << 8].index))
    runs = [
        Run(1, 1, whole.segment, whole.offset, 0, 2),
        Run(2, 1, other.segment, other.offset, 0, 2),
        Run(3, 1, whole.segment, whole.offset, 2, 2),
    ]
    found = fetch(house.disk, 1, 0, [(False, run) for run in runs], 0.0)
    assert bodies(found.loaded) == numbered(1, 3)
    assert found.lost == [runs[1]]


def test_a_disk_that_cannot_be_read_is_tried_again_and_costs_nothing(house: StoreHouse) -> None:
    publish(house, 4)
    house.disk.fault = lambda kind, path: OSError(EIO, "told to fail") if kind == "read" else None
    loaded: list[list[Loaded]] = []
    house.pages.load(1, 0, 1, 9, 1 << 20, loaded.append)
    house.pages.try_again()
    assert loaded == []
    assert house.live(1) == 4
    house.disk.fault = lambda kind, path: None
    house.pages.try_again()
    assert [bodies(each) for each in loaded] == [numbered(1, 2, 3, 4)]


# ---- beside reclaim


def mostly_dead(house: StoreHouse) -> None:
    """Segment 1 has the messages 1..6, of which 5 and 6 are live."""
    publish(house, 12)
    house.settle(1, 1, 2, 3, 4)
    house.rest()


def test_a_load_waits_for_copies_that_have_a_place_and_are_not_written(house: StoreHouse) -> None:
    mostly_dead(house)
    house.reclaim.consider()
    assert house.waiting  # the copies
    loaded: list[list[Loaded]] = []
    house.pages.load(1, 0, 1, 13, 1 << 20, loaded.append)
    house.rest()
    assert [bodies(each) for each in loaded] == [numbered(*range(5, 13))]
    assert house.live(1) == 8


def test_a_load_whose_file_was_reclaimed_meanwhile_finds_the_copies(house: StoreHouse) -> None:
    mostly_dead(house)
    house.jobs = []
    loaded: list[list[Loaded]] = []
    house.pages.load(1, 0, 1, 13, 1 << 20, loaded.append)
    read = house.jobs.pop()
    house.reclaim.consider()
    house.work()
    house.rest()
    house.work()
    assert "0000000001.seg" not in house.segments
    house.jobs.append(read)
    house.work()
    assert [bodies(each) for each in loaded] == [numbered(*range(5, 13))]


def test_a_load_that_is_overtaken_by_reclaim_time_and_again_is_no_failure(
    house: StoreHouse, caplog: pytest.LogCaptureFixture
) -> None:
    publish(house, 1)
    index = house.journal.lanes[1 << 8].index
    (home,) = index.live(1, 1)
    moves = 0

    def overtaken(kind: str, path: str) -> OSError | None:
        nonlocal moves
        if kind != "read" or moves > 5:
            return None
        moves += 1
        place = (home.segment, home.offset) if moves > 5 else (home.segment + moves, 0)
        index.move(1, 1, *place, 0)
        return FileNotFoundError(ENOENT, "moved")

    house.disk.fault = overtaken
    loaded: list[list[Loaded]] = []
    house.journal.batches._written = (1 << 40, 0)
    house.pages.load(1, 0, 1, 2, 1 << 20, loaded.append)
    assert [bodies(each) for each in loaded] == [numbered(1)]
    assert "cannot be read" not in caplog.text


def test_a_load_while_copies_find_no_room_reads_the_originals(house: StoreHouse) -> None:
    mostly_dead(house)
    house.disk.capacity = house.disk.used
    house.reclaim.consider()
    loaded: list[list[Loaded]] = []
    house.pages.load(1, 0, 1, 13, 1 << 20, loaded.append)
    house.rest()
    assert house.journal.batches.held is not None
    assert [bodies(each) for each in loaded] == [numbered(*range(5, 13))]
    house.disk.capacity = None
    house.journal.space_returned()
    house.rest()
    assert bodies(load(house, 1, 13)) == numbered(*range(5, 13))


# ---- with the spill


def transient(sequence: int, size: int) -> tuple[int, Message]:
    return sequence, ((b"m%d" % sequence).ljust(size, b"\0"), ADDRESS, TRANSIENT)


@pytest.mark.parametrize("large", ["kept", "spilled"])
@pytest.mark.parametrize("most", [1, 700, 2100, 1 << 20])
def test_no_load_leaves_one_out_where_kept_and_spilled_messages_mix(house: StoreHouse, large: str, most: int) -> None:
    kept, spilled = (1000, 10) if large == "kept" else (10, 1000)
    for n in range(1, 12, 2):
        house.tails[1, 0] = n
        house.publish([1], (b"m%d" % n).ljust(kept, b"\0"))
        house.rest()
    house.pages.spill(1, 0, [transient(n, spilled) for n in range(2, 13, 2)])
    found = bodies(load(house, 1, 13, most))
    assert found == numbered(*range(1, 1 + len(found)))
    assert found
    reached = 1
    for _ in range(20):
        reached += len(load(house, reached, 13, most))
    assert reached == 13


@pytest.mark.parametrize("seed", range(8))
def test_loads_of_any_mix_go_through_all_of_it_in_order(house: StoreHouse, seed: int) -> None:
    random = Random(seed)
    there: list[int] = []
    for n in range(1, 60):
        size = random.choice((5, 60, 700))
        if random.random() < 0.5:
            house.tails[1, 0] = n
            house.publish([1], (b"m%d" % n).ljust(size, b"\0"))
            house.rest()
        else:
            house.pages.spill(1, 0, [transient(n, size)])
        there.append(n)
    for n in random.sample(there, 15):
        house.settle(1, n)
        house.pages.drop(1, 0, n, 1)
        there.remove(n)
    house.rest()
    found: list[tuple[int, bytes]] = []
    while (first := house.pages.next_sequence(1, 0, found[-1][0] + 1 if found else 1)) is not None:
        found += bodies(load(house, first, 60, random.choice((1, 500, 3000))))
    assert found == numbered(*there)
