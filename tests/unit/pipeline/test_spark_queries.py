"""Reports of queries: the last of each, not for ever, and not without end."""

from __future__ import annotations

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
