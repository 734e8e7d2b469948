"""Converts Spark's progress events to the reports of the broker's API.

The offsets of the two readers differ: that of leases has a consumer and a virtual host, that of streams maps
queues to numbers. Sources of other formats are reported without lag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leveret.spark.lease_offsets import leases_in

PYTHON_SOURCE = "PythonMicroBatchStream"
MOST_NAMED = 3  # queues in a description
# The folder with requests of a pipeline to its own state: its rows are no messages.
REQUESTS = "leveret-requests"
COUNTS = "leveret rows: "  # start of the names of observations that count the rows of a pipeline by what became of them
DROPPED = "numDroppedDuplicateRows"  # in the metrics of Spark's operator that removes duplicates
# Limits of the broker (pipeline/query_report.py).
MOST_DURATIONS = MOST_OPERATORS = MOST_STEPS = 20
MOST_COUNTS = 10
LONGEST_NAME = 100

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseOffset:
    consumer: str
    leases: Mapping[str, int]  # by queue
    vhost: str


StreamOffset = dict[str, int]


def offset_of(source: Mapping[str, Any]) -> LeaseOffset | StreamOffset | None:
    """The end offset of the batch; None for sources of other formats."""
    if PYTHON_SOURCE not in str(source.get("description")):
        return None
    end = source.get("endOffset")
    if not isinstance(end, dict):
        return None
    leases = leases_in(end)
    if leases is not None:
        return LeaseOffset(end["consumer"], leases, end["vhost"])
    return end if end and all(type(offset) is int for offset in end.values()) else None


def description_of(offset: LeaseOffset | StreamOffset) -> str:
    """A readable name of a source: Spark's own is the name of a class and an address."""
    if isinstance(offset, LeaseOffset):
        return f"leveret: {_listed(list(offset.leases))} as consumer '{offset.consumer}'"
    return f"leveret: {_listed(list(offset))}"


def _listed(queues: list[str]) -> str:
    shown = ", ".join(f"'{queue}'" for queue in queues[:MOST_NAMED])
    more = f" and {len(queues) - MOST_NAMED} more" if len(queues) > MOST_NAMED else ""
    return f"{'queue' if len(queues) == 1 else 'queues'} {shown}{more}"


def report_of(
    progress: Mapping[str, Any], lags: list[int | None], behind: Sequence[Mapping[str, object]] = ()
) -> dict[str, object]:
    """The report of a batch; `lags` and `behind` (more numbers of each source) in the order of its sources."""
    known = [lag for lag in lags if lag is not None]
    sources = progress.get("sources", [])
    return {
        "id": progress["id"],
        "name": progress.get("name"),
        "run_id": progress["runId"],
        "batch": progress["batchId"],
        "rows": sum(map(rows_read, sources)),
        "input_rows_per_second": _rate(progress.get("inputRowsPerSecond")),
        "rows_per_second": _rate(progress.get("processedRowsPerSecond")),
        "lag": sum(known) if known else None,
        "batch_ms": progress.get("batchDuration", 0),
        "duration_ms": dict(list(_whole_numbers(progress.get("durationMs")).items())[:MOST_DURATIONS]),
        "state_operators": [_operator_of(each) for each in _operators(progress)],
        "steps": _steps_of(progress),
        "sources": [
            _source_of(source, lag) | dict(more)
            for source, lag, more in zip(sources, lags, behind or [{}] * len(lags), strict=True)
        ],
        "sink": _short(progress.get("sink", {}).get("description", "")),
        "state": "running",
        "at": progress["timestamp"],
    }


def has_run(progress: Json) -> bool:
    """Whether this is the progress of a batch: triggers that found nothing to do are none."""
    return "addBatch" in (progress.get("durationMs") or {})


def counts_of(progress: Json, recorded: Json | None = None) -> dict[str, int]:
    """The rows of the batch by what became of them, for a report; empty if the query does not count its rows.

    ``recorded``: what a function of ``foreachBatch`` has counted (recorded_counts.py).
    """
    if recorded is None and not _observed(progress):
        return {}
    counts: dict[str, int] = {}
    for term, number in (pair for terms in (rows_by_term(progress), recorded or {}) for pair in terms.items()):
        counts[term[:LONGEST_NAME]] = counts.get(term[:LONGEST_NAME], 0) + number
    return dict(list(counts.items())[:MOST_COUNTS])


