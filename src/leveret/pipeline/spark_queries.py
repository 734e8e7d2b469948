"""Progress reports of running Spark queries: rates, lag and state. Kept in memory; failed queries survive a restart.

A report replaces the previous one of its query; of earlier reports only the values of charts are kept for a while. A
query without a report for an hour is removed. The limit is a thousand queries, fifty per user: beyond it a user's new
query replaces its own least recently reported one; the first query of a user replaces the least recently reported of
all.

Running queries report again after a restart of the broker. A query that failed does not, and its error is what an
operator looks for: the reports of failed queries are in a small file of the data directory (api/saved_state.py).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from leveret.clock import Clock

MOST_QUERIES = 1_000
MOST_OF_A_USER = 50
SILENT = 3600.0  # seconds
RECENT = 60  # reports
OUTCOMES = ("out", "duplicates", "filtered", "refused", "late")  # names in the counts of ready-made pipelines
MOST_ROWS = 10**15  # of a batch: more is not plausible
FAILED = "failed"  # a state
VERSION = 1  # of the saved queries
LARGEST = 64 << 20  # bytes of the saved queries: as many reports as fit into memory, of the largest size

MOST = 1e18  # of a number: more is not plausible

Number = int | float | None
Report = dict[str, Any]


class Progress(NamedTuple):
    at: float  # wall time
    input_rows_per_second: Number
    rows_per_second: Number
    lag: Number
    batch_ms: Number
    state_rows: int | None


class SparkQuery(NamedTuple):
    user: str
    report: Report
    seen: float  # time of the broker's clock
    recent: deque[Progress]  # the last one at the end
    rows_total: int  # of all batches that were reported
    outcomes: Counter[str]  # rows of all runs that were reported, by what became of them


class SavedQuery(msgspec.Struct):
    user: str
    seen: float  # seconds since 1970
    report: Report


class SavedQueries(msgspec.Struct):
    version: int
    queries: list[SavedQuery]


class QuerySaver(Protocol):
    def save_soon(self) -> None:
        """A query has failed, or a failed one has begun again."""


class SparkQueries:
    """The most recently reported queries are last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], SparkQuery] = {}  # by user and id
        self.rows_total = 0  # also of queries that are forgotten
        self.outcomes: Counter[str] = Counter()  # the same
        self._is_changed = False  # the failed queries, since the last snapshot
        self.saver: QuerySaver | None = None  # if there is a data directory

    def note(self, user: str, report: Report) -> None:
        self._forget_silent()
        key = (user, str(report["id"]))
        before = self._known.pop(key, None)
        self._make_place(user)
        recent = deque[Progress](maxlen=RECENT) if before is None else before.recent
        recent.append(_progress(self._clock.wall(), report))
        rows = _new_rows(before, report)
        self.rows_total += rows
        total = rows if before is None else before.rows_total + rows
        new = _new_outcomes(before, report)
        self.outcomes += new
        outcomes = new if before is None else before.outcomes + new
        self._known[key] = SparkQuery(user, report, self._clock.now(), recent, total, outcomes)
        if has_failed(report) or (before is not None and has_failed(before.report)):
            self._is_changed = True
            if self.saver is not None:
                self.saver.save_soon()

    def known(self) -> list[SparkQuery]:
        self._forget_silent()
        return [*self._known.values()]

    def snapshot(self) -> Callable[[], bytes] | None:
        """A function that encodes the failed queries, for a thread; None if they are unchanged."""
        if not self._is_changed:
            return None
        self._is_changed = False
        ahead = self._clock.wall_ahead()
        failed = [each for each in self._known.values() if has_failed(each.report)]
        rows = [SavedQuery(each.user, each.seen + ahead, each.report) for each in failed]
        return lambda: msgspec.json.encode(SavedQueries(VERSION, rows))

    def restore(self, data: bytes) -> None:
        """The failed queries of the previous run. Raises ValueError."""
        try:
            saved = msgspec.json.decode(data, type=SavedQueries)
        except msgspec.MsgspecError as problem:
            raise ValueError(str(problem)) from problem
        if saved.version != VERSION:
            raise ValueError(f"version {saved.version} is of another Leveret")
        now, ahead = self._clock.now(), self._clock.wall_ahead()
        for row in saved.queries[-MOST_QUERIES:]:
            seen = min(row.seen - ahead, now)  # not in the future: the clock was set back
            if seen > now - SILENT and "id" in row.report:
                recent = deque([_progress(row.seen, row.report)], RECENT)
                found = SparkQuery(row.user, row.report, seen, recent, 0, Counter())
                self._known[row.user, str(row.report["id"])] = found

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


def has_failed(report: Report) -> bool:
    return report.get("state") == FAILED


def state_sum(report: Report, field: str) -> int | None:
    """The sum over the state operators of the query; None if it has none."""
    operators = report.get("state_operators")
    return sum(each.get(field, 0) for each in operators) if operators else None


def number_of(value: object) -> Number:
    """None also for infinite and implausibly large numbers."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if abs(value) < MOST else None


def _progress(at: float, report: Report) -> Progress:
    return Progress(
        at,
        number_of(report.get("input_rows_per_second")),
        number_of(report.get("rows_per_second")),
        number_of(report.get("lag")),
        number_of(report.get("batch_ms")),
        state_sum(report, "rows"),
    )


def _new_rows(before: SparkQuery | None, report: Report) -> int:
    """A change of state repeats the report of the last batch: its rows are counted once."""
    rows = report.get("rows")
    is_same = before is not None and _batch_of(before.report) == _batch_of(report)
    return 0 if is_same or type(rows) is not int or not 0 < rows < MOST_ROWS else rows


def _new_outcomes(before: SparkQuery | None, report: Report) -> Counter[str]:
    """Reports have the totals of a run of the query. Clients may use any names: only OUTCOMES are counted."""
    if before is None or before.report.get("run_id") != report.get("run_id"):
        return _outcomes_of(report)
    return _outcomes_of(report) - _outcomes_of(before.report)


def _outcomes_of(report: Report) -> Counter[str]:
    counts = report.get("counts") or {}
    return Counter({name: counts[name] for name in OUTCOMES if counts.get(name, 0) > 0})


def _batch_of(report: Report) -> tuple[object, object]:
    return report.get("run_id"), report.get("batch")
