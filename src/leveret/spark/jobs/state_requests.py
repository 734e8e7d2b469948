"""Runs a query with state by key, and makes requests to its state when a run begins and ends.

With ``--continuous``, timers close what is due. A run that ends does not wait for timers, and what they do must not
depend on how far it has read: its rows are held, and closed when it has read everything.

For that, requests are written into the folder ``leveret-requests`` of the checkpoint, which the query reads as a second
source, so each is processed once, and in the same batch if a batch is repeated. At the end of a run the query is
started once more, with requests to close. At the start of a run, what the other kind of run has left is held, or waits
again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from leveret.spark.jobs.checkpoint import make_folder, names_in
from leveret.spark.jobs.durations import FOREVER, LATEST
from leveret.spark.jobs.job import PassingOptions, required
from leveret.spark.jobs.keyed_state import CLOSE, HOLD, OUTPUT, ROWS, STATE, WAIT, KeyedProcessor
from leveret.spark.jobs.messages import publish
from leveret.spark.jobs.running_job import Queries
from leveret.spark.offsets import Source
from leveret.spark.progress import REQUESTS

SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
# Timers need batches without messages. A run that is to end would never end with them.
EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


class KeyedQuery(NamedTuple):
    """``rows``: see ``input_rows``; ``messages`` makes messages of the processor's rows; ``last``: the column of the
    state with the time until which something is open; ``is_open``: a condition on the state."""

    name: str
    rows: DataFrame
    processor: KeyedProcessor
    messages: Callable[[DataFrame], DataFrame]
    last: Column
    is_open: Column


def run(
    spark: SparkSession,
    query: KeyedQuery,
    options: PassingOptions,
    length: int,
    now: Callable[[], Sequence[Source]],
    *,
    close_open: bool,
) -> Queries:
    """Start the query. When a run ends, what is older than ``length`` milliseconds is closed, or everything."""
    checkpoint = required(options.checkpoint, "checkpoint", "a restarted query continues from this folder").rstrip("/")
    folder = f"{checkpoint}/{REQUESTS}"
    make_folder(spark, folder)

    def begin() -> StreamingQuery:
        messages = query.rows.withColumn("hold", F.lit(not options.continuous))
        rows = messages.unionByName(requests_in(spark, folder))
        results = rows.groupBy("key").transformWithState(query.processor, OUTPUT, "Append", "ProcessingTime")
        with settings(spark, EMPTY_BATCHES, "true" if options.continuous else "false"):
            return publish(query.messages(results), options, query.name)

    def close() -> StreamingQuery:
        until = LATEST if close_open else round(time.time() * 1000) - length
        ask(spark, query, checkpoint, query.last <= until, CLOSE, until)
        return begin()

    is_held = F.col("due") == FOREVER
    if options.continuous:
        ask(spark, query, checkpoint, is_held, WAIT)
    else:
        ask(spark, query, checkpoint, ~is_held, HOLD)
    return Queries(begin(), then=() if options.continuous else [close], now=now)


def requests_in(spark: SparkSession, folder: str) -> DataFrame:
    """Files of requests are deleted when the batch after theirs has ended."""
    return spark.readStream.schema(ROWS).option("cleanSource", "delete").json(folder)


def ask(
    spark: SparkSession, query: KeyedQuery, checkpoint: str, which: Column, request: str, until: int | None = None
) -> None:
    """Write a request for the keys with something open in their state that matches a condition."""
    if not names_in(spark, f"{checkpoint}/commits"):
        return  # no batch has made a state yet
    state = spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)
    keys = state.select("key.key", "list_element.*").where(query.is_open & which).select("key").distinct()
    requests = keys.withColumns({"ask": F.lit(request), "until": F.lit(until).cast("bigint")})
    if not requests.isEmpty():
        requests.coalesce(1).write.mode("append").json(f"{checkpoint}/{REQUESTS}")


@contextmanager
def settings(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """The settings for a query that starts here; others of the session keep theirs."""
    wanted = {**SETTINGS, name: value}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
