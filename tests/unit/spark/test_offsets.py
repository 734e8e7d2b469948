"""Where to begin, how far a batch may go, how it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.spark.errors import DataLoss, OptionError
from leveret.spark.offsets import (
    Range,
    Source,
    cut,
    is_fixed,
    most_rows,
    placed,
    ranges_between,
    refuse_loss,
    refuse_strangers,
    resumed,
    shares,
    wanted_offset,
)
from leveret.spark.options import EARLIEST, LATEST, Position

SOURCE = Source("q", "stream", 0, 10, 20, 10, 1000)
WAITING = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 10_000))


@given(WAITING, st.integers(1, 20_000))
def test_a_limit_is_used_up_and_never_passed(waiting: dict[str, int], limit: int) -> None:
    given_ = shares(waiting, limit)
    assert sum(given_.values()) == min(limit, sum(waiting.values()))
    assert all(0 < count <= waiting[queue] for queue, count in given_.items())


@given(WAITING, st.integers(7, 20_000))
def test_no_queue_is_starved_by_long_ones(waiting: dict[str, int], limit: int) -> None:
    assert shares(waiting, limit).keys() == {queue for queue, size in waiting.items() if size}


def test_a_limit_is_shared_in_proportion() -> None:
    assert shares({"a": 9000, "b": 1000}, 100) == {"a": 90, "b": 10}
    assert shares({"a": 1_000_000, "b": 1}, 10) == {"a": 9, "b": 1}
    assert shares({"a": 1, "b": 2, "c": 2}, 4) == {"a": 1, "b": 2, "c": 1}
    assert shares({"a": 5, "b": 3, "c": 9}, 2) == {"c": 1, "a": 1}


def test_a_limit_in_bytes_counts_by_the_mean_size() -> None:
    waiting, means = {"a": 100, "b": 100}, {"a": 10.0, "b": 30.0}
    assert most_rows(waiting, means, None, 4000) == 200
    assert most_rows(waiting, means, None, 1000) == 50
    assert most_rows(waiting, means, 20, 1000) == 20
    assert most_rows(waiting, means, None, 1) == 1


RANGES = st.lists(st.builds(lambda low, size: Range("q", low, low + size), st.integers(0, 99), st.integers(1, 500)))


@given(RANGES, st.none() | st.integers(1, 40))
def test_cutting_keeps_every_offset_once(ranges: list[Range], pieces: int | None) -> None:
    parts = cut(ranges, pieces)
    assert [at for part in parts for at in range(part.start, part.stop)] == [
        at for one in ranges for at in range(one.start, one.stop)
    ]
    assert all(part.size > 0 for part in parts)
    assert len(parts) >= min(pieces or 0, sum(one.size for one in ranges))


def test_the_longest_range_is_cut_most() -> None:
    assert cut([Range("a", 0, 10), Range("b", 0, 30)], 4) == [
        Range("a", 0, 10),
        Range("b", 0, 10),
        Range("b", 10, 20),
        Range("b", 20, 30),
    ]


def test_queues_that_were_placed_or_declared_again_give_nothing() -> None:
    assert ranges_between({"a": 5, "gone": 3}, {"a": 9, "new": 4, "gone": 3}) == [Range("a", 5, 9)]
    assert ranges_between({"a": 100}, {"a": 0}) == []
    assert ranges_between({}, {"a": 7}) == []


def test_only_a_start_that_stays_is_fixed() -> None:
    assert is_fixed(Position("o", everywhere=EARLIEST))
    assert is_fixed(Position("o", by_queue={"a": 3, "b": EARLIEST}))
    assert not is_fixed(Position("o", everywhere=LATEST))
    assert not is_fixed(Position("o", by_queue={"a": 3, "b": LATEST}))
    assert not is_fixed(Position("o", timestamp=5))


def test_a_wanted_offset_is_placed() -> None:
    assert [placed(SOURCE, at, "o", lossy=False) for at in (EARLIEST, LATEST, 10, 15, 20)] == [10, 20, 10, 15, 20]
    assert placed(SOURCE, 3, "o", lossy=True) == 10
    with pytest.raises(DataLoss, match=r"option o: offset 3 of queue 'q' was deleted, the first is 10.*failOnDataLoss"):
        placed(SOURCE, 3, "o", lossy=False)
    with pytest.raises(OptionError, match="offset 21 of queue 'q' does not exist yet, the next is 20"):
        placed(SOURCE, 21, "o", lossy=True)


def test_offsets_must_be_for_the_queues_that_are_read() -> None:
    with pytest.raises(OptionError, match="option o has no offset for queue 'q'"):
        wanted_offset(SOURCE, Position("o", by_queue={"p": 1}))
    with pytest.raises(OptionError, match="option o names 'p', which the query does not read"):
        refuse_strangers([SOURCE], Position("o", by_queue={"q": 1, "p": 1}))


def test_loss_names_the_queue_the_offsets_and_the_remedy() -> None:
    refuse_loss(SOURCE, 10)
    refuse_loss(SOURCE, 20)
    with pytest.raises(DataLoss, match=r"queue 'q': offsets 4 to 9 were removed by retention.*failOnDataLoss"):
        refuse_loss(SOURCE, 4)
    with pytest.raises(DataLoss, match=r"queue 'q' ends at offset 20, but 25 was reached before.*new checkpoint"):
        refuse_loss(SOURCE, 25)


def test_with_loss_allowed_reading_goes_on_at_what_is_there() -> None:
    assert [resumed(SOURCE, at) for at in (4, 10, 17, 20, 25)] == [10, 10, 17, 20, 10]
