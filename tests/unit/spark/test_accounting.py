"""The rows of a pipeline add up, from what Spark reports of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.spark.jobs.accounting import COUNTS, Account, Counts, checked
from leveret.spark.jobs.failure import JobFailed
from leveret.spark.jobs.query_batches import counts_of

OURS = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"

LEASE = {"consumer": "c", "lease": 1, "queue": "q", "vhost": "/"}


def batch(rows: int, start: Any = None, end: Any = None, **more: Any) -> dict[str, Any]:
    source = {"description": OURS, "numInputRows": rows, "startOffset": start, "endOffset": end}
    return {"sources": [source], **more}


def test_counts_are_added_and_shown() -> None:
    counts = Counts(read=5, out=3, refused=2) + Counts(read=2, late=1, duplicates=1)
    assert counts == Counts(read=7, out=3, duplicates=1, refused=2, late=1)
    assert counts.adds_up
    assert str(Account("a", counts)) == "rows of a: 7 in = 3 out + 1 duplicates + 0 filtered + 2 refused + 1 late"
    assert str(Counts(held=-2, out=2)).endswith("0 late + -2 held")
    assert Counts(held=-2, out=2).adds_up


@pytest.mark.parametrize(
    "counts", [Counts(read=2, out=1), Counts(read=1, out=2), Counts(out=1), Counts(read=1, held=2)]
)
def test_a_sum_that_does_not_add_up_fails_the_job(counts: Counts) -> None:
    with pytest.raises(JobFailed, match=f"rows of x do not add up: {counts.read} in = {counts.out} out"):
        checked("x", counts)
    with pytest.raises(JobFailed, match="Spark dropped 7 rows that were older than its watermark"):
        checked("x", counts, 7)


def test_terms_are_those_that_spark_observed_and_its_operators_dropped() -> None:
    operators = [
        {"customMetrics": {"numDroppedDuplicateRows": 3}, "numRowsDroppedByWatermark": 4},  # the latter is a loss
        {"numRowsTotal": 1},
    ]
    metrics = {
        f"{COUNTS}out refused": {"out": 5, "refused": 1},
        f"{COUNTS}filtered": {"filtered": 2},
        "own": {"out": 9},
    }
    found = counts_of(batch(15, observedMetrics=metrics, stateOperators=operators))
    assert found == Counts(read=15, out=5, duplicates=3, filtered=2, refused=1)
    assert not found.adds_up


@pytest.mark.parametrize(
    ("rows", "start", "end", "read"),
    [
        (8, {"a": 0, "b": 5}, {"a": 2, "b": 7}, 4),  # a stage was computed twice
        (4, {"a": 0, "b": 5}, {"a": 2, "b": 7}, 4),
        (3, {"a": 0, "b": 5}, {"a": 2, "b": 7}, 3),  # offsets that retention has removed
        (8, None, {"a": 2}, 8),
        (8, {"a": 0}, {"a": 2, "b": 6}, 8),  # a new partition
        (8, LEASE, LEASE | {"lease": 2}, 8),
    ],
)
def test_rows_that_were_read_are_bounded_by_the_offsets(rows: int, start: Any, end: Any, read: int) -> None:
    assert counts_of(batch(rows, start, end)).read == read
