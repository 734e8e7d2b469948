"""Spark's progress, in the broker's words."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.spark.progress import LeaseOffset, offset_of, report_of

OURS = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@baf384d"
LEASE = {"consumer": "c", "lease": 4, "queue": "q", "vhost": "/"}


@pytest.mark.parametrize(
    ("description", "end", "offset"),
    [
        (OURS, {"a": 5, "b": 7}, {"a": 5, "b": 7}),
        (OURS, LEASE, LeaseOffset("c", 4, "q", "/")),
        (OURS, {"consumer": 3, "lease": 4}, {"consumer": 3, "lease": 4}),
        (OURS, {"topic": {"0": 1}}, None),
        (OURS, None, None),
        (OURS, {}, None),
        ("FileStreamSource[file:/x]", {"logOffset": 0}, None),
        ("RateStreamV2", 17, None),
    ],
)
def test_offsets_of_our_sources_are_known(description: str, end: object, offset: object) -> None:
    assert offset_of({"description": description, "endOffset": end}) == offset


def progress(**changes: Any) -> dict[str, Any]:
    return {
        "id": "i",
        "runId": "r",
        "name": "n",
        "timestamp": "2031-05-01T12:00:00.000Z",
        "batchId": 3,
        "batchDuration": 512,
        "numInputRows": 5,
        "inputRowsPerSecond": 3.14,
        "processedRowsPerSecond": 9.76,
        "sources": [{"description": OURS, "endOffset": {"q": 5}, "numInputRows": 5}],
        "sink": {"description": "org.apache.spark.sql.execution.datasources.v2.python.PythonTable@42300d6a"},
    } | changes


def test_a_report_says_how_a_batch_went() -> None:
    report = report_of(progress(), [7])
    assert report == {
        "id": "i",
        "run_id": "r",
        "name": "n",
        "batch": 3,
        "rows": 5,
        "input_rows_per_second": 3.1,
        "rows_per_second": 9.8,
        "lag": 7,
        "batch_ms": 512,
        "sources": [
            {"description": "PythonMicroBatchStreamWithTriggerAvailableNow", "offset": {"q": 5}, "rows": 5, "lag": 7}
        ],
        "sink": "PythonTable",
        "state": "running",
        "at": "2031-05-01T12:00:00.000Z",
    }


def test_a_query_over_foreign_sources_has_no_lag() -> None:
    assert report_of(progress(), [None])["lag"] is None


@pytest.mark.parametrize("rate", [None, "Infinity", "NaN", float("inf"), float("nan")])
def test_a_rate_that_is_no_number_is_none(rate: object) -> None:
    assert report_of(progress(processedRowsPerSecond=rate), [None])["rows_per_second"] == 0.0
