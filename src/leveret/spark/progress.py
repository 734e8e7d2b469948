"""Converts Spark's progress events to the reports of the broker's API.

The offsets of the two readers differ: that of a lease has a consumer, a queue and a virtual host, that of streams maps
queues to numbers. Sources of other formats are reported without lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PYTHON_SOURCE = "PythonMicroBatchStream"


@dataclass(frozen=True, slots=True)
class LeaseOffset:
    consumer: str
    lease: int
    queue: str
    vhost: str


StreamOffset = dict[str, int]


def offset_of(source: Mapping[str, Any]) -> LeaseOffset | StreamOffset | None:
    """The end offset of the batch; None for sources of other formats."""
    if PYTHON_SOURCE not in str(source.get("description")):
        return None
    end = source.get("endOffset")
    if not isinstance(end, dict):
        return None
    match end:
        case {"consumer": str(consumer), "lease": int(lease), "queue": str(queue), "vhost": str(vhost)}:
            return LeaseOffset(consumer, lease, queue, vhost)
    return end if end and all(type(offset) is int for offset in end.values()) else None


def report_of(progress: Mapping[str, Any], lags: list[int | None]) -> dict[str, object]:
    """The report of a batch; `lags` in the order of its sources."""
    known = [lag for lag in lags if lag is not None]
    sources = progress.get("sources", [])
    return {
        "id": progress["id"],
        "name": progress.get("name"),
        "run_id": progress["runId"],
        "batch": progress["batchId"],
        "rows": progress.get("numInputRows", 0),
        "input_rows_per_second": _rate(progress.get("inputRowsPerSecond")),
        "rows_per_second": _rate(progress.get("processedRowsPerSecond")),
        "lag": sum(known) if known else None,
        "batch_ms": progress.get("batchDuration", 0),
        "sources": [_source_of(source, lag) for source, lag in zip(sources, lags, strict=True)],
        "sink": _short(progress.get("sink", {}).get("description", "")),
        "state": "running",
        "at": progress["timestamp"],
    }


def _source_of(source: Mapping[str, Any], lag: int | None) -> dict[str, object]:
    return {
        "description": _short(source.get("description", "")),
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
