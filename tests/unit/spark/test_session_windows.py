"""Sessions of one key: any order of reading gives the same, nothing is lost, and late messages are marked."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from leveret.spark.jobs.session_windows import Event, Session, SessionWindows

GAP, REMEMBER = 100, 1_000
RULES = SessionWindows(GAP, REMEMBER)
EVER = 2**62


def read(*times: int, now: int = 0, sessions: list[Session] | None = None) -> list[Session]:
    found = sessions or []
    for time in times:
        found = RULES.add(found, [Event(time, (Decimal(time) / 10,))], now, hold=False)
    return found


def shown(sessions: list[Session]) -> list[tuple[int, int, int, int]]:
    return sorted((one.start, one.end, one.messages, one.late) for one in sessions)


def test_messages_less_than_the_gap_apart_are_together() -> None:
    assert shown(read(0, 99, 199)) == [(0, 99, 2, 0), (199, 199, 1, 0)]
    assert shown(read(0, 150, 75)) == [(0, 150, 3, 0)]  # the last one joins the other two
    assert read(0, 150, 75)[0].sums == (Decimal("22.5"),)


def test_a_session_closes_when_the_gap_has_passed_by_its_time_and_since_it_was_read() -> None:
    of_the_future, of_the_past = read(500, now=100), read(0, now=500)
    for sessions in (of_the_future, of_the_past):
        assert RULES.pass_time(sessions, 599) == (sessions, [])
        kept, closed = RULES.pass_time(sessions, 600)
        assert (len(closed), [one.is_closed for one in kept]) == (1, [True])
        assert RULES.pass_time(kept, 600 + REMEMBER) == ([], [])


def test_an_overdue_session_is_postponed_once() -> None:
    sessions = read(0)
    kept, closed = RULES.pass_time(sessions, 5_000)
    assert (closed, kept[0].due) == ([], 5_100)
    assert len(RULES.pass_time(kept, 9_000)[1]) == 1
    assert RULES.pass_time(read(50, now=5_050, sessions=kept), 5_100)[1] == []


def test_held_sessions_wait_until_they_are_asked() -> None:
    held = RULES.wait_again(read(0), 0, hold=True)
    assert RULES.pass_time(held, 10**15) == (held, [])
    assert RULES.wait_again(held, 5_000, hold=False)[0].due == 5_100
    assert RULES.add(held, [Event(50, (Decimal(1),))], 5_000, hold=True)[0].due == held[0].due
    assert len(RULES.close(held, 0, 5_000)[1]) == 1


def test_late_messages_are_a_session_of_their_own_and_marked() -> None:
    kept, _ = RULES.close(read(0, 300), until=50, now=0)
    assert RULES.late(kept, [-100, -99, 99, 100, 300]) == [False, True, True, False, False]
    after = [one for one in read(99, 190, 280, sessions=kept) if not one.is_closed]
    assert shown(after) == [(99, 300, 4, 1)]


def slow_sessions(times: list[int]) -> list[tuple[int, int, int, int]]:
    """By sorting: the obvious version."""
    groups: list[list[int]] = []
    for time in sorted(times):
        if groups and time - groups[-1][-1] < GAP:
            groups[-1].append(time)
        else:
            groups.append([time])
    return [(group[0], group[-1], len(group), 0) for group in groups]


@given(
    st.lists(st.integers(0, 2_000), max_size=30).flatmap(
        lambda times: st.tuples(st.just(times), st.permutations(times))
    )
)
def test_any_order_of_reading_gives_the_same_sessions(orders: tuple[list[int], list[int]]) -> None:
    times, other = orders
    _, closed = RULES.close(read(*times), EVER, 0)
    assert shown(closed) == slow_sessions(times)
    assert sorted(closed) == sorted(RULES.close(read(*other), EVER, 0)[1])
    at_once = RULES.add([], [Event(time, (Decimal(time) / 10,)) for time in other], 0, hold=False)
    assert sorted(closed) == sorted(RULES.close(at_once, EVER, 0)[1])


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 300)), max_size=10), st.integers(-200, 2_500))
def test_a_late_time_is_less_than_the_gap_from_any_closed_session(closed: list[tuple[int, int]], time: int) -> None:
    sessions = [Session(start, start + length, 1, 0, (), 0, is_closed=True) for start, length in closed]
    expected = any(one.start - GAP < time < one.end + GAP for one in sessions)
    assert RULES.late(sessions, [time]) == [expected]


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60)), max_size=40), st.booleans())
def test_every_message_is_in_one_session_whenever_sessions_close(steps: list[tuple[int, int]], ends: bool) -> None:
    sessions: list[Session] = []
    closed: list[Session] = []
    now = 0
    for time, passed in steps:
        now += passed
        sessions = RULES.add(sessions, [Event(time)], now, hold=False)
        sessions, more = RULES.close(sessions, time, now) if ends else RULES.pass_time(sessions, now)
        closed += more
    closed += RULES.close(sessions, EVER, now)[1]
    assert sum(one.messages for one in closed) == len(steps)
    # Late ones aside, sessions of one key never touch.
    on_time = sorted((one.start, one.end) for one in closed if not one.late)
    assert all(later[0] - earlier[1] >= GAP for earlier, later in pairwise(on_time))
