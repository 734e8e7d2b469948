"""replay: republishes messages of an archive, a stream or a table.

At the start, ``--since`` and ``--until`` are converted to a range of offsets for each queue. The ranges are divided
into numbered slices. Each slice has a part of every queue, so the queues advance together, and the order within a queue
is kept. A slice is one batch of a transaction of the sink: the broker drops a batch that was already committed, so a
replay can be killed and restarted, and every message is published exactly once. ``--rate`` pauses between slices.

The rows of a table are numbered: a replay reads one version of it, which does not change, and slices have consecutive
rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.broker_client import BrokerClient
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.archive import read_archive
from leveret.spark.jobs.job import (
    Job,
    SinkOptions,
    SourceOptions,
    broker_settings,
    flag_of,
    required,
    setting,
    sink_settings,
)
from leveret.spark.jobs.messages import FORMAT, outgoing, read_now
from leveret.spark.jobs.queues import offsets_of, streams_of
from leveret.spark.jobs.slices import Range, Slices, has_plan, kept_plan
from leveret.spark.jobs.table_rows import as_messages
from leveret.spark.options import connection_options
from leveret.spark.tables.snapshot import FORMATS, snapshot_of
from leveret.spark.written import last_batch

ASKED = ("archive", "queue", "super_stream", "pattern", "since", "until", "where", "exchange", "routing_key")
ASKED_OF_TABLE = ("table", "format", "catalog")
SLICE_SECONDS = 2  # with --rate: the duration of a slice


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(SourceOptions, SinkOptions):
    archive: str | None = setting("Replay this archive instead of a stream.", None, metavar="FOLDER")
    table: str | None = setting("Replay the rows of this table instead of a stream.", None)
    format: str = setting("Format of the table: delta, iceberg or parquet.", "delta", choices=FORMATS, metavar="WORD")
    catalog: str | None = setting(
        "Iceberg catalog in PyIceberg's configuration.  [default: SQLite in the folder of the table]",
        None,
        metavar="NAME",
    )
    checkpoint: str = setting("Local checkpoint directory of the replay.", metavar="FOLDER")
    since: str | None = setting(
        "Only messages that arrived at or after this time (UTC), such as 2031-05-01T12:00:00.", None, metavar="TIME"
    )
    until: str | None = setting("Only messages that arrived before this time (UTC).", None, metavar="TIME")
    where: str | None = setting(
        "Only messages that match this SQL condition, such as routing_key LIKE 'eu.%'.", None, metavar="SQL"
    )
    rate: int | None = setting("Maximum number of messages per second.", None, metavar="N")
    slice: int = setting("Without --rate: number of messages per batch.", 100_000, metavar="N")

    def needs_queues(self) -> bool:
        return self.archive is None and self.table is None

    def check(self) -> None:
        super().check()
        required(self.exchange, "exchange", "the messages are published to this exchange")
        if self.archive is not None and self.table is not None:
            raise ConfigError("--archive and --table exclude each other: remove one of them")
        if not self.needs_queues() and self.super_stream is not None:
            raise ConfigError(
                "--super-stream cannot be used with an archive or table: select its queues with --pattern"
            )
        if self.rate is not None and self.rate < 1:
            raise ConfigError(f"invalid --rate {self.rate}: it must be at least 1")
        if self.slice < 1:
            raise ConfigError(f"invalid --slice {self.slice}: it must be at least 1")
        moment(self.since, "since")
        moment(self.until, "until")


def start(spark: SparkSession, options: ReplayOptions) -> Slices:
    folder = Path(options.checkpoint)
    refuse_used_transaction(options, folder)
    names = ASKED if options.table is None else (*ASKED, *ASKED_OF_TABLE)
    asked = {name: getattr(options, name) for name in names}
    size = options.slice if options.rate is None else options.rate * SLICE_SECONDS
    plan = kept_plan(folder, asked, options.transaction_id, size, lambda: ranges_of(spark, options))
    settings = sink_settings(options) | {"transactionId": plan.transaction}

    def publish(number: int, shares: Mapping[str, Range]) -> Counts:
        read, out = Observation(), Observation()
        rows = in_range(spark, options, shares)
        rows = rows.withColumn("is_chosen", is_chosen(options, rows.columns))
        rows = rows.observe(read, F.count(F.lit(1)).alias("read"), F.count_if(~F.col("is_chosen")).alias("filtered"))
        chosen = rows.where("is_chosen").drop("is_chosen")
        rows = outgoing(chosen if options.table is None else as_messages(chosen)).observe(
            out, F.count(F.lit(1)).alias("out")
        )
        if options.routing_key is not None:
            rows = rows.withColumn("routing_key", F.lit(options.routing_key))
        rows.write.format(FORMAT).mode("append").options(**settings, batchId=str(number)).save()
        return Counts(**read.get, **out.get)

    return Slices(plan, folder, publish, 0.0 if options.rate is None else SLICE_SECONDS)


def refuse_used_transaction(options: ReplayOptions, folder: Path) -> None:
    """The slices of a new replay begin at 0: the broker would drop those that the transaction already has."""
    if options.transaction_id is None or has_plan(folder):
        return
    with BrokerClient(connection_options(broker_settings(options))) as broker:
        last = last_batch(broker, options.transaction_id)
    if last is not None:
        raise ConfigError(
            f"--transaction-id {options.transaction_id} has batches up to {last}, and {folder} has no checkpoint of "
            "its replay: use that checkpoint, or another --transaction-id"
        )


def ranges_of(spark: SparkSession, options: ReplayOptions) -> dict[str, Range]:
    """The range of offsets of each queue between ``--since`` and ``--until``, or all rows of a version of a table."""
    if options.table is not None:
        snapshot = snapshot_of(options.format, options.table, options.catalog, None)
        is_chosen(options, snapshot.schema.names)  # refuses conditions on columns that the table does not have
        return {snapshot.version: (0, snapshot.rows)} if snapshot.rows else {}
    if options.archive is None:
        return in_time(options)
    rows = in_archive(spark, options).groupBy("queue").agg(F.min("offset"), F.max("offset") + 1).collect()
    return {queue: (first, end) for queue, first, end in rows}


def in_time(options: ReplayOptions) -> dict[str, Range]:
    streams = streams_of(options)
    since, until = moment(options.since, "since"), moment(options.until, "until")
    first = {one.queue: one.first for one in streams} if since is None else offsets_of(options, streams, since)
    end = {one.queue: one.next for one in streams} if until is None else offsets_of(options, streams, until)
    return {queue: (first[queue], end[queue]) for queue in first if first[queue] < end[queue]}


def in_range(spark: SparkSession, options: ReplayOptions, shares: Mapping[str, Range]) -> DataFrame:
    """The messages of one slice; those of a queue or of a file of a table are in one partition, in order."""
    if options.table is not None:
        [(version, (a, b))] = shares.items()
        return snapshot_of(options.format, options.table, options.catalog, version).read(spark, a, b)
    if options.archive is not None:
        places = [(F.col("queue") == queue) & F.col("offset").between(a, b - 1) for queue, (a, b) in shares.items()]
        rows = in_archive(spark, options).where(reduce(lambda one, other: one | other, places))
        rows = rows.repartition(len(shares), "queue").sortWithinPartitions("queue", "offset")
    else:
        by_pattern = replace(options, queue=None, super_stream=None, pattern=exactly(shares))
        first, end = ({queue: share[at] for queue, share in shares.items()} for at in (0, 1))
        rows = read_now(spark, by_pattern, startingOffsets=json.dumps(first), endingOffsets=json.dumps(end))
    return rows


def is_chosen(options: ReplayOptions, columns: Sequence[str]) -> Column:
    """Archives and streams are read by queue and time; rows of tables are selected here."""
    chosen = [F.lit(True) if options.where is None else F.expr(options.where)]
    if options.table is not None:
        for name, column in (("queue", "queue"), ("pattern", "queue"), ("since", "timestamp"), ("until", "timestamp")):
            if getattr(options, name) is not None and column not in columns:
                raise ConfigError(
                    f"{flag_of(name)}: the table has no column {column}; use --where with its columns: "
                    f"{', '.join(columns)}"
                )
        chosen += in_place(options)
    return F.coalesce(reduce(lambda one, other: one & other, chosen), F.lit(False))


def in_place(options: ReplayOptions) -> list[Column]:
    """The conditions of ``--queue``, ``--pattern``, ``--since`` and ``--until``."""
    since, until = moment(options.since, "since"), moment(options.until, "until")
    found = []
    if options.queue is not None:
        found.append(F.col("queue") == options.queue)
    if options.pattern is not None:
        found.append(F.col("queue").rlike(f"^(?:{options.pattern})$"))
    if since is not None:
        found.append(F.col("timestamp") >= F.lit(since))
    if until is not None:
        found.append(F.col("timestamp") < F.lit(until))
    return found


def exactly(queues: Mapping[str, Range]) -> str:
    return "^(" + "|".join(re.escape(queue) for queue in queues) + ")$"


def in_archive(spark: SparkSession, options: ReplayOptions) -> DataFrame:
    """Selected by queue and time; the condition on the date lets Spark skip other folders."""
    rows = read_archive(spark, str(options.archive))
    since, until = moment(options.since, "since"), moment(options.until, "until")
    for condition in in_place(options):
        rows = rows.where(condition)
    if since is not None:
        rows = rows.where(F.col("date") >= F.lit(since.date()))
    if until is not None:
        rows = rows.where(F.col("date") <= F.lit(until.date()))
    return rows


def moment(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{flag_of(name)} is {text!r}: write a time as 2031-05-01T12:00:00") from None
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)


JOB = Job("replay", ReplayOptions, start)
