"""A started job: its progress, whether it is done, and its result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from leveret.spark.jobs.accounting import Account, Counts
from leveret.spark.jobs.failure import JobFailed as JobFailed
from leveret.spark.jobs.failure import cause_of as cause_of
from leveret.spark.jobs.query_batches import Progress as Progress
from leveret.spark.jobs.query_batches import QueryBatches
from leveret.spark.jobs.query_batches import lag_of as lag_of
from leveret.spark.offsets import Source

POLL = 0.5  # seconds between two looks at the batches of the queries
OF_SPARK = (PySparkException, Py4JError)  # raised by Spark's Python API
Starter = Callable[[], StreamingQuery]


@dataclass(frozen=True)
class Report:
    """The result of a job: a table and lines to print, and the rows of its queries; ``is_good``: the exit code is 0."""

    heads: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    lines: tuple[str, ...] = ()
    is_good: bool = True
    accounts: tuple[Account, ...] = ()


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
        self,
        *queries: StreamingQuery,
        then: Sequence[Starter] = (),
        now: Callable[[], Sequence[Source]] = tuple,
        recorded: Mapping[str, dict[int, Counts]] | None = None,
    ) -> None:
        """``now`` returns the state of the queues that the first query reads; ``recorded``: see accounting.py."""
        self.queries = list(queries)
        self._then = list(then)
        self._now = now
        self._recorded = recorded or {}
        self._seen = [self._batches(query) for query in queries]
        self._stopped = False

    def _batches(self, query: StreamingQuery) -> QueryBatches:
        return QueryBatches(query, self._recorded.get(query.name or ""))

    def progress(self) -> Progress:
        """That of the first query: it reads the messages, the others read its results."""
        self._count()
        return self._seen[0].progress(self._now) if self._seen else Progress()

    def wait(self, seconds: float | None = None) -> bool:
        """If a query fails, the others are stopped as well."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while True:
            ended = self._await_end(min(POLL, max(0.0, until - time.monotonic())))
            self._count()
            if ended and (self._stopped or not self._then):
                return True
            if ended:
                self.queries.append(self._then.pop(0)())
                self._seen.append(self._batches(self.queries[-1]))
            elif time.monotonic() >= until:
                return False

    def _await_end(self, seconds: float) -> bool:
        try:
            # Spark refuses a timeout of 0. Each query is asked: any of them may have failed.
            ended = [query.awaitTermination(max(seconds, 0.001)) for query in self.queries]  # type: ignore[arg-type]
        except OF_SPARK as problem:
            self._end()
            raise JobFailed(cause_of(problem)) from problem
        return all(ended)

    def _count(self) -> None:
        """Spark keeps the progress of the last 100 batches only, so this is called often."""
        try:
            for batches in self._seen:
                batches.count()
        except JobFailed:
            self._end()
            raise

    def stop(self) -> None:
        self._stopped = True
        self._end()

    def _end(self) -> None:
        for query in self.queries:
            query.stop()

    def report(self) -> Report:
        self._count()
        return Report(accounts=tuple(self._accounts().values()))

    def _accounts(self) -> dict[str, Account]:
        """By name: a query that was started again is still the same."""
        found: dict[str, Account] = {}
        for one in (batches.account() for batches in self._seen):
            before = found[one.name].counts if one.name in found else Counts()
            found[one.name] = Account(one.name, before + one.counts)
        return found
