"""Where records go, and whether the books of the segments are right."""

from __future__ import annotations

from random import Random

import pytest

from leveret.store.records import HEAD_SIZE, SEGMENT_HEAD, Record
from leveret.store.recovery import recover
from leveret.store.scan import scan
from tests.support.store_harness import StoreHarness, look, message

FULL = 2048


def begun(queues: int = 1) -> StoreHarness:
    harness = StoreHarness(full_size=FULL)
    harness.begin()
    harness.reclaims = False
    for _ in range(queues):
        harness.declare()
    harness.rest()
    return harness


def records(harness: StoreHarness) -> list[tuple[int, Record]]:
    """With their segments."""
    found = []
    for name in harness.segments:
        for item in scan(harness.disk.content(f"journal/{name}"), int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            found.append((int(name[:-4]), item))
    return found


@pytest.mark.feature("S4-25")
def test_a_full_segment_is_followed_by_another() -> None:
    """No segment is larger than it should be, and none is empty."""
    harness = begun()
    for n in range(30):
        harness.publish([1], b"%02d" % n + bytes(300))
        harness.rest()
    sizes = [harness.disk.size(f"journal/{name}") for name in harness.segments]
    assert len(sizes) > 4
    assert all(FULL / 2 < size <= FULL for size in sizes[:-1])
    assert [body[:2] for body in look(harness.disk.copy(), FULL).bodies(1)] == [b"%02d" % n for n in range(30)]


def test_a_record_larger_than_a_segment_has_one_to_itself() -> None:
    harness = begun()
    for size in (10, 3 * FULL, 10, 2 * FULL, 2 * FULL, 10):
        harness.publish([1], bytes(size))
        harness.rest()
    sizes = [harness.disk.size(f"journal/{name}") for name in harness.segments]
    assert [size > FULL for size in sizes] == [False, True, False, True, True, False]


def test_a_group_is_in_one_segment() -> None:
    harness = begun()
    random = Random(4)
    for _ in range(40):
        with harness.journal.group():
            for _ in range(random.randint(1, 6)):
                harness.publish([1], bytes(random.randint(1, 300)))
        harness.rest()
    open_in: int | None = None
    for segment, record in records(harness):
        assert open_in in (None, segment)
        open_in = None if record.ends_group else segment
    assert len(harness.segments) > 5


def test_record_numbers_go_up_by_one_through_all_segments_and_lives() -> None:
    harness = begun()
    for _ in range(12):
        harness.publish([1], bytes(300))
        harness.rest()
    harness = StoreHarness(harness.disk, full_size=FULL)
    harness.begin()
    for _ in range(12):
        harness.publish([1], bytes(300))
        harness.rest()
    numbers = [record.number for _, record in records(harness)]
    assert numbers == list(range(1, 25))


def test_records_follow_each_other_without_gaps() -> None:
    harness = begun()
    for n in range(20):
        harness.publish([1], bytes(n * 20))
        harness.settle(1, n)
        harness.rest()
    ends: dict[int, int] = {}
    for segment, record in records(harness):
        assert record.at == ends.get(segment, SEGMENT_HEAD.size)
        assert record.body == record.at + HEAD_SIZE
        ends[segment] = record.end


@pytest.mark.parametrize("seed", range(12))
def test_the_books_are_what_a_recovery_would_find(seed: int) -> None:
    """So that what is reclaimed and removed in this life is what would be in the next."""
    random, harness = Random(seed), begun(3)
    live: list[tuple[int, int, int]] = []
    for n in range(120):
        action = random.choice(("publish", "publish", "settle", "return", "group", "delete"))
        chosen = [live.pop(random.randrange(len(live))) for _ in range(min(len(live), random.randint(1, 5)))]
        if action == "publish":
            queues = random.sample([1, 2, 3], random.randint(1, 3))
            run = [message(bytes(20), priority=random.randint(0, 2)) for _ in range(random.randint(1, 4))]
            before = dict(harness.tails)
            harness.send(queues, run, highest=2)
            live += [
                (*lane, sequence)
                for lane, tail in harness.tails.items()
                for sequence in range(before.get(lane, 1), tail)
            ]
        elif action == "settle":
            for queue, lane, sequence in chosen:
                harness.settle(queue, sequence, lane=lane)
            chosen = []
        elif action == "return":
            for queue, lane, sequence in chosen:
                harness.journal.returned(queue, lane, sequence, 1, n)
        elif action == "group":
            with harness.journal.group():
                harness.publish([1], b"of a group")
                for queue, lane, sequence in chosen:
                    harness.settle(queue, sequence, lane=lane)
            chosen = []
        live += chosen
        harness.rest()
    found = recover(harness.disk, {1, 2, 3}, FULL, repair=False).segments
    assert {each.id for each in found} == {each.id for each in harness.journal.segments}
    for each in found:
        mine = harness.journal.segments[each.id]
        assert (mine.size, mine.live, mine.content) == (each.size, each.live, each.content)
        assert (mine.marks, mine.needs, mine.returns) == (each.marks, each.needs, each.returns)
        assert abs(mine.live_content - each.live_content) <= each.live  # shared out among the messages of a run


def test_a_deleted_queue_leaves_the_books() -> None:
    harness = begun(2)
    harness.publish([1, 2], b"both" * 10)
    harness.publish([1], b"one" * 10)
    harness.journal.returned(1, 0, 1, 1, 4)
    harness.rest()
    (segment,) = harness.journal.segments
    harness.delete(1)
    harness.rest()
    assert (segment.live, segment.live_content, segment.returns) == (1, 40, 0)


def test_settling_a_whole_lane_of_many_takes_one_entry_for_each_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.store.layout.MANY", 10)
    harness = begun()
    for _ in range(30):
        harness.publish([1], bytes(100), bytes(100))
        harness.rest()
    harness.journal.settle(1, 0, 1, 60)
    harness.journal.promise()
    harness.turn()
    (batch,) = harness.waiting
    (settle,) = [draft for group in batch.groups for draft in group]
    assert len(settle.entries) == len(harness.segments)
    harness.rest()
    assert not look(harness.disk.copy(), FULL).messages
