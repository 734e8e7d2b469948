"""Progress reports of running Spark queries: rates, lag and state. Kept in memory.

A report replaces the previous one of its query; of earlier reports only rate and lag are kept for a while. A query
without a report for an hour is removed. The limit is a thousand queries, fifty per user: beyond it a user's new query
replaces its own least recently reported one; the first query of a user replaces the least recently reported of all.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from leveret.clock import Clock

MOST_QUERIES = 1_000
MOST_OF_A_USER = 50
SILENT = 3600.0  # seconds
RECENT = 60  # reports

Report = dict[str, Any]


class Progress(NamedTuple):
    at: float  # wall time
    rows_per_second: object
    lag: object


class SparkQuery(NamedTuple):
    user: str
    report: Report
    seen: float  # time of the broker's clock
    recent: deque[Progress]  # the last one at the end


class SparkQueries:
    """The most recently reported queries are last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], SparkQuery] = {}  # by user and id

    def note(self, user: str, report: Report) -> None:
        self._forget_silent()
        key = (user, str(report["id"]))
        before = self._known.pop(key, None)
        self._make_place(user)
        recent = deque[Progress](maxlen=RECENT) if before is None else before.recent
        recent.append(Progress(self._clock.wall(), report.get("rows_per_second"), report.get("lag")))
        self._known[key] = SparkQuery(user, report, self._clock.now(), recent)

    def known(self) -> list[SparkQuery]:
        self._forget_silent()
        return [*self._known.values()]

    def _make_place(self, user: str) -> None:
        own = [key for key in self._known if key[0] == user]
        if len(own) >= MOST_OF_A_USER or len(self._known) >= MOST_QUERIES:
            del self._known[own[0] if own else next(iter(self._known))]

    def _forget_silent(self) -> None:
        before = self._clock.now() - SILENT
        while self._known:
            oldest = next(iter(self._known))
            if self._known[oldest].seen > before:
                return
            del self._known[oldest]
