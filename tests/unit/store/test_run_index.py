"""Runs of live messages: what a cut leaves, where moved messages lie, and that the index stays small."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from leveret.store.run_block import Block, Run
from leveret.store.run_index import BLOCK_RUNS, RunIndex


def filled(*runs: Run) -> RunIndex:
    index = RunIndex()
    for run in runs:
        index.append(*run)
    return index


def single_messages(number: int) -> RunIndex:
    """Each message in a record of its own."""
    index = RunIndex()
    for sequence in range(number):
        index.append(sequence, 1, 1 + sequence // 1000, sequence % 1000 * 100, 0, 10)
    return index


def test_empty_index_gives_nothing() -> None:
    index = RunIndex()
    assert (len(index), index.bytes, index.first(), list(index)) == (0, 0, None, [])
    assert index.take(0, 10) == index.live(0, 10) == index.read(0, 10, 10) == []


def test_front_is_taken_run_by_run() -> None:
    first, second = Run(5, 3, 1, 64, 0, 30), Run(8, 2, 1, 200, 4, 11)
    index = filled(first, second)
    assert index.take(5, 3) == [first]
    assert (len(index), index.bytes, index.first()) == (2, 11, 8)
    assert index.take(8, 2) == [second]
    assert (len(index), index.bytes, index.first()) == (0, 0, None)


def test_cut_shares_the_size_and_the_right_part_skips_more() -> None:
    index = filled(Run(10, 10, 3, 77, 2, 105))
    assert index.take(13, 4) == [Run(13, 4, 3, 77, 5, 42)]
    assert list(index) == [Run(10, 3, 3, 77, 2, 31), Run(17, 3, 3, 77, 9, 32)]
    assert (len(index), index.bytes) == (6, 63)


def test_cut_at_either_end_leaves_one_run() -> None:
    index = filled(Run(10, 10, 3, 77, 0, 100))
    assert index.take(10, 2) == [Run(10, 2, 3, 77, 0, 20)]
    assert index.take(17, 9) == [Run(17, 3, 3, 77, 7, 30)]
    assert list(index) == [Run(12, 5, 3, 77, 2, 50)]


def test_taking_over_several_runs_and_gaps_leaves_the_outer_parts() -> None:
    index = filled(Run(0, 4, 1, 0, 0, 40), Run(6, 1, 1, 50, 0, 9), Run(9, 4, 2, 0, 0, 80))
    assert index.take(2, 9) == [Run(2, 2, 1, 0, 2, 20), Run(6, 1, 1, 50, 0, 9), Run(9, 2, 2, 0, 0, 40)]
    assert list(index) == [Run(0, 2, 1, 0, 0, 20), Run(11, 2, 2, 0, 2, 40)]


@pytest.mark.parametrize(("sequence", "number"), [(0, 5), (8, 2), (20, 5), (5, 0), (5, -3)])
def test_taking_where_nothing_is_live_changes_nothing(sequence: int, number: int) -> None:
    runs = [Run(5, 3, 1, 0, 0, 30), Run(10, 3, 1, 90, 0, 30)]
    index = filled(*runs)
    assert index.live(sequence, number) == index.take(sequence, number) == []
    assert list(index) == runs


def test_what_is_live_stays_when_looked_at() -> None:
    index = filled(Run(0, 4, 1, 0, 0, 40), Run(4, 4, 1, 50, 0, 40))
    assert index.live(3, 2) == [Run(3, 1, 1, 0, 3, 10), Run(4, 1, 1, 50, 0, 10)]
    assert len(index) == 8


def test_run_that_continues_the_last_one_becomes_part_of_it() -> None:
    index = filled(Run(1, 2, 1, 64, 0, 20), Run(3, 1, 1, 64, 2, 7))
    assert list(index) == [Run(1, 3, 1, 64, 0, 27)]


@pytest.mark.parametrize("other", [Run(4, 1, 1, 64, 2, 7), Run(3, 1, 2, 64, 2, 7), Run(3, 1, 1, 65, 2, 7)])
def test_run_from_elsewhere_stays_apart(other: Run) -> None:
    first = Run(1, 2, 1, 64, 0, 20)
    assert list(filled(first, other)) == [first, other]
    assert list(filled(first, Run(3, 1, 1, 64, 3, 7))) == [first, Run(3, 1, 1, 64, 3, 7)]


def test_appending_below_what_is_live_is_refused() -> None:
    index = filled(Run(5, 3, 1, 64, 0, 20))
    with pytest.raises(ValueError, match="a run from 7 cannot follow messages up to 7"):
        index.append(7, 1, 1, 100, 0, 5)
    with pytest.raises(ValueError, match="a run has messages, not 0"):
        index.append(9, 0, 1, 100, 0, 5)
    assert list(index) == [Run(5, 3, 1, 64, 0, 20)]


def test_segment_that_does_not_fit_is_refused_and_leaves_the_index_whole() -> None:
    index = filled(Run(5, 3, 1, 64, 0, 20))
    with pytest.raises(OverflowError):
        index.append(8, 1, 1 << 32, 0, 0, 5)
    highest = Run(8, 1, (1 << 32) - 1, (1 << 32) - 1, 0, 5)
    index.append(*highest)
    assert index.take(8, 1) == [highest]


def test_lane_may_start_again_once_it_is_empty() -> None:
    index = filled(Run(5, 3, 1, 64, 0, 20))
    index.take(0, 100)
    index.append(2, 1, 1, 90, 0, 5)
    assert index.live(2, 1) == index.read(0, 10, 100) == index.take(2, 1) == [Run(2, 1, 1, 90, 0, 5)]


@pytest.mark.parametrize(
    ("sequence", "messages", "size", "found"),
    [
        (0, 100, 1000, [Run(0, 4, 1, 0, 0, 40), Run(6, 4, 1, 50, 0, 80)]),
        (0, 6, 1000, [Run(0, 4, 1, 0, 0, 40), Run(6, 2, 1, 50, 0, 40)]),
        (0, 100, 79, [Run(0, 4, 1, 0, 0, 40), Run(6, 1, 1, 50, 0, 20)]),
        (0, 4, 40, [Run(0, 4, 1, 0, 0, 40)]),
        (0, 100, 40, [Run(0, 4, 1, 0, 0, 40)]),
        (7, 100, 40, [Run(7, 2, 1, 50, 1, 40)]),
        (7, 100, 59, [Run(7, 2, 1, 50, 1, 40)]),
        (2, 3, 1000, [Run(2, 2, 1, 0, 2, 20), Run(6, 1, 1, 50, 0, 20)]),
        (4, 1, 1, [Run(6, 1, 1, 50, 0, 20)]),
        (8, 0, 0, [Run(8, 1, 1, 50, 2, 20)]),
        (10, 5, 500, []),
    ],
)
def test_reading_stops_at_either_limit_but_not_before_one_message(
    sequence: int, messages: int, size: int, found: list[Run]
) -> None:
    index = filled(Run(0, 4, 1, 0, 0, 40), Run(6, 4, 1, 50, 0, 80))
    assert index.read(sequence, messages, size) == found


def test_messages_without_size_are_limited_by_number_only() -> None:
    index = filled(Run(0, 4, 1, 0, 0, 0), Run(4, 4, 1, 50, 0, 0))
    assert sum(run.number for run in index.read(0, 7, 0)) == 7


def test_nothing_follows_a_message_that_is_larger_than_allowed() -> None:
    index = filled(Run(0, 1, 1, 0, 0, 40), Run(1, 1, 1, 50, 0, 0))
    assert index.read(0, 10, 39) == [Run(0, 1, 1, 0, 0, 40)]


def test_moved_messages_lie_at_the_new_place() -> None:
    index = filled(Run(0, 9, 1, 0, 0, 90))
    index.move(3, 3, 7, 500, 1)
    assert list(index) == [Run(0, 3, 1, 0, 0, 30), Run(3, 3, 7, 500, 1, 30), Run(6, 3, 1, 0, 6, 30)]
    index.move(0, 3, 7, 400, 0)
    assert next(iter(index)) == Run(0, 3, 7, 400, 0, 30)
    assert (len(index), index.bytes) == (9, 90)


def test_runs_moved_into_one_record_become_one() -> None:
    index = filled(Run(0, 3, 1, 0, 0, 30), Run(3, 3, 1, 40, 0, 33), Run(6, 3, 2, 0, 5, 36))
    for sequence in (0, 3, 6):
        index.move(sequence, 3, 9, 64, sequence)
    assert list(index) == [Run(0, 9, 9, 64, 0, 99)]


@pytest.mark.parametrize(("sequence", "number"), [(2, 3), (6, 2), (3, 0), (4, 0), (4, -1), (7, 2), (99, 1), (2, 2)])
def test_moving_what_is_not_one_live_run_is_refused(sequence: int, number: int) -> None:
    runs = [Run(0, 3, 1, 0, 0, 30), Run(3, 4, 1, 40, 0, 40)]
    index = filled(*runs)
    with pytest.raises(ValueError, match="are not one live run"):
        index.move(sequence, number, 5, 0, 0)
    assert list(index) == runs
    with pytest.raises(ValueError):
        RunIndex().move(sequence, number, 5, 0, 0)


def test_clearing_forgets_everything() -> None:
    index = single_messages(3 * BLOCK_RUNS)
    index.clear()
    assert (len(index), index.bytes, index.first(), list(index)) == (0, 0, None, [])
    index.append(0, 1, 1, 0, 0, 5)
    assert index.first() == 0


def test_one_take_may_empty_many_blocks() -> None:
    number = 6 * BLOCK_RUNS
    index = single_messages(number)
    taken = index.take(10, number - 20)
    assert [run.sequence for run in taken] == list(range(10, number - 10))
    assert [run.sequence for run in index] == [*range(10), *range(number - 10, number)]
    assert len(index.take(0, number)) == 20
    assert len(index) == index.bytes == 0


def test_messages_taken_in_any_order_come_out_as_they_went_in() -> None:
    number = 5 * BLOCK_RUNS
    index = single_messages(number)
    expected = list(index)
    order = list(range(number))
    random.Random(1).shuffle(order)
    assert all(index.take(sequence, 1) == [expected[sequence]] for sequence in order[:-3])
    assert [run.sequence for run in index] == sorted(order[-3:])
    assert len(index._blocks) == 1  # nearly empty ones were joined


def test_one_long_run_taken_in_any_order_splits_its_block() -> None:
    number = 3 * BLOCK_RUNS
    index = filled(Run(0, number, 1, 64, 0, number * 7))
    for sequence in range(1, number, 2):
        assert index.take(sequence, 1) == [Run(sequence, 1, 1, 64, sequence, 7)]
    assert len(index._blocks) > 1
    assert all(len(block) <= BLOCK_RUNS for block in index._blocks)
    assert [run.skip for run in index.take(0, number)] == list(range(0, number, 2))


def test_settled_front_of_a_short_queue_is_given_back() -> None:
    index = single_messages(50)
    for sequence in range(50, 900):
        index.append(sequence, 1, 1, sequence * 100, 0, 10)
        index.take(sequence - 50, 1)
        assert len(index._blocks[0].sequences) < 200


def test_run_takes_at_most_36_bytes() -> None:
    number = 20 * BLOCK_RUNS
    tracemalloc.start()
    try:
        index = single_messages(number)
        assert tracemalloc.get_traced_memory()[0] / number < 36
        index.take(0, number)
        assert tracemalloc.get_traced_memory()[0] < 4096
    finally:
        tracemalloc.stop()


def test_totals_of_each_segment_are_those_of_its_runs() -> None:
    index = filled(Run(0, 4, 1, 0, 0, 40), Run(6, 4, 1, 50, 0, 80), Run(12, 2, 3, 0, 0, 7))
    index.take(0, 2)
    assert index.totals() == {1: (6, 100), 3: (2, 7)}
    assert RunIndex().totals() == {}


def test_a_range_covers_all_when_nothing_lives_outside_of_it() -> None:
    index = filled(Run(5, 4, 1, 0, 0, 40), Run(12, 2, 3, 0, 0, 7))
    assert index.covers(5, 9)
    assert not index.covers(6, 9)
    assert not index.covers(5, 8)
    assert RunIndex().covers(1, 1)


# ---- snapshots


@pytest.mark.parametrize("seed", range(20))
def test_a_frozen_block_never_changes(seed: int) -> None:
    chance = random.Random(seed)
    index, sequence = RunIndex(), 0
    snapshots: list[tuple[list[list[Run]], tuple[Block, ...]]] = []
    for _ in range(3000):
        what = chance.random()
        if what < 0.55:
            number = chance.randint(1, 4)
            index.append(sequence, number, 1 + sequence // 500, sequence % 500, 0, 10 * number)
            sequence += number + chance.randint(0, 1)
        elif what < 0.8:
            index.take(chance.randrange(sequence + 1), chance.choice((1, 1, 3, 700)))
        elif what < 0.95:
            for run in index.live(chance.randrange(sequence + 1), 3)[:1]:
                index.move(run.sequence, run.number, 99, sequence, 0)
        elif what < 0.96:
            blocks = index.freeze()
            assert [run for block in blocks for run in runs_of(block)] == list(index)
            snapshots.append(([runs_of(block) for block in blocks], blocks))
    assert len(snapshots) > 10
    for then, blocks in snapshots:
        assert [runs_of(block) for block in blocks] == then


def test_a_frozen_block_does_not_take_over_its_neighbour() -> None:
    index = single_messages(4 * BLOCK_RUNS)
    index.take(0, BLOCK_RUNS - 100)
    blocks = index.freeze()
    then = [runs_of(block) for block in blocks]
    index.take(BLOCK_RUNS + 50, BLOCK_RUNS - 100)
    assert len(index.freeze()) < len(blocks)
    assert [runs_of(block) for block in blocks] == then


def runs_of(block: Block) -> list[Run]:
    return block.runs(block.start, len(block.sequences))


def test_an_index_of_frozen_blocks_is_the_same_and_independent() -> None:
    index = single_messages(5000)
    index.take(0, 1500)
    blocks = [block.copy() for block in index.freeze() if len(block)]
    again = RunIndex.of(blocks, len(index), index.bytes)
    assert list(again) == list(index)
    assert again.take(1500, 10) == index.take(1500, 10)
    again.append(9000, 1, 7, 7, 0, 3)
    assert (len(again), again.bytes, again.first()) == (len(index) + 1, index.bytes + 3, 1510)


def test_runs_in_segments_that_are_gone_are_found() -> None:
    index = single_messages(5000)
    assert index.runs_in(frozenset()) == index.runs_in(frozenset({0, 6})) == []
    assert [run.sequence for run in index.runs_in(frozenset({3}))] == list(range(2000, 3000))
    assert [run.segment for run in index.runs_in(frozenset({1, 5}))] == [1] * 1000 + [5] * 1000
