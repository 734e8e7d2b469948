"""One batch of traffic: messages become rows of windows, which are merged, written and published.

    open windows of batch n - 1 ─┐
    messages of batch n ─────────┴─ merge ─┬─ open windows of batch n
                                           └─ closed windows, as revision n: Parquet and messages

The newest message that was read so far is in the newest open window, so the open windows have the watermark, too. The
rows of a batch are counted behind the merge: what the windows have now, minus what the open windows had before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import QUERY_ID, Counts, record
from leveret.spark.jobs.checkpoint import delete_folder, names_in
from leveret.spark.jobs.job import sink_settings
from leveret.spark.jobs.messages import FORMAT
from leveret.spark.jobs.traffic_windows import (
    GROUPS,
    INTERNAL,
    WINDOW,
    by_window,
    is_closed,
    latest,
    merged,
    with_percentiles,
)

if TYPE_CHECKING:
    from leveret.spark.jobs.traffic import TrafficOptions

OPEN = "open_windows"
REVISION = "revision="  # start of the names of folders


class Late(NamedTuple):
    """Sums over the late part of a batch; with sliding windows, a message is in several of them."""

    messages: int | None
    rows: int | None


@dataclass(frozen=True)
class State:
    """``watermark``: windows that end before this time are closed; ``rows``: messages in all windows."""

    watermark: int | None
    rows: int
    open_rows: int


class TrafficBatches:
    """``counts``: the rows of each batch that was written."""

    def __init__(self, options: TrafficOptions, groups: Sequence[str], counts: dict[int, Counts]) -> None:
        self._options = options
        self._groups = groups
        self._counts = counts
        self._open = f"{options.checkpoint}/{OPEN}"
        self._states: dict[int, State] = {}  # of the open windows after the last batch of this run

    def write(self, messages: DataFrame, number: int) -> None:
        """All parts have the number of the batch and are replaced if the batch is repeated."""
        spark, groups = messages.sparkSession, self._groups
        slide = self._options.slide or self._options.window
        new = by_window(messages, groups, self._options.window, slide).persist()
        before = self._open_before(spark, number, new)
        known = self._state_before(before, number)
        is_late = is_closed(known.watermark)
        late = Late(*new.agg(*(F.sum(F.when(is_late, F.col(name)).otherwise(0)) for name in Late._fields)).collect()[0])
        whole = merged(before.unionByName(new.where(~is_late)), groups).persist()
        state = self._state_of(whole)
        passed = is_closed(state.watermark)
        results = whole.where(passed)
        if late.messages:
            results = results.unionByName(self._late_results(spark, new.where(is_late), number))
        self._write_results(with_percentiles(results, groups).withColumn("revision", F.lit(number)), number)
        whole.where(~passed).coalesce(1).write.mode("overwrite").parquet(f"{self._open}/{number}")
        delete_folder(spark, f"{self._open}/{number - 2}")
        self._states = {number: replace(state, rows=state.open_rows)}
        record(self._counts, spark, number, Counts(out=state.rows - known.rows, late=late.rows or 0))
        whole.unpersist()
        new.unpersist()

    def _open_before(self, spark: SparkSession, number: int, new: DataFrame) -> DataFrame:
        """The open windows after the batch before; none for the first."""
        if number == 0:
            return new.limit(0)
        rows = spark.read.parquet(f"{self._open}/{number - 1}")
        if rows.columns != new.columns:
            given = [name for name in GROUPS if name in rows.columns]
            raise ConfigError(
                f"the checkpoint {self._options.checkpoint} has windows by {', '.join(given)}, not by "
                f"{', '.join(self._groups)}: use the same --by, or another --path and --checkpoint"
            )
        return rows

    def _state_before(self, before: DataFrame, number: int) -> State:
        return self._states.get(number - 1) or self._state_of(before)

    def _state_of(self, rows: DataFrame) -> State:
        """The newest message closes windows that ended ``--lateness`` before it."""
        newest = F.timestamp_micros(F.max("newest")) - F.expr(f"INTERVAL '{self._options.lateness}'")
        by_end = rows.groupBy(F.unix_micros("window_end")).agg(F.sum("rows"), F.unix_micros(newest)).collect()
        watermark = max((reached for _, _, reached in by_end), default=None)
        return State(watermark, sum(row[1] for row in by_end), sum(row[1] for row in by_end if row[0] > watermark))

    def _late_results(self, spark: SparkSession, late: DataFrame, number: int) -> DataFrame:
        """What is written for late messages: their windows with the messages from before, or nothing."""
        if self._options.late == "side":
            rows = with_percentiles(late, self._groups)
            rows.coalesce(1).write.mode("overwrite").parquet(f"{self._options.late_path}/revision={number}")
        if self._options.late != "count":
            return late.limit(0)
        return merged(self._written(spark, late, number).unionByName(late), self._groups)

    def _written(self, spark: SparkSession, late: DataFrame, number: int) -> DataFrame:
        """The rows that were written before for these windows."""
        path = self._options.path
        before = [f"{path}/{REVISION}{revision}" for revision in revisions_in(spark, path) if revision < number]
        if not before:
            return late.limit(0)
        start = F.unix_micros("window_start")
        first, last = late.agg(F.min(start), F.max(start)).collect()[0]
        rows = spark.read.option("basePath", self._options.path).parquet(*before)
        # As times, so that Spark skips files by their statistics.
        rows = rows.where(F.col("window_start").between(*(F.timestamp_micros(F.lit(edge)) for edge in (first, last))))
        keys = [*WINDOW, *self._groups]
        return latest(rows, self._groups).join(late.select(*keys), keys, "left_semi").select(*late.columns)

    def _write_results(self, results: DataFrame, number: int) -> None:
        results = results.persist()
        if not results.isEmpty():
            folder = f"{self._options.path}/revision={number}"
            results.drop("revision").coalesce(1).write.mode("overwrite").parquet(folder)
            if self._options.exchange is not None:
                self._publish(results, number)
        results.unpersist()

    def _publish(self, results: DataFrame, number: int) -> None:
        spark = results.sparkSession
        transaction = self._options.transaction_id or spark.sparkContext.getLocalProperty(QUERY_ID)
        settings = sink_settings(self._options) | {"transactionId": str(transaction), "batchId": str(number)}
        rows = as_messages(results.drop(*INTERNAL), self._groups, self._options.routing_key or "traffic")
        rows.write.format(FORMAT).mode("append").options(**settings).save()


def revisions_in(spark: SparkSession, path: str) -> list[int]:
    """The batches that have written windows."""
    return [int(name.removeprefix(REVISION)) for name in names_in(spark, path) if name.startswith(REVISION)]


def as_messages(results: DataFrame, groups: Sequence[str] = GROUPS, routing_key: str = "traffic") -> DataFrame:
    """Each window as JSON. The message id is the same for all revisions of a window and group."""
    key = F.sha2(F.to_json(F.struct(*WINDOW, *groups)), 256)
    properties = F.struct(
        F.lit("application/json").alias("content_type"), F.lit("traffic").alias("type"), key.alias("message_id")
    )
    return results.select(
        F.to_json(F.struct("*")).cast("binary").alias("body"),
        F.lit(routing_key).alias("routing_key"),
        properties.alias("properties"),
    )
