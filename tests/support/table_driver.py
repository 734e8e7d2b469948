"""Ready pipelines into tables, run by `tests/support/spark_driver.py`, with failpoints on the driver and in tasks.

    files      a task has written its files, and has not returned their names to Spark
    written    the rows of a batch are in files or in the database, and not committed
    committed  the batch is committed, and Spark does not know it

Failpoints are named after the table: `delta.written`, `iceberg.committed`, `postgres.written`. Those of the source are
in failpoint_source.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from leveret.spark.tables import data_files
from leveret.spark.tables.data_files import Layout
from leveret.spark.tables.delta import Delta
from leveret.spark.tables.iceberg import Iceberg
from leveret.spark.tables.postgres import Postgres
from tests.support.failpoint_source import FailpointSource, current_batch, failpoints
from tests.support.failpoints import Failpoints
from tests.support.job_driver import start_patiently

Write = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def trap_files() -> None:
    plain = data_files.writer_of

    def trapped(layout: Layout, schema: pa.Schema) -> Write:
        write = plain(layout, schema)
        table = "iceberg" if layout.keeps else "delta"

        def write_and_wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = [*write(batches)]
            if written:
                failpoints().pass_by(f"{table}.files", current_batch())
            yield from written

        return write_and_wait

    data_files.writer_of = trapped


def trap_commits(kind: type[Any], name: str, failpoints: Failpoints) -> None:
    commit = kind.commit

    def trapped(self: Any, files: Any, transaction: str, batch: int) -> bool:
        failpoints.pass_by(f"{name}.written", batch)
        is_new: bool = commit(self, files, transaction, batch)
        failpoints.pass_by(f"{name}.committed", batch)
        return is_new

    kind.commit = trapped


def trap_transactions(failpoints: Failpoints) -> None:
    write = Postgres.write

    def trapped(self: Postgres, rows: Iterable[Any], transaction: str, batch: int) -> tuple[int, int]:
        def with_trap() -> Iterator[Any]:
            yield from rows
            failpoints.pass_by("postgres.written", batch)

        written = write(self, with_trap(), transaction, batch)
        failpoints.pass_by("postgres.committed", batch)
        return written

    Postgres.write = trapped  # type: ignore[method-assign]


def started_jobs(spark: SparkSession, plan: dict[str, Any]) -> list[Any]:
    """In sessions of their own: names of queries are unique in a session."""
    trap_files()
    trap_commits(Delta, "delta", failpoints())
    trap_commits(Iceberg, "iceberg", failpoints())
    trap_transactions(failpoints())
    running = []
    for name, options in plan["jobs"]:
        session = spark.newSession()
        session.dataSource.register(FailpointSource)
        job = importlib.import_module(f"leveret.spark.jobs.{name}").JOB
        chosen = job.options(endpoint=plan["endpoint"], **options)
        running.append(start_patiently(partial(job.start, session, chosen)))
    return running
