"""A started job: its progress, whether it is done, and its result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from leveret.errors import LeveretError
from leveret.spark.offsets import Source
from leveret.spark.progress import LeaseOffset, offset_of

OURS = re.compile(r"^leveret\.[\w.]+: (.+)$", re.MULTILINE)
JAVA = re.compile(r"^: [\w.$]+: (.+)$", re.MULTILINE)
OF_SPARK = (PySparkException, Py4JError)  # raised by Spark's Python API
Starter = Callable[[], StreamingQuery]


class JobFailed(LeveretError):
    """A query failed. The text is the cause, without Spark's stack traces."""


@dataclass(frozen=True)
class Progress:
    """Totals over all batches so far, and the rate, lag and duration of the latest batch."""

    batches: int = 0
    rows: int = 0
    rate: float = 0.0  # rows per second
    lag: int | None = None  # messages that were not read at the end of the batch
    batch_ms: int = 0


@dataclass(frozen=True)
class Report:
    """The result of a job: a table and lines to print; ``is_good``: the exit code is 0."""

    heads: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    lines: tuple[str, ...] = ()
    is_good: bool = True


class Running(Protocol):
    def progress(self) -> Progress:
        """The current progress."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most ``seconds``. Returns whether the job has ended. Raises JobFailed if it failed."""

    def stop(self) -> None:
        """Stop the job. An unfinished batch is repeated at the next start."""

    def report(self) -> Report:
        """The result; empty for jobs that only move messages."""


class Finished:
    """A job that has done its work when it is started."""

    def __init__(self, found: Report) -> None:
        self._found = found

    def progress(self) -> Progress:
        return Progress()

    def wait(self, seconds: float | None = None) -> bool:
        return True

    def stop(self) -> None:
        """Nothing to stop."""

    def report(self) -> Report:
        return self._found


class Queries:
    """Streaming queries that run at the same time; each of ``then`` is started once all before it have ended."""

    def __init__(
        self, *queries: StreamingQuery, then: Sequence[Starter] = (), now: Callable[[], Sequence[Source]] = tuple
    ) -> None:
        """``now`` returns the state of the queues that the first query reads."""
        self.queries = list(queries)
        self._then = list(then)
        self._now = now
        self._seen = [_Counted() for _ in queries]
        self._stopped = False

    def progress(self) -> Progress:
        for query, counted in zip(self.queries, self._seen, strict=True):
            counted.look(query.recentProgress, self._now)
        return _sum([counted.progress for counted in self._seen])

    def wait(self, seconds: float | None = None) -> bool:
        """If a query fails, the others are stopped as well."""
        while True:
            try:
                ended = [query.awaitTermination(seconds) for query in self.queries]  # type: ignore[arg-type]
            except OF_SPARK as problem:
                self._end()
                raise JobFailed(cause_of(problem)) from problem
            if seconds is not None and not all(ended):
                return False
            if self._stopped or not self._then:
                return True
            self.queries.append(self._then.pop(0)())
            self._seen.append(_Counted())

    def stop(self) -> None:
        self._stopped = True
        self._end()

    def _end(self) -> None:
        for query in self.queries:
            query.stop()

    def report(self) -> Report:
        return Report()


class _Counted:
    """The progress of one query, with each batch counted once."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._last = -1

    def look(self, batches: Sequence[StreamingQueryProgress], now: Callable[[], Sequence[Source]]) -> None:
        new = [batch for batch in batches if batch.batchId > self._last and batch.numInputRows]
        if not new:
            return
        latest = json.loads(new[-1].json)
        self._last = new[-1].batchId
        self.progress = Progress(
            self.progress.batches + len(new),
            self.progress.rows + sum(batch.numInputRows for batch in new),
            latest.get("processedRowsPerSecond") or 0.0,
            lag_of(latest["sources"], now),
            latest.get("durationMs", {}).get("triggerExecution", 0),
        )


def _sum(parts: Sequence[Progress]) -> Progress:
    """The progress of the first query: it reads the messages, the others read its results."""
    return parts[0] if parts else Progress()


def lag_of(batch: Sequence[Mapping[str, Any]], now: Callable[[], Sequence[Source]]) -> int | None:
    """The number of messages after the end of a batch; None if the batch did not read from a broker."""
    ends = [end for end in map(offset_of, batch) if end is not None]
    if not ends:
        return None
    lag = 0
    for queue in now():
        for end in ends:
            behind = queue.messages if isinstance(end, LeaseOffset) else queue.next - end.get(queue.queue, queue.first)
            lag += max(0, behind)
    return lag


def cause_of(problem: BaseException) -> str:
    """The text of the original error of the source or sink, which Spark wraps in Python and Java stack traces."""
    text = str(problem)
    for pattern in (OURS, JAVA):
        found = pattern.findall(text)
        if found:
            return str(found[-1])
    return (text.splitlines() or [type(problem).__name__])[0]
