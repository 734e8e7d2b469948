"""Reports of queries: the last of each, not for ever, and not without end."""

from __future__ import annotations

import pytest

from leveret.clock import FrozenClock
from leveret.pipeline import queries
from leveret.pipeline.queries import Queries


def ids(kept: Queries) -> list[object]:
    return [report["id"] for report in kept.list()]


def test_a_report_replaces_the_last_one_of_its_query() -> None:
    kept = Queries(FrozenClock())
    kept.note("ann", {"id": "q", "batch": 1})
    kept.note("ann", {"id": "other", "batch": 7})
    kept.note("ann", {"id": "q", "batch": 2})
    assert kept.list() == [
        {"id": "other", "batch": 7, "user": "ann"},
        {"id": "q", "batch": 2, "user": "ann"},
    ]


def test_two_users_do_not_overwrite_each_other() -> None:
    kept = Queries(FrozenClock())
    kept.note("ann", {"id": "q"})
    kept.note("bob", {"id": "q"})
    assert [report["user"] for report in kept.list()] == ["ann", "bob"]


def test_who_is_silent_for_an_hour_is_forgotten() -> None:
    clock = FrozenClock()
    kept = Queries(clock)
    kept.note("ann", {"id": "old"})
    clock.move_to(clock.now() + 1800)
    kept.note("ann", {"id": "new"})
    clock.move_to(clock.now() + 1801)
    assert ids(kept) == ["new"]
    clock.move_to(clock.now() + 1800)
    assert ids(kept) == []


def test_the_one_that_was_silent_for_longest_makes_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_QUERIES", 3)
    kept = Queries(FrozenClock())
    for name in ("a", "b", "c", "a", "d"):
        kept.note("ann", {"id": name})
    assert ids(kept) == ["c", "a", "d"]
