"""A query that passes each batch to a function on the driver (``foreachBatch``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from leveret.spark.jobs.accounting import QUERY_ID, Counts, record
from leveret.spark.jobs.job import QueryOptions, SourceOptions
from leveret.spark.jobs.messages import started_batches
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries

WriteBatch = Callable[[DataFrame, str, int], Counts]  # the rows, the id of the query, the number of the batch


@dataclass(frozen=True, kw_only=True)
class BatchOptions(SourceOptions, QueryOptions):
    """For jobs that read queues and write batches somewhere else."""


def write_batches(
    rows: DataFrame, options: BatchOptions, name: str, write: WriteBatch, *, twice: bool = False
) -> Queries:
    """The id of a query is that of its checkpoint: (id, number) is the same for a batch that is repeated.

    ``twice``: the function reads a batch more than once, so it is kept in between.
    """
    counts: dict[int, Counts] = {}

    def written(batch: DataFrame, number: int) -> None:
        transaction = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert transaction is not None
        if twice:
            batch.persist()
        try:
            record(counts, batch.sparkSession, number, write(batch, transaction, number))
        finally:
            batch.unpersist()

    query = started_batches(rows, options, name, written)
    return Queries(query, now=lambda: queues_of(options), recorded={name: counts})
