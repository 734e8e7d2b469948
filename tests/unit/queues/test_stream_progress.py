"""The lowest offset that a reader was given and has not read, against a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.queues.stream_reader import Progress


def test_nothing_is_open_before_anything_was_given() -> None:
    assert Progress().low is None


def test_gaps_count_as_read() -> None:
    progress = Progress()
    progress.given(5, 6)
    progress.given(9, 11)
    progress.read(5, 6)
    assert progress.low == 9
    progress.read(9, 11)
    assert progress.low is None
    progress.given(20, 21)
    assert progress.low == 20


def test_what_was_given_back_holds_up_all_behind_it() -> None:
    progress = Progress()
    progress.given(0, 10)
    progress.read(6, 8)
    progress.returned(4)
    progress.returned(5)
    progress.read(0, 4)
    assert progress.low == 4
    progress.given(10, 20)
    progress.read(8, 20)
    assert progress.low == 4
    assert not progress._stops


def test_ranges_are_joined() -> None:
    progress = Progress()
    progress.given(0, 100_000)
    for offset in range(1, 50_000):
        progress.read(offset, offset + 1)
    for offset in range(99_999, 50_000, -1):
        progress.read(offset, offset + 1)
    assert len(progress._stops) == 2
    progress.read(50_000, 50_001)
    assert len(progress._stops) == 1
    progress.read(0, 1)
    assert progress.low is None
    assert not progress._stops
    assert not progress._firsts


@given(
    stretches=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=8),
    data=st.data(),
)
def test_in_any_order_the_lowest_is_right(stretches: list[tuple[int, int]], data: st.DataObject) -> None:
    progress = Progress()
    out: set[int] = set()
    held: set[int] = set()
    at = 7
    for gap, number in stretches:
        at += gap
        progress.given(at, at + number)
        out |= set(range(at, at + number))
        at += number
        for offset in data.draw(
            st.lists(st.sampled_from(sorted(out - held)), unique=True) if out - held else st.just([])
        ):
            if data.draw(st.integers(0, 9)):
                progress.read(offset, offset + 1)
                out.remove(offset)
            else:
                progress.returned(offset)
                held.add(offset)
        assert progress.low == min(out, default=None)
        assert len(progress._stops) <= len(out)
