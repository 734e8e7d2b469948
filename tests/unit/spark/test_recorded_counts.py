"""Counts of functions of foreachBatch, until the listener has read them."""

from __future__ import annotations

import pytest

from leveret.spark import recorded_counts
from leveret.spark.recorded_counts import RecordedCounts


def test_counts_are_found_by_query_and_batch() -> None:
    recorded = RecordedCounts()
    recorded.note("a", 0, {"out": 1})
    recorded.note("a", 0, {"out": 2})  # the batch was repeated
    recorded.note("b", 0, {"out": 3})
    assert [recorded.of("a", 0), recorded.of("b", 0), recorded.of("a", 1)] == [{"out": 2}, {"out": 3}, None]


def test_the_oldest_counts_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_counts, "MOST_BATCHES", 2)
    recorded = RecordedCounts()
    for batch in (0, 1, 0, 2):
        recorded.note("a", batch, {"out": batch})
    assert [recorded.of("a", batch) for batch in range(3)] == [{"out": 0}, None, {"out": 2}]
