"""Spark's progress, in the broker's words."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.pipeline.query_report import refuse_invalid
from leveret.spark.progress import REQUESTS, LeaseOffset, counts_of, description_of, has_run, offset_of, report_of

OURS = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@baf384d"
LEASE = {"consumer": "c", "lease": 4, "queue": "q", "vhost": "/"}


@pytest.mark.parametrize(
    ("description", "end", "offset"),
    [
        (OURS, {"a": 5, "b": 7}, {"a": 5, "b": 7}),
        (OURS, LEASE, LeaseOffset("c", {"q": 4}, "/")),
        (OURS, {"consumer": "c", "leases": {"a": 1, "b": 2}, "vhost": "/"}, LeaseOffset("c", {"a": 1, "b": 2}, "/")),
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
        "sources": [{"description": "leveret: queue 'q'", "offset": {"q": 5}, "rows": 5, "lag": 7}],
        "duration_ms": {},
        "state_operators": [],
        "steps": [],
        "sink": "PythonTable",
        "state": "running",
        "at": "2031-05-01T12:00:00.000Z",
    }


def test_a_source_has_a_readable_description() -> None:
    assert description_of(LeaseOffset("c", {"q": 4}, "/")) == "leveret: queue 'q' as consumer 'c'"
    many = {f"q{number}": 0 for number in range(5)}
    assert description_of(many) == "leveret: queues 'q0', 'q1', 'q2' and 2 more"
    assert report_of(progress(), [7], [{"bytes_behind": 90}])["sources"][0]["bytes_behind"] == 90  # type: ignore[index]


def test_a_query_over_foreign_sources_has_no_lag() -> None:
    assert report_of(progress(), [None])["lag"] is None


@pytest.mark.parametrize("rate", [None, "Infinity", "NaN", float("inf"), float("nan")])
def test_a_rate_that_is_no_number_is_none(rate: object) -> None:
    assert report_of(progress(processedRowsPerSecond=rate), [None])["rows_per_second"] == 0.0


OPERATOR = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 40,
    "memoryUsedBytes": 2048,
    "numRowsDroppedByWatermark": 3,
    "customMetrics": {"loadedMapCacheHitCount": 1},
}


def test_state_durations_and_steps_are_taken_from_the_progress() -> None:
    event_time = {"watermark": "2031-05-01T11:59:50.000Z"}
    durations = {"triggerExecution": 500, "addBatch": 400, "odd": -1, "strange": "1"}
    report = report_of(progress(stateOperators=[OPERATOR], eventTime=event_time, durationMs=durations), [None])
    assert report["state_operators"] == [{"name": "stateStoreSave", "rows": 40, "memory_bytes": 2048, "late_rows": 3}]
    assert report["duration_ms"] == {"triggerExecution": 500, "addBatch": 400}
    assert report["steps"] == ["watermark 2031-05-01T11:59:50.000Z", "stateStoreSave"]


def test_a_report_stays_within_the_limits_of_the_broker() -> None:
    many = {f"part {number}" + "x" * 200: number for number in range(50)}
    report = report_of(progress(stateOperators=[OPERATOR] * 50, durationMs=many), [None]) | {"vhost": "/"}
    refuse_invalid(report | {"counts": counts_of(progress(observedMetrics={"leveret rows: out": many}))})


def test_rows_are_counted_by_the_names_of_the_pipeline() -> None:
    observed = {
        "leveret rows: out late": {"out": 7, "late": 2},
        "leveret rows: refused": {"refused": 1, "late": 3, "held": -2, "odd": None},
        "of the user": {"out": 100},
    }
    assert counts_of(progress(observedMetrics=observed)) == {
        "read": 5,
        "out": 7,
        "late": 5,
        "refused": 1,
        "held": -2,
    }
    assert counts_of(progress()) == {}


def test_duplicates_that_spark_dropped_and_rows_that_a_function_recorded_are_counted() -> None:
    dedupe = {"operatorName": "dedupe", "customMetrics": {"numDroppedDuplicateRows": 1}}
    observed = {"leveret rows: out": {"out": 4}}
    counts = counts_of(progress(observedMetrics=observed, stateOperators=[OPERATOR, dedupe]))
    assert counts == {"read": 5, "out": 4, "duplicates": 1}
    assert counts_of(progress(stateOperators=[dedupe])) == {}, "a query that does not count its rows"
    assert counts_of(progress(), {"out": 3, "refused": 2}) == {"read": 5, "out": 3, "refused": 2}
    assert counts_of(progress(observedMetrics=observed), {"out": 1}) == {"read": 5, "out": 5}


@pytest.mark.parametrize(
    ("start", "leased", "rows"),
    [
        ({"a": 1, "b": 4}, {"a": {"lease": 2, "messages": 3}, "b": {"lease": 4, "messages": 9}}, 3),
        ({"a": 1, "b": 3}, {"a": {"lease": 2, "messages": 3}, "b": {"lease": 4, "messages": 1}}, 4),
        ({"a": 1}, {"a": {"lease": 2, "messages": 7}}, 5),
        ({"a": 1, "b": 4}, {"a": {"lease": 1, "messages": 3}}, 5),  # of the batch before
        ({"a": 1, "b": 4}, {}, 5),
        ({"a": 0, "b": 4}, {"a": {"lease": 2, "messages": 3}}, 5),
    ],
)
def test_a_batch_has_no_more_rows_than_its_leases(start: dict[str, int], leased: dict[str, Any], rows: int) -> None:
    """Spark counts rows again if it computes a stage again, after it has lost an executor."""
    source = {
        "description": OURS,
        "startOffset": {"consumer": "c", "vhost": "/", "leases": start},
        "endOffset": {"consumer": "c", "vhost": "/", "leases": {"a": 2, "b": 4}},
        "latestOffset": {"ready": {}, "leased": leased},
        "numInputRows": 5,
    }
    assert counts_of(progress(sources=[source]), {}) == {"read": rows}
    assert counts_of(progress(sources=[source | {"latestOffset": None}]), {}) == {"read": 5}


def test_requests_of_a_pipeline_to_its_own_state_are_no_rows() -> None:
    requests = {"description": f"FileStreamSource[file:/checkpoint/{REQUESTS}]", "numInputRows": 3}
    changed = progress(numInputRows=8, sources=[*progress()["sources"], requests])
    assert counts_of(changed, {}) == {"read": 5}
    assert report_of(changed, [None, None])["rows"] == 5


def test_a_trigger_without_a_batch_is_no_batch() -> None:
    assert has_run(progress(durationMs={"addBatch": 3}))
    assert not has_run(progress(durationMs={"latestOffset": 3}))
    assert not has_run(progress())
