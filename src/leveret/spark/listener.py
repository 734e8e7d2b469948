"""Reports the progress of queries to the broker, and commits the leases of finished batches.

Spark sends a progress event after a batch is in its checkpoint, so the lease in the event is finished. The source also
commits, when the next batch is requested; the listener covers queries that are stopped before that.

An unreachable broker must not affect a query: failures are logged, once until a report succeeds again. The requests are
made on Spark's listener thread, so their timeout is short.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from leveret.errors import LeveretError
from leveret.http_client import BROKEN
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused
from leveret.spark.lease_reader import commit_leases
from leveret.spark.options import Access, connection_options
from leveret.spark.progress import LeaseOffset, StreamOffset, offset_of, report_of
from leveret.spark.source_lookup import rows_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)
SECONDS = 5


class LeveretListener(StreamingQueryListener):
    """`spark.streams.addListener(LeveretListener({"endpoint": ...}))`; takes the connection options of the source."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        access = connection_options(options or {})
        self._access = replace(access, timeout_seconds=SECONDS, retry_seconds=0)
        self._has_failed = False
        self._last: dict[str, dict[str, object]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._report_state(event, {"name": event.name, "state": "started", "at": event.timestamp})

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        offsets = [offset_of(source) for source in progress.get("sources", [])]
        for offset in offsets:
            if isinstance(offset, LeaseOffset):
                self._logging_errors(partial(self._commit, offset))
        self._logging_errors(lambda: self._report(report_of(progress, [self._lag(offset) for offset in offsets])))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._report_state(event, {"state": "idle", "at": event.timestamp})

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._report_state(event, {"state": "failed" if event.exception else "stopped"})
        self._last.pop(str(event.id), None)

    def _report_state(
        self, event: QueryStartedEvent | QueryIdleEvent | QueryTerminatedEvent, changes: Mapping[str, object]
    ) -> None:
        """Update the last report: the broker keeps one report for each query."""
        whole = self._last.get(str(event.id), {}) | {"id": str(event.id), "run_id": str(event.runId), **changes}
        self._logging_errors(lambda: self._report(whole))

    def _report(self, whole: dict[str, object]) -> None:
        self._last[str(whole["id"])] = whole
        with BrokerClient(self._access) as client:
            client.post("/queries", {"vhost": self._access.vhost, **whole})

    def _commit(self, done: LeaseOffset) -> None:
        with BrokerClient(replace(self._access, vhost=done.vhost)) as client:
            commit_leases(client, done.queue, done.consumer, done.lease)

    def _lag(self, offset: LeaseOffset | StreamOffset | None) -> int | None:
        """The number of messages after the batch; None if the queues do not exist."""
        if offset is None:
            return None
        try:
            return _ready(self._access, offset) if isinstance(offset, LeaseOffset) else _behind(self._access, offset)
        except BrokerRefused as refusal:
            if refusal.status != 404:
                raise
            return None

    def _logging_errors(self, report: Callable[[], None]) -> None:
        try:
            report()
        except (LeveretError, *BROKEN) as error:
            if not self._has_failed:
                log.warning("query progress cannot be sent to the broker, will retry: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False


def _ready(access: Access, offset: LeaseOffset) -> int:
    with BrokerClient(replace(access, vhost=offset.vhost)) as client:
        return sum(row["messages"] for row in rows_of(client.get("sources", {"queue": offset.queue}), "sources"))


def _behind(access: Access, offset: StreamOffset) -> int:
    with BrokerClient(access) as client:
        rows = rows_of(client.get("offsets", [("queue", queue) for queue in offset]), "offsets")
    return sum(max(row["next"] - offset[row["queue"]], 0) for row in rows)
