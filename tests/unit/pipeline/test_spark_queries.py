"""Reports of queries: the last of each, not for ever, and not without end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.clock import FrozenClock
from leveret.pipeline import spark_queries
from leveret.pipeline.spark_queries import SparkQueries


def ids(kept: SparkQueries) -> list[object]:
    return [query.report["id"] for query in kept.known()]


def test_a_report_replaces_the_last_one_of_its_query() -> None:
    kept = SparkQueries(FrozenClock())
    kept.note("ann", {"id": "q", "batch": 1})
    kept.note("ann", {"id": "other", "batch": 7})
    kept.note("ann", {"id": "q", "batch": 2})
    assert [(query.user, query.report) for query in kept.known()] == [
        ("ann", {"id": "other", "batch": 7}),
        ("ann", {"id": "q", "batch": 2}),
    ]


def test_of_earlier_reports_rate_and_lag_are_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_queries, "RECENT", 2)
    clock = FrozenClock()
    kept = SparkQueries(clock)
    for lag in (9, 5, 1):
        kept.note("ann", {"id": "q", "rows_per_second": lag * 10.0, "lag": lag})
        clock.move_to(clock.now() + 5)
    (query,) = kept.known()
    assert [(one.rows_per_second, one.lag) for one in query.recent] == [(50.0, 5), (10.0, 1)]
    assert query.recent[1].at - query.recent[0].at == 5


def test_of_earlier_reports_numbers_only_are_kept() -> None:
    """A report has up to 64 KiB, and sixty of each query are remembered."""
    names = ("input_rows_per_second", "rows_per_second", "lag", "batch_ms")
    kept = SparkQueries(FrozenClock())
    for value in ("x" * 60_000, [[]] * 1_000, {"a": 1}, 10**4_000, -1e300, float("inf"), True, 7, 0.5):
        kept.note("ann", {"id": "q", **dict.fromkeys(names, value)})
    (query,) = kept.known()
    for name in names:
        assert [getattr(one, name) for one in query.recent] == [None] * 7 + [7, 0.5]


def test_the_rows_of_each_batch_are_counted_once() -> None:
    kept = SparkQueries(FrozenClock())
    batches = [
        ("r1", None, None),
        ("r1", 0, 5),
        ("r1", 0, 5),
        ("r1", 1, 7),
        ("r2", 1, 7),
        ("r2", 2, "x"),
        ("r2", 3, -1),
    ]
    for run, batch, rows in batches:
        kept.note("ann", {"id": "q", "run_id": run, "batch": batch, "rows": rows})
    kept.note("ann", {"id": "other", "run_id": "r", "batch": 0, "rows": 100})
    assert [query.rows_total for query in kept.known()] == [19, 100]
    assert kept.rows_total == 119


def test_outcomes_are_added_over_the_runs_of_a_query() -> None:
    kept = SparkQueries(FrozenClock())
    runs = [
        ("r1", None),
        ("r1", {"read": 5, "out": 4, "refused": 1}),
        ("r1", {"read": 5, "out": 4, "refused": 1}),
        ("r1", {"read": 8, "out": 6, "refused": 2, "held": -3, "of the user": 9}),
        ("r2", None),
        ("r2", {"read": 2, "out": 0, "late": 2}),
    ]
    for run, counts in runs:
        kept.note("ann", {"id": "q", "run_id": run, "counts": counts})
    kept.note("ann", {"id": "other", "counts": {"out": 100}})
    assert [query.outcomes for query in kept.known()] == [{"out": 6, "refused": 2, "late": 2}, {"out": 100}]
    assert kept.outcomes == {"out": 106, "refused": 2, "late": 2}


def test_the_total_of_all_queries_does_not_decrease_when_one_is_forgotten() -> None:
    clock = FrozenClock()
    kept = SparkQueries(clock)
    kept.note("ann", {"id": "q", "batch": 0, "rows": 5})
    clock.move_to(clock.now() + 3601)
    assert ids(kept) == []
    assert kept.rows_total == 5


def test_two_users_do_not_overwrite_each_other() -> None:
    kept = SparkQueries(FrozenClock())
    kept.note("ann", {"id": "q"})
    kept.note("bob", {"id": "q"})
    assert [query.user for query in kept.known()] == ["ann", "bob"]


def test_who_is_silent_for_an_hour_is_forgotten() -> None:
    clock = FrozenClock()
    kept = SparkQueries(clock)
    kept.note("ann", {"id": "old"})
    clock.move_to(clock.now() + 1800)
    kept.note("ann", {"id": "new"})
    clock.move_to(clock.now() + 1801)
    assert ids(kept) == ["new"]
    clock.move_to(clock.now() + 1800)
    assert ids(kept) == []


def test_the_one_that_was_silent_for_longest_makes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_queries, "MOST_QUERIES", 3)
    kept = SparkQueries(FrozenClock())
    for name in ("a", "b", "c", "a", "d"):
        kept.note("ann", {"id": name})
    assert ids(kept) == ["c", "a", "d"]


def test_a_user_who_tells_of_too_many_loses_its_own_oldest_and_nobody_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_queries, "MOST_OF_A_USER", 2)
    kept = SparkQueries(FrozenClock())
    kept.note("bob", {"id": "first"})
    for name in ("a", "b", "a", "c"):
        kept.note("ann", {"id": name})
    assert ids(kept) == ["first", "a", "c"]


def test_who_fills_the_place_of_all_makes_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_queries, "MOST_QUERIES", 3)
    kept = SparkQueries(FrozenClock())
    kept.note("bob", {"id": "first"})
    for name in ("a", "b", "c"):
        kept.note("ann", {"id": name})
    assert ids(kept) == ["first", "b", "c"]


def test_failed_queries_are_saved_when_one_fails_or_begins_again() -> None:
    clock = FrozenClock()
    kept = SparkQueries(clock)
    asked: list[str] = []
    kept.saver = Saver(lambda: asked.append("save"))
    kept.note("ann", {"id": "q", "state": "running"})
    assert (asked, kept.snapshot()) == ([], None)
    kept.note("ann", {"id": "q", "state": "failed", "error": "why", "batch": 3, "rows": 5})
    encode = kept.snapshot()
    assert encode is not None
    assert kept.snapshot() is None
    kept.note("ann", {"id": "q", "state": "running", "batch": 4, "rows": 5})
    assert asked == ["save", "save"]

    after = SparkQueries(clock)
    after.restore(encode())
    [query] = after.known()
    assert (query.user, query.report["error"], after.rows_total) == ("ann", "why", 0)
    again = kept.snapshot()
    assert again is not None
    empty = SparkQueries(clock)
    empty.restore(again())
    assert empty.known() == []
    for damaged in (b"", b"[]", b'{"version": 2, "queries": []}', b'{"version": 1, "queries": [{"user": 1}]}'):
        with pytest.raises(ValueError, match=r"\w"):
            empty.restore(damaged)


class Saver:
    def __init__(self, save: Callable[[], None]) -> None:
        self.save_soon = save
