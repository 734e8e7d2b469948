"""Messages that wait on disk only: how they are found, read, checked, and what becomes of those that cannot be."""

from __future__ import annotations

from errno import EIO, ENOENT

import pytest

from leveret.store import pages
from leveret.store.pages import Loaded, fetch
from leveret.store.run_block import Run
from tests.support.loaded_pages import SMALL, bodies, load, numbered, small_segments
from tests.support.store_harness import StoreHarness, look, message


@pytest.fixture
def harness() -> StoreHarness:
    return small_segments()


def publish(harness: StoreHarness, number: int, size: int = 300) -> None:
    """Messages 1, 2, ... of queue 1, each in a record of its own."""
    for n in range(1, number + 1):
        harness.publish([1], (b"m%d" % n).ljust(size, b"\0"))
        harness.rest()


def sizes_read(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each read from now on."""
    sizes: list[int] = []
    read = harness.disk.read

    def counted(path: str, offset: int, size: int) -> bytes:
        sizes.append(size)
        return read(path, offset, size)

    monkeypatch.setattr(harness.disk, "read", counted)
    return sizes


def test_runs_that_lie_close_are_read_at_once(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(harness, 4)
    sizes = sizes_read(harness, monkeypatch)
    assert bodies(load(harness, 1, 5)) == numbered(1, 2, 3, 4)
    assert len(sizes) == 1


def test_a_run_far_from_the_next_is_read_alone(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "GAP", 100)
    monkeypatch.setattr(pages, "RECORD_SLACK", 10)
    harness.publish([1], b"m1".ljust(30, b"\0"))
    harness.rest()
    harness.publish([2], bytes(700))
    harness.rest()
    harness.publish([1], b"m2".ljust(30, b"\0"))
    harness.rest()
    sizes = sizes_read(harness, monkeypatch)
    assert bodies(load(harness, 1, 3)) == numbered(1, 2)
    assert len(sizes) == 4  # each once to find the size of its record
    assert max(sizes) < 200


def spoil(harness: StoreHarness, what: bytes) -> None:
    """Where it is on disk, it is something else from now on."""
    for path, data in harness.disk.files().items():
        if what in data:
            harness.disk.put(path, data.replace(what, b"?" * len(what)))
            return
    raise AssertionError(f"{what!r} is nowhere")


# ---- reading


def test_messages_come_back_in_order_out_of_many_segments(harness: StoreHarness) -> None:
    publish(harness, 20)
    assert len(harness.segments) > 3
    assert bodies(load(harness, 1, 21)) == numbered(*range(1, 21))
    assert bodies(load(harness, 7, 12)) == numbered(*range(7, 12))
    assert load(harness, 21, 40) == []


def test_a_part_of_a_run_is_read_as_such(harness: StoreHarness) -> None:
    harness.publish([2], b"other", b"queue")
    harness.send([1, 2], [message(b"m%d" % n) for n in range(1, 31)])
    harness.rest()
    harness.settle(1, 1, 2, 10, 11, 30)
    harness.rest()
    assert bodies(load(harness, 1, 100)) == numbered(*range(3, 10), *range(12, 30))
    assert bodies(load(harness, 8, 14)) == numbered(8, 9, 12, 13)
    assert [body for _, body in bodies(load(harness, 1, 5, queue=2))] == [b"other", b"queue", b"m1", b"m2"]


def test_lanes_of_one_record_are_told_apart(harness: StoreHarness) -> None:
    harness.send([1], [message(b"p%d" % (n % 3), priority=n % 3) for n in range(9)], highest=2)
    harness.rest()
    for lane in range(3):
        assert bodies(load(harness, 1, 9, lane=lane)) == [(n, b"p%d" % lane) for n in (1, 2, 3)]


def test_a_load_is_about_as_large_as_was_asked_for(harness: StoreHarness) -> None:
    publish(harness, 20)
    assert bodies(load(harness, 1, 21, most=1000)) == numbered(1, 2, 3)
    assert bodies(load(harness, 5, 21, most=1)) == numbered(5)  # one at least


def test_the_time_of_the_publish_comes_along(harness: StoreHarness) -> None:
    harness.publish([1], b"now")
    harness.rest()
    harness.clock.move_to(harness.clock.now() + 50)
    harness.send([1], [message(b"later", deadline=harness.clock.now() + 5)])
    harness.rest()
    first, second = load(harness, 1, 9)
    assert second.time - first.time == 50
    assert second.message[2].deadline == harness.clock.now() + 5


@pytest.mark.parametrize("ahead", [1, 30, 400, 1000])
def test_records_larger_than_what_is_read_ahead(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(pages, "READ_AHEAD", max(ahead, 28))
    for n, size in enumerate((10, 5000, 20, 900, 30), 1):
        harness.publish([1], (b"m%d" % n).ljust(size, b"\0"))
    harness.rest()
    assert bodies(load(harness, 1, 9)) == numbered(1, 2, 3, 4, 5)


def test_neighbours_are_read_at_once(harness: StoreHarness) -> None:
    publish(harness, 5, 100)
    reads: list[str] = []
    harness.disk.fault = lambda kind, path: reads.append(path) if kind == "read" else None  # type: ignore[func-returns-value]
    assert len(load(harness, 1, 9)) == 5
    assert len(reads) == 1


def test_the_disk_knows_what_is_where(harness: StoreHarness) -> None:
    publish(harness, 3)
    harness.settle(1, 2)
    harness.journal.returned(1, 0, 3, 1, 6)
    harness.rest()
    assert harness.pages.next_sequence(1, 0, 1) == 1
    assert harness.pages.next_sequence(1, 0, 2) == 3
    assert harness.pages.next_sequence(1, 0, 4) is None
    assert harness.pages.size_of(1, 0, 1) == 300
    assert harness.pages.size_of(1, 0, 2) is None
    assert (harness.pages.tries(1, 0, 1), harness.pages.tries(1, 0, 3)) == (0, 6)
    assert harness.pages.next_sequence(9, 0, 1) is None
    assert load(harness, 1, 9, queue=9) == []


def test_what_is_not_granted_is_not_counted_as_on_disk(harness: StoreHarness) -> None:
    publish(harness, 2)
    assert harness.pages.synced(1, 0) == 3
    harness.publish([1], b"on its way")
    harness.turn()
    assert harness.pages.synced(1, 0) == 3
    harness.write()
    assert harness.pages.synced(1, 0) == 4
    assert harness.pages.synced(9, 0) == 0


def test_what_was_settled_in_this_turn_is_not_loaded(harness: StoreHarness) -> None:
    publish(harness, 3)
    harness.settle(1, 1)
    assert harness.pages.next_sequence(1, 0, 1) == 2
    assert bodies(load(harness, 1, 9)) == numbered(2, 3)


# ---- damage


def test_a_damaged_record_is_lost_and_nothing_else_is(harness: StoreHarness, caplog: pytest.LogCaptureFixture) -> None:
    publish(harness, 6)
    spoil(harness, b"m3")
    assert bodies(load(harness, 1, 9)) == numbered(1, 2, 4, 5, 6)
    assert "damaged and lost" in caplog.text
    harness.rest()
    assert harness.live(1) == 5  # it is settled, and not tried again
    assert harness.pages.next_sequence(1, 0, 3) == 4
    assert len(look(harness.disk.copy(), SMALL).messages) == 5


def test_a_load_of_which_all_is_damaged_says_so(harness: StoreHarness) -> None:
    publish(harness, 1)
    spoil(harness, b"m1")
    assert load(harness, 1, 9) == []
    harness.rest()
    assert harness.pages.next_sequence(1, 0, 1) is None


def test_damage_between_two_parts_of_a_record_alters_neither(harness: StoreHarness) -> None:
    harness.send([1], [message(b"m%d" % n) for n in range(1, 4)])
    harness.rest()
    harness.publish([2], b"spoilt".ljust(1990, b"\0"))
    harness.rest()
    spoil(harness, b"spoilt")
    whole = next(iter(harness.journal.lanes[1 << 8].index))
    other = next(iter(harness.journal.lanes[2 << 8].index))
    runs = [
        Run(1, 1, whole.segment, whole.offset, 0, 2),
        Run(2, 1, other.segment, other.offset, 0, 2),
        Run(3, 1, whole.segment, whole.offset, 2, 2),
    ]
    found = fetch(harness.disk, 1, 0, [(False, run) for run in runs], 0.0)
    assert bodies(found.loaded) == numbered(1, 3)
    assert [each.run for each in found.lost] == [runs[1]]


def test_what_other_nodes_have_is_not_given_up(harness: StoreHarness) -> None:
    publish(harness, 3)
    spoil(harness, b"m2")
    reasons: list[str] = []
    harness.pages.on_damage = reasons.append
    harness.pages.load(1, 0, 1, 9, 1 << 20, lambda loaded: pytest.fail("a message was left out"))
    harness.rest()
    assert "segment 1 of its journal is damaged at" in reasons[0]
    assert harness.live(1) == 3  # not settled: the other nodes would lose it too


@pytest.mark.parametrize("number", [EIO, ENOENT])
def test_a_segment_that_only_other_nodes_can_read_is_reported(harness: StoreHarness, number: int) -> None:
    publish(harness, 3)
    reasons: list[str] = []
    harness.pages.on_damage = reasons.append
    harness.disk.fault = lambda kind, path: OSError(number, "cannot be read") if kind == "read" else None
    harness.pages.load(1, 0, 1, 9, 1 << 20, lambda loaded: pytest.fail("nothing was read"))
    assert "cannot be read" in reasons[0]


def test_spilled_messages_are_on_no_other_node(harness: StoreHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.pages.on_damage = lambda reason: pytest.fail(reason)
    harness.pages.spill(1, 0, [(1, message(b"m1")), (2, message(b"m2"))])
    spoil(harness, b"m1")
    assert load(harness, 1, 9) == []
    assert "damaged and lost" in caplog.text


def test_a_disk_that_cannot_be_read_is_tried_again_and_costs_nothing(harness: StoreHarness) -> None:
    publish(harness, 4)
    harness.disk.fault = lambda kind, path: OSError(EIO, "told to fail") if kind == "read" else None
    loaded: list[list[Loaded]] = []
    harness.pages.load(1, 0, 1, 9, 1 << 20, loaded.append)
    harness.pages.try_again()
    assert loaded == []
    assert harness.live(1) == 4
    harness.disk.fault = lambda kind, path: None
    harness.pages.try_again()
    assert [bodies(each) for each in loaded] == [numbered(1, 2, 3, 4)]


# ---- beside reclaim


def mostly_dead(harness: StoreHarness) -> None:
    """Segment 1 has the messages 1..6, of which 5 and 6 are live."""
    publish(harness, 12)
    harness.settle(1, 1, 2, 3, 4)
    harness.rest()


def test_a_load_waits_for_copies_that_have_a_place_and_are_not_written(harness: StoreHarness) -> None:
    mostly_dead(harness)
    harness.reclaim.consider()
    assert harness.waiting  # the copies
    loaded: list[list[Loaded]] = []
    harness.pages.load(1, 0, 1, 13, 1 << 20, loaded.append)
    harness.rest()
    assert [bodies(each) for each in loaded] == [numbered(*range(5, 13))]
    assert harness.live(1) == 8


def test_a_load_whose_file_was_reclaimed_meanwhile_finds_the_copies(harness: StoreHarness) -> None:
    mostly_dead(harness)
    harness.jobs = []
    loaded: list[list[Loaded]] = []
    harness.pages.load(1, 0, 1, 13, 1 << 20, loaded.append)
    read = harness.jobs.pop()
    harness.reclaim.consider()
    harness.work()
    harness.rest()
    harness.work()
    assert "0000000001.seg" not in harness.segments
    harness.jobs.append(read)
    harness.work()
    assert [bodies(each) for each in loaded] == [numbered(*range(5, 13))]


def test_a_load_that_is_overtaken_by_reclaim_time_and_again_is_no_failure(
    harness: StoreHarness, caplog: pytest.LogCaptureFixture
) -> None:
    publish(harness, 1)
    index = harness.journal.lanes[1 << 8].index
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

    harness.disk.fault = overtaken
    loaded: list[list[Loaded]] = []
    harness.journal.batches._written = (1 << 40, 0)
    harness.pages.load(1, 0, 1, 2, 1 << 20, loaded.append)
    assert [bodies(each) for each in loaded] == [numbered(1)]
    assert "cannot be read" not in caplog.text


def test_a_load_while_copies_find_no_room_reads_the_originals(harness: StoreHarness) -> None:
    mostly_dead(harness)
    harness.disk.capacity = harness.disk.used
    harness.reclaim.consider()
    loaded: list[list[Loaded]] = []
    harness.pages.load(1, 0, 1, 13, 1 << 20, loaded.append)
    harness.rest()
    assert harness.journal.batches.held is not None
    assert [bodies(each) for each in loaded] == [numbered(*range(5, 13))]
    harness.disk.capacity = None
    harness.journal.space_returned()
    harness.rest()
    assert bodies(load(harness, 1, 13)) == numbered(*range(5, 13))


# ---- with the spill
