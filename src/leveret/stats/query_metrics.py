"""Metrics of Spark queries, from their last reports (pipeline/spark_queries.py).

A value that the query does not report has no sample. The rates of a query that has ended or sends no reports are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.pipeline.spark_queries import OUTCOMES, SparkQueries, SparkQuery, number_of, state_sum
from leveret.pipeline.spark_query_view import name_of, state_of, vhosts_of
from leveret.stats.metric_families import Family, Labels, ObjectFamily, Value, family_of, object_families

GROUP = "spark_query_metrics"
OUTCOME_ROWS = "spark_query_outcome_rows_total"
OTHER_QUERIES: Labels = (("vhost", ""), ("user", ""), ("query", ""), ("query_id", ""))
OTHER_OUTCOMES: Labels = (*OTHER_QUERIES, ("outcome", ""))
LONGEST_LABEL = 255
RUNNING = ("started", "running", "idle")
STATES = (*RUNNING, "silent", "stopped", "failed", "unknown")

Vhosts = frozenset[str] | None


class Measured(NamedTuple):
    query: SparkQuery
    state: str


def _field(name: str) -> Callable[[Measured], Value | None]:
    return lambda measured: number_of(measured.query.report.get(name))


def _rate(name: str) -> Callable[[Measured], Value | None]:
    read = _field(name)
    return lambda measured: read(measured) if measured.state in RUNNING else 0


def _batch_seconds(measured: Measured) -> Value | None:
    milliseconds = number_of(measured.query.report.get("batch_ms"))
    return None if milliseconds is None else milliseconds / 1000


def _held(measured: Measured) -> Value | None:
    return number_of((measured.query.report.get("counts") or {}).get("held"))


OF_SPARK_QUERIES: list[ObjectFamily[Measured]] = object_families(
    GROUP,
    {
        "spark_query_running": lambda measured: int(measured.state in RUNNING),
        "spark_query_failed": lambda measured: int(measured.state == "failed"),
        "spark_query_rows_total": lambda measured: measured.query.rows_total,
        "spark_query_input_rows_per_second": _rate("input_rows_per_second"),
        "spark_query_rows_per_second": _rate("rows_per_second"),
        "spark_query_lag": _field("lag"),
        "spark_query_batch_duration_seconds": _batch_seconds,
        "spark_query_state_rows": lambda measured: state_sum(measured.query.report, "rows"),
        "spark_query_state_memory_bytes": lambda measured: state_sum(measured.query.report, "memory_bytes"),
        "spark_query_late_rows": lambda measured: state_sum(measured.query.report, "late_rows"),
        "spark_query_held_rows": _held,
        "spark_query_last_progress_timestamp_seconds": lambda measured: round(measured.query.recent[-1].at, 3),
    },
)
OF_OUTCOMES: list[ObjectFamily[int]] = object_families(GROUP, {OUTCOME_ROWS: lambda rows: rows})
LARGEST_ONLY = ("spark_query_batch_duration_seconds", "spark_query_last_progress_timestamp_seconds")
SEPARATE = ("spark_query_running", "spark_query_failed", "spark_query_rows_total")  # not sums over the known queries


def measured_queries(broker: Broker, queries: SparkQueries, vhosts: Vhosts) -> Iterator[tuple[Measured, Labels]]:
    for query in queries.known():
        vhost = next(iter(vhosts_of(broker, query)), "")
        if vhosts is None or vhost in vhosts:
            name, id_ = name_of(query)[:LONGEST_LABEL], str(query.report["id"])
            state = state_of(query, broker.clock.now() - query.seen)
            labels = (("vhost", vhost), ("user", query.user), ("query", name), ("query_id", id_))
            yield Measured(query, state), labels


def outcome_rows(broker: Broker, queries: SparkQueries, vhosts: Vhosts) -> Iterator[tuple[int, Labels]]:
    """The rows of each query by what became of them, if it counts them."""
    for measured, labels in measured_queries(broker, queries, vhosts):
        for outcome in OUTCOMES:
            if outcome in measured.query.outcomes:
                yield measured.query.outcomes[outcome], (*labels, ("outcome", outcome))


def query_totals(broker: Broker, queries: SparkQueries) -> Iterator[tuple[Family, list[tuple[Labels, Value]]]]:
    """Numbers of queries by state, and sums over all queries; of durations and times the largest."""
    known = [measured for measured, _ in measured_queries(broker, queries, None)]
    states = [measured.state if measured.state in STATES else "unknown" for measured in known]
    yield family_of("spark_queries"), [((("state", state),), states.count(state)) for state in STATES]
    yield family_of("spark_query_rows_total"), [((), queries.rows_total)]
    yield family_of(OUTCOME_ROWS), [((("outcome", outcome),), queries.outcomes[outcome]) for outcome in OUTCOMES]
    for each in OF_SPARK_QUERIES:
        name = each.family.name
        if name not in SEPARATE:
            values = [value for measured in known if (value := each.read(measured)) is not None]
            if values or name not in LARGEST_ONLY:
                yield each.family, [((), max(values) if name in LARGEST_ONLY else sum(values))]
