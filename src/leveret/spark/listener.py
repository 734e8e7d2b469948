"""Reports the progress and the errors of queries to the broker, and commits the leases of finished batches.

Spark sends a progress event after a batch is in its checkpoint, so the lease in the event is finished. The source also
commits, when the next batch is requested; the listener covers queries that are stopped before that.

An unreachable broker must not affect a query: failures are logged, once until a report succeeds again. The requests are
made on Spark's listener thread, so their timeout is short.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from leveret.errors import LeveretError
from leveret.http_client import BROKEN
from leveret.spark.broker_client import BrokerClient
from leveret.spark.failure_text import failure_text
from leveret.spark.lag import behind
from leveret.spark.lease_reader import commit_leases
from leveret.spark.options import connection_options
from leveret.spark.progress import LeaseOffset, StreamOffset, counts_of, has_run, offset_of, report_of
from leveret.spark.recorded_counts import RECORDED

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)
SECONDS = 5
NO_RATES: dict[str, object] = {"input_rows_per_second": 0.0, "rows_per_second": 0.0}


class LeveretListener(StreamingQueryListener):
    """`spark.streams.addListener(LeveretListener({"endpoint": ...}))`; takes the connection options of the source.

    `described` has fields of the report that Spark does not provide, such as `steps` and `sink`, by the query's name.
    """

    def __init__(
        self, options: Mapping[str, str] | None = None, described: Mapping[str, Mapping[str, object]] | None = None
    ) -> None:
        access = connection_options(options or {})
        self._access = replace(access, timeout_seconds=SECONDS, retry_seconds=0)
        self._has_failed = False
        self._described = described or {}
        self._last: dict[str, dict[str, object]] = {}
        self._counts: dict[str, dict[str, int]] = {}  # totals of this run, by the query's id

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._counts.pop(str(event.id), None)
        self._report_state(
            event, {"name": event.name, "state": "started", "at": event.timestamp, "spark_ui": _spark_ui()}
        )

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        offsets = [offset_of(source) for source in progress.get("sources", [])]
        for offset in offsets:
            if isinstance(offset, LeaseOffset):
                self._logging_errors(partial(self._commit, offset))
        counts = self._counted(progress)
        self._logging_errors(lambda: self._report_progress(progress, offsets, counts))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._report_state(event, {"state": "idle", "at": event.timestamp, **NO_RATES})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        failure = {"state": "failed", "error": failure_text(event.exception)} if event.exception else None
        self._report_state(event, NO_RATES | (failure or {"state": "stopped"}))
        self._last.pop(str(event.id), None)
        self._counts.pop(str(event.id), None)

    def _counted(self, progress: Mapping[str, Any]) -> dict[str, int] | None:
        """The totals of the rows that the pipeline counts; None if it counts none."""
        totals = self._counts.setdefault(str(progress["id"]), {})
        if has_run(progress):
            recorded = RECORDED.of(str(progress["id"]), progress["batchId"])
            for name, number in counts_of(progress, recorded).items():
                totals[name] = totals.get(name, 0) + number
        return dict(totals) or None

    def _report_state(
        self, event: QueryStartedEvent | QueryIdleEvent | QueryTerminatedEvent, changes: Mapping[str, object]
    ) -> None:
        """Update the last report: the broker keeps one report for each query. It may not have got the last counts."""
        query = str(event.id)
        counts = {"counts": dict(self._counts[query])} if self._counts.get(query) else {}
        whole = self._last.get(query, {}) | {"id": query, "run_id": str(event.runId), **counts, **changes}
        self._logging_errors(lambda: self._report(whole))

    def _report(self, whole: dict[str, object]) -> None:
        self._last[str(whole["id"])] = whole
        described = self._described.get(str(whole.get("name")), {})
        with BrokerClient(self._access) as client:
            client.post("/queries", {"vhost": self._access.vhost, **whole, **described})

    def _commit(self, done: LeaseOffset) -> None:
        with BrokerClient(replace(self._access, vhost=done.vhost)) as client:
            for queue, lease in done.leases.items():
                commit_leases(client, queue, done.consumer, lease)

    def _report_progress(
        self,
        progress: Mapping[str, Any],
        offsets: Sequence[LeaseOffset | StreamOffset | None],
        counts: Mapping[str, int] | None,
    ) -> None:
        states = [None if offset is None else behind(self._access, offset) for offset in offsets]
        lags = [None if state is None else state.messages for state in states]
        more = [
            {} if state is None else {"bytes_behind": state.bytes, "oldest_seconds_behind": state.oldest_seconds}
            for state in states
        ]
        self._report(report_of(progress, lags, more) | {"counts": counts, "spark_ui": _spark_ui()})

    def _logging_errors(self, report: Callable[[], None]) -> None:
        try:
            report()
        except (LeveretError, *BROKEN) as error:
            if not self._has_failed:
                log.warning("query progress cannot be sent to the broker, will retry: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False


def _spark_ui() -> str | None:
    """The address of Spark's web UI; None if it is off, or not one that the broker accepts."""
    context = SparkContext._active_spark_context
    address = None if context is None else context.uiWebUrl
    return address if address and address.startswith(("http://", "https://")) else None
