"""Spark queries in JSON: their sources, rates and lag.

A report comes from a client, so each value is checked: anything that is neither a number nor text becomes null. A query
belongs to the virtual hosts that it names, as far as its user has access to them. It is visible to users who can see
one of those virtual hosts, and to its own user; sources in other virtual hosts are left out. Its error, its steps and
the address of Spark's UI may name objects of any of its virtual hosts: they are visible to users who can see all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request

from leveret.broker.access import may_enter
from leveret.broker.broker import Broker
from leveret.http.login import broker_of, user_of
from leveret.http.roles import MONITORING, has_role, may_see
from leveret.http.rows import Row
from leveret.pipeline.spark_queries import Report, SparkQuery, number_of, state_sum

ENDED = ("stopped", "failed")
SILENT_AFTER = 120.0  # seconds without a report; more if the query's batches take longer
SILENT_BATCHES = 3
OF_ALL_VHOSTS = ("error", "steps", "spark_ui")


def vhosts_of(broker: Broker, query: SparkQuery) -> list[str]:
    """The virtual hosts of the query, its own first."""
    named = [_text(query.report.get("vhost")), *(read.get("vhost") for read in _reads(query.report))]
    return [
        name
        for name in dict.fromkeys(named)
        if name is not None and name in broker.vhosts and may_enter(broker.permissions, query.user, name)
    ]


def is_shown(request: Request, query: SparkQuery) -> bool:
    return _sees_all(request, query) or any(may_see(request, vhost) for vhost in vhosts_of(broker_of(request), query))


def _sees_all(request: Request, query: SparkQuery) -> bool:
    user = user_of(request)
    return user.name == query.user or has_role(user, MONITORING)


def _sees_each(request: Request, query: SparkQuery) -> bool:
    return all(may_see(request, vhost) for vhost in vhosts_of(broker_of(request), query))


def shown_report(request: Request, query: SparkQuery) -> Report:
    """The report without details of virtual hosts that the user may not see."""
    report = query.report
    if _sees_all(request, query):
        return report
    home = _text(report.get("vhost"))
    sources = [
        source if _is_in_sight(request, source, home) else {**source, "offset": None} for source in _sources(report)
    ]
    hidden = {} if _sees_each(request, query) else {name: None for name in OF_ALL_VHOSTS if name in report}
    vhost = home if home is not None and may_see(request, home) else None
    return {**report, "vhost": vhost, "sources": sources, **hidden}


def _is_in_sight(request: Request, source: dict[str, Any], home: str | None) -> bool:
    """A lease names its virtual host; streams are in the virtual host of the query."""
    vhost = next((read["vhost"] for read in _reads_of(source) if "vhost" in read), home)
    return vhost is not None and may_see(request, vhost)


# ---- rows


def query_row(request: Request, query: SparkQuery) -> Row:
    broker, report = broker_of(request), shown_report(request, query)
    silent = max(broker.clock.now() - query.seen, 0.0)
    vhosts = [vhost for vhost in vhosts_of(broker, query) if may_see(request, vhost)]
    return {
        "id": report["id"],
        "name": name_of(query),
        "run_id": _text(report.get("run_id")),
        "vhost": next(iter(vhosts), None),
        "user": query.user,
        "state": state_of(query, silent),
        "error": report.get("error"),
        "batch": number_of(report.get("batch")),
        "batch_ms": number_of(report.get("batch_ms")),
        "rows": number_of(report.get("rows")),
        "rows_total": query.rows_total,
        "counts": report.get("counts"),
        "state_rows": state_sum(report, "rows"),
        "input_rows_per_second": number_of(report.get("input_rows_per_second")),
        "rows_per_second": number_of(report.get("rows_per_second")),
        "lag": number_of(report.get("lag")),
        "sources": [_source_row(source) for source in _sources(report)],
        "sink": _text(report.get("sink")),
        "at": _text(report.get("at")),
        "last_seen": broker.clock.wall() - silent,
        "silent_for": silent,
        "recent": [{"at": one.at, "rows_per_second": one.rows_per_second, "lag": one.lag} for one in query.recent],
    }


def query_detail(request: Request, query: SparkQuery) -> Row:
    """The row with everything that is drawn on the page of one query."""
    report = shown_report(request, query)
    return {
        **query_row(request, query),
        "steps": report.get("steps") or [],
        "duration_ms": report.get("duration_ms") or {},
        "state_operators": report.get("state_operators") or [],
        "state_memory_bytes": state_sum(report, "memory_bytes"),
        "spark_ui": report.get("spark_ui"),
        "recent": [one._asdict() for one in query.recent],
    }


def name_of(query: SparkQuery) -> str:
    """Names are optional in Spark."""
    return _text(query.report.get("name")) or str(query.report["id"])


def state_of(query: SparkQuery, silent: float) -> str:
    """``silent``: seconds since the last report."""
    state = _text(query.report.get("state")) or "unknown"
    batch = (number_of(query.report.get("batch_ms")) or 0) / 1000
    if state not in ENDED and silent > max(SILENT_AFTER, SILENT_BATCHES * batch):
        return "silent"
    return state


def _source_row(source: dict[str, Any]) -> Row:
    return {
        "description": _text(source.get("description")),
        "rows": number_of(source.get("rows")),
        "lag": number_of(source.get("lag")),
        "reads": [*_reads_of(source)],
    }


def _sources(report: Report) -> list[dict[str, Any]]:
    sources = report.get("sources")
    return [each for each in sources if isinstance(each, dict)] if isinstance(sources, list) else []


def _reads(report: Report) -> Iterator[Row]:
    for source in _sources(report):
        yield from _reads_of(source)


def _reads_of(source: dict[str, Any]) -> Iterator[Row]:
    """The positions of a source: offsets in streams, or leases of classic queues (spark/progress.py)."""
    offset = source.get("offset")
    match offset:
        case {"consumer": str(consumer), "lease": int(lease), "queue": str(queue), "vhost": str(vhost)}:
            yield {"queue": queue, "vhost": vhost, "consumer": consumer, "lease": lease}
        case {"consumer": str(consumer), "leases": dict(leases), "vhost": str(vhost)}:
            for queue, lease in leases.items():
                if isinstance(lease, int) and not isinstance(lease, bool):
                    yield {"queue": queue, "vhost": vhost, "consumer": consumer, "lease": lease}
        case dict():
            for queue, at in offset.items():
                if isinstance(at, int) and not isinstance(at, bool):
                    yield {"queue": queue, "offset": at}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