def rows_by_term(progress: Json) -> dict[str, int]:
    """The rows that were read, and the terms of which Spark's progress has a number; negative for rows that left the
    state of the query.

    Spark's operator counts the duplicates that it drops itself. Rows that Spark drops because of a watermark are no
    term: no pipeline may lose rows that way.
    """
    operators = [operator.get("customMetrics") or {} for operator in progress.get("stateOperators") or []]
    dropped = [{"duplicates": metrics[DROPPED]} for metrics in operators if DROPPED in metrics]
    counts = {"read": sum(map(rows_read, progress.get("sources", [])))}
    for term, number in (pair for terms in [*_observed(progress), *dropped] for pair in terms.items()):
        if type(number) is int:
            counts[term] = counts.get(term, 0) + number
    return counts


def _observed(progress: Json) -> list[Json]:
    return [terms for name, terms in (progress.get("observedMetrics") or {}).items() if name.startswith(COUNTS)]


def rows_read(source: Json) -> int:
    """The rows of a scan. A stage that Spark computed again is counted again: offsets of streams and sizes of leases
    show how many there can be at most."""
    if str(source.get("description")).endswith(f"{REQUESTS}]"):
        return 0
    rows = int(source.get("numInputRows", 0))
    start, end = source.get("startOffset"), offset_of(source)
    if isinstance(end, dict) and isinstance(start, dict) and start.keys() == end.keys():
        return min(rows, sum(end[queue] - int(start[queue]) for queue in end))
    if isinstance(end, LeaseOffset) and isinstance(start, dict):
        leased = _leased(source, leases_in(start) or {}, end.leases)
        return rows if leased is None else min(rows, leased)
    return rows


def _leased(source: Json, start: Mapping[str, int], end: Mapping[str, int]) -> int | None:
    """The messages in the leases of a batch; None if they are not known, of one that is repeated after a restart."""
    latest = source.get("latestOffset")
    known = latest.get("leased", {}) if isinstance(latest, dict) else {}
    messages = 0
    for queue, lease in end.items():
        one = known.get(queue, {})
        if lease == start.get(queue, lease):  # without a lease in this batch, or seen for the first time
            continue
        if lease != start[queue] + 1 or one.get("lease") != lease:
            return None
        messages += int(one["messages"])
    return messages


def _operators(progress: Json) -> list[Json]:
    return (progress.get("stateOperators") or [])[:MOST_OPERATORS]


def _operator_of(operator: Json) -> dict[str, object]:
    numbers = _whole_numbers(operator)
    return {
        "name": str(operator.get("operatorName") or "state")[:LONGEST_NAME],
        "rows": numbers.get("numRowsTotal", 0),
        "memory_bytes": numbers.get("memoryUsedBytes", 0),
        "late_rows": numbers.get("numRowsDroppedByWatermark", 0),
    }


def _steps_of(progress: Json) -> list[str]:
    """What Spark reports of the steps between sources and sink: the watermark, and the operators that keep state."""
    watermark = (progress.get("eventTime") or {}).get("watermark")
    named = [str(_operator_of(each)["name"]) for each in _operators(progress)]
    return [*([f"watermark {watermark}"[:LONGEST_NAME]] if watermark else []), *named][:MOST_STEPS]


def _whole_numbers(values: Json | None) -> dict[str, int]:
    return {
        name[:LONGEST_NAME]: value for name, value in (values or {}).items() if type(value) is int and 0 <= value < 1e15
    }


def _source_of(source: Mapping[str, Any], lag: int | None) -> dict[str, object]:
    offset = offset_of(source)
    return {
        "description": _short(source.get("description", "")) if offset is None else description_of(offset),
        "offset": source.get("endOffset"),
        "rows": source.get("numInputRows", 0),
        "lag": lag,
    }


def _short(description: str) -> str:
    """`PythonTable` for `org.apache.spark...PythonTable@42300d6a`."""
    return description.split("@")[0].rpartition(".")[2] if description.startswith("org.") else description


def _rate(value: object) -> float:
    # Spark writes "Infinity" and "NaN" for batches that took no time.
    return round(float(value), 1) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0
