"""Rows of two sides: any order of reading gives the same pairs, and every row is matched or leaves unmatched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.spark.jobs.join_windows import LEFT, RIGHT, JoinWindows, Waiting

RULES = JoinWindows(100)
EVER = 2**62
Names = set[tuple[bytes, bytes]]


def read(*rows: tuple[str, int], now: int = 0) -> tuple[list[Waiting], Names, int]:
    """Rows of this side and time; each is called by both."""
    kept: list[Waiting] = []
    pairs: Names = set()
    total = 0
    for side, time in rows:
        row = Waiting(side, time, f"{side}{time}".encode(), None, RULES.due(time, now, hold=False))
        kept, found, matched = RULES.add(kept, [row])
        assert not pairs.intersection((pair.left.body, pair.right.body) for pair in found)
        pairs |= {(pair.left.body, pair.right.body) for pair in found}
        total += matched
    return kept, pairs, total


def test_rows_within_the_time_are_pairs() -> None:
    _, pairs, matched = read((LEFT, 0), (RIGHT, 100), (RIGHT, 101), (LEFT, 150))
    assert pairs == {(b"left0", b"right100"), (b"left150", b"right100"), (b"left150", b"right101")}
    assert matched == 4


def test_a_row_waits_by_its_time_and_since_it_was_read_and_is_postponed_once() -> None:
    for kept, _, _ in (read((LEFT, 500), now=100), read((LEFT, 0), now=500)):
        assert RULES.pass_time(kept, 599) == (kept, [])
        assert len(RULES.pass_time(kept, 600)[1]) == 1
        assert RULES.pass_time(RULES.wait_again(kept, 0, hold=True), 10**15)[1] == []
        overdue, gone = RULES.pass_time(kept, 5_000)
        assert (gone, overdue[0].due) == ([], 5_100)
        assert len(RULES.pass_time(overdue, 9_000)[1]) == 1


def test_a_run_that_ends_lets_old_rows_go() -> None:
    kept, gone = RULES.close(read((LEFT, 0), (RIGHT, 300))[0], until=0)
    assert ([one.time for one in kept], [one.time for one in gone]) == ([300], [0])


ROWS = st.lists(st.tuples(st.sampled_from([LEFT, RIGHT]), st.integers(0, 600)), max_size=25, unique=True)


@given(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_any_order_of_reading_gives_the_same_pairs(orders: tuple[list[tuple[str, int]], list[tuple[str, int]]]) -> None:
    rows, other = orders
    kept, pairs, matched = read(*rows)
    lefts = [time for side, time in rows if side == LEFT]
    rights = [time for side, time in rows if side == RIGHT]
    assert pairs == {(b"left%d" % a, b"right%d" % b) for a in lefts for b in rights if abs(a - b) <= RULES.within}
    again, same_pairs, same_matched = read(*other)
    assert (same_pairs, same_matched) == (pairs, matched)
    waiting = [Waiting(side, time, b"%s%d" % (side.encode(), time), None, max(time, 0) + 100) for side, time in other]
    at_once, all_pairs, all_matched = RULES.add([], waiting)
    assert ({(pair.left.body, pair.right.body) for pair in all_pairs}, all_matched) == (pairs, matched)
    assert (len(all_pairs), sorted(at_once)) == (len(pairs), sorted(kept))
    gone = RULES.close(kept, EVER)[1]
    assert sorted(gone) == sorted(RULES.close(again, EVER)[1])
    assert matched + sum(not one.is_matched for one in gone) == len(rows)
