"""The finished batches of one streaming query: its progress, and its rows, which must add up in each batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from leveret.spark.jobs.accounting import Account, Counts, checked
from leveret.spark.jobs.failure import JobFailed
from leveret.spark.offsets import Source
from leveret.spark.progress import LeaseOffset, has_run, offset_of, rows_by_term, rows_read
from leveret.spark.source_lookup import STREAM


@dataclass(frozen=True)
class Progress:
    """Totals over all batches so far, and the rate, lag and duration of the latest batch."""

    batches: int = 0
    rows: int = 0
    rate: float = 0.0  # rows per second
    lag: int | None = None  # messages that were not read at the end of the batch
    batch_ms: int = 0


class QueryBatches:
    """Counts each batch once. ``recorded``: counts by batch, from a function of ``foreachBatch``."""

    def __init__(self, query: StreamingQuery, recorded: dict[int, Counts] | None) -> None:
        self._query = query
        self._name = query.name or str(query.id)
        self._recorded = {} if recorded is None else recorded
        self._counts = Counts()
        self._progress = Progress()
        self._before = committed_by(query)
        self._last: int | None = None
        self._sources: Sequence[Mapping[str, Any]] = ()  # of the latest batch, until its lag is known

    def count(self) -> None:
        for batch in self._new():
            number = batch["batchId"]
            self._refuse_gap(number - 1 - (self._before if self._last is None else self._last))
            self._last = number
            found = counts_of(batch) + self._recorded.pop(number, Counts())
            dropped = sum(operator.get("numRowsDroppedByWatermark", 0) for operator in batch.get("stateOperators", []))
            self._counts += checked(f"{self._name} in batch {number}", found, dropped)
            if batch["numInputRows"]:
                self._advance(batch)

    def _new(self) -> Iterator[dict[str, Any]]:
        """The batches since the last call."""
        found = []
        # The JSON is one call to the JVM for each batch, where ``recentProgress`` makes dozens for each of 100.
        for progress in reversed(self._query._jsq.recentProgress()):
            if self._last is not None and progress.batchId() <= self._last:
                break
            found.append(json.loads(progress.json()))
        return filter(has_run, reversed(found))

    def _advance(self, batch: Mapping[str, Any]) -> None:
        before = self._progress
        self._sources = batch["sources"]
        self._progress = Progress(
            before.batches + 1,
            before.rows + sum(map(rows_read, batch["sources"])),
            batch.get("processedRowsPerSecond") or 0.0,
            before.lag,
            batch["durationMs"].get("triggerExecution", 0),
        )

    def progress(self, now: Callable[[], Sequence[Source]]) -> Progress:
        if self._sources:
            self._progress = replace(self._progress, lag=lag_of(self._sources, now))
            self._sources = ()
        return self._progress

    def account(self) -> Account:
        return Account(self._name, self._counts)

    def _refuse_gap(self, missing: int) -> None:
        """Spark drops the progress of old batches. The sum without them could add up although they lost rows."""
        if missing > 0:
            raise JobFailed(
                f"{missing} batches of {self._name} could not be counted, and may have lost rows: "
                "raise spark.sql.streaming.numRecentProgressUpdates, or call progress() more often"
            )


def committed_by(query: StreamingQuery) -> int:
    """The last batch in the checkpoint; -1 before the first. Of a query that was just started, it is the last batch of
    the previous run, or one of the first of this run."""
    found = query._jsq.streamingQuery().commitLog().getLatestBatchId()
    return int(found.get()) if found.isDefined() else -1


def counts_of(batch: Mapping[str, Any]) -> Counts:
    """``batch``: Spark's progress as JSON."""
    return Counts(**rows_by_term(batch))


def lag_of(batch: Sequence[Mapping[str, Any]], now: Callable[[], Sequence[Source]]) -> int | None:
    """The number of messages after the end of a batch; None if the batch did not read from a broker."""
    ends = [end for end in map(offset_of, batch) if end is not None]
    if not ends:
        return None
    reached = {queue: at for end in ends if not isinstance(end, LeaseOffset) for queue, at in end.items()}
    lag = 0
    for one in now():
        behind = one.next - reached.get(one.queue, one.first) if one.kind == STREAM else one.messages
        lag += max(0, behind)
    return lag
