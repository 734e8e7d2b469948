"""When a segment may go, and which one is worth carrying away."""

from __future__ import annotations

import pytest

from leveret.store.segments import MERGE_FROM, Segment, Segments

FULL = 1000


def segment(id_: int, *, live: int = 0, size: int = FULL, **more: object) -> Segment:
    """Sealed and safe, full of content of which ``live`` bytes, in as many messages, are live."""
    made = Segment(id_, size)
    made.content = size
    made.is_sealed = made.is_safe = True
    made.gain(live, live)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def segments(*all_: Segment) -> Segments:
    made = Segments(FULL)
    for each in all_:
        made.add(each)
    return made


# ---- what may go


def test_a_segment_goes_when_nothing_in_it_counts() -> None:
    some = segments(segment(1), segment(2, live=1), segment(3))
    assert some.has_dead()
    assert some.take_dead() == [1, 3]


def test_what_is_going_is_not_named_twice_and_is_known_until_it_is_gone() -> None:
    some = segments(segment(1))
    assert some.take_dead() == [1]
    assert 1 in some
    assert not some.has_dead()
    assert some.take_dead() == []
    some.remove(1)
    assert 1 not in some


def test_a_segment_that_is_not_all_on_disk_stays() -> None:
    assert segments(segment(1, is_safe=False)).take_dead() == []


def test_a_settle_is_needed_as_long_as_the_segment_it_is_about() -> None:
    """The chain: 3 has settles about 2, 2 has settles about 1; they go one after the other."""
    some = segments(segment(1, live=1), segment(2, needs={1: 25}), segment(3, needs={2: 25}))
    assert some.take_dead() == []
    some[1].lose(1, 1)
    for id_ in (1, 2, 3):
        assert some.take_dead() == [id_]
        some.remove(id_)
    assert len(some) == 0


def test_a_return_that_counts_keeps_its_segment() -> None:
    some = segments(segment(1, returns=25))
    assert some.take_dead() == []
    some[1].returns = 0
    assert some.take_dead() == [1]


def test_a_segment_outlives_those_with_old_copies_of_its_messages() -> None:
    some = segments(segment(1, live=1), segment(2, after={1}))
    assert some.take_dead() == []
    some.remove(1)
    assert some.take_dead() == [2]


# ---- what is worth carrying away


@pytest.mark.feature("S4-22")
def test_the_segment_with_least_to_copy_is_reclaimed_first() -> None:
    """Under half of it counts."""
    some = segments(segment(1, live=400), segment(2, live=100), segment(3, live=300), segment(4, live=900))
    assert some.to_reclaim() == 2
    some.remove(2)
    assert some.to_reclaim() == 3


def test_a_segment_of_which_half_counts_stays() -> None:
    assert segments(segment(1, live=500), segment(2, live=1000)).to_reclaim() is None


def test_needed_settles_and_returns_count_as_well() -> None:
    assert segments(segment(1, live=100)).to_reclaim() == 1
    assert segments(segment(1, live=100, needs={9: 450})).to_reclaim() is None
    assert segments(segment(1, live=100, returns=450)).to_reclaim() is None


def test_the_segment_that_is_written_is_not_reclaimed() -> None:
    assert segments(segment(1, live=1, is_safe=False)).to_reclaim() is None


def test_what_goes_anyway_is_not_reclaimed() -> None:
    some = segments(segment(1))
    some.take_dead()
    assert some.to_reclaim() is None


def test_a_damaged_segment_is_carried_away_first_however_full() -> None:
    assert segments(segment(1, live=10), segment(2, live=1000, is_damaged=True)).to_reclaim() == 2


def test_a_segment_that_could_not_be_read_is_not_tried_again() -> None:
    assert segments(segment(1, live=10, is_stuck=True)).to_reclaim() is None


@pytest.mark.feature("S4-25")
def test_small_remains_are_merged_when_there_are_several() -> None:
    """Segments of short lives become one."""
    small = [segment(n, live=80, size=100) for n in range(1, MERGE_FROM)]
    assert segments(*small).to_reclaim() is None
    assert segments(*small, segment(MERGE_FROM, live=80, size=100)).to_reclaim() == 1
    assert segments(*small, segment(MERGE_FROM, live=800, size=1000)).to_reclaim() is None
