"""replay: republishes messages of an archive or a stream.

At the start, ``--since`` and ``--until`` are converted to a range of offsets for each queue. The ranges are divided
into numbered slices. Each slice has a part of every queue, so the queues advance together, and the order within a queue
is kept. A slice is one batch of a transaction of the sink: the broker drops a batch that was already committed, so a
replay can be killed and restarted, and every message is published exactly once. ``--rate`` pauses between slices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.archive import read_archive
from leveret.spark.jobs.job import Job, SinkOptions, SourceOptions, flag_of, required, setting, sink_settings
from leveret.spark.jobs.messages import FORMAT, outgoing, read_now
from leveret.spark.jobs.queues import offsets_of, streams_of
from leveret.spark.jobs.slices import Range, Slices, kept_plan

ASKED = ("archive", "queue", "super_stream", "pattern", "since", "until", "where", "exchange", "routing_key")
SLICE_SECONDS = 2  # with --rate: the duration of a slice


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(SourceOptions, SinkOptions):
    archive: str | None = setting("Replay this archive instead of a stream.", None, metavar="FOLDER")
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
        return self.archive is None

    def check(self) -> None:
        super().check()
        required(self.exchange, "exchange", "the messages are published to this exchange")
        if self.archive is not None and self.super_stream is not None:
            raise ConfigError("--super-stream cannot be used with an archive: select its queues with --pattern")
        if self.rate is not None and self.rate < 1:
            raise ConfigError(f"invalid --rate {self.rate}: it must be at least 1")
        if self.slice < 1:
            raise ConfigError(f"invalid --slice {self.slice}: it must be at least 1")
        moment(self.since, "since")
        moment(self.until, "until")


def start(spark: SparkSession, options: ReplayOptions) -> Slices:
    folder = Path(options.checkpoint)
    asked = {name: getattr(options, name) for name in ASKED}
    size = options.slice if options.rate is None else options.rate * SLICE_SECONDS
    plan = kept_plan(folder, asked, options.transaction_id, size, lambda: ranges_of(spark, options))
    settings = sink_settings(options) | {"transactionId": plan.transaction}

    def publish(number: int, shares: Mapping[str, Range]) -> int:
        counted = Observation()
        rows = outgoing(chosen(spark, options, shares)).observe(counted, F.count(F.lit(1)).alias("rows"))
        if options.routing_key is not None:
            rows = rows.withColumn("routing_key", F.lit(options.routing_key))
        rows.write.format(FORMAT).mode("append").options(**settings, batchId=str(number)).save()
        return int(counted.get["rows"])

    return Slices(plan, folder, publish, 0.0 if options.rate is None else SLICE_SECONDS)


def ranges_of(spark: SparkSession, options: ReplayOptions) -> dict[str, Range]:
    """The range of offsets of each queue between ``--since`` and ``--until``."""
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


def chosen(spark: SparkSession, options: ReplayOptions, shares: Mapping[str, Range]) -> DataFrame:
    """The messages of one slice; those of a queue are in one partition, in order."""
    if options.archive is not None:
        places = [(F.col("queue") == queue) & F.col("offset").between(a, b - 1) for queue, (a, b) in shares.items()]
        rows = in_archive(spark, options).where(reduce(lambda one, other: one | other, places))
        rows = rows.repartition(len(shares), "queue").sortWithinPartitions("queue", "offset")
    else:
        by_pattern = replace(options, queue=None, super_stream=None, pattern=exactly(shares))
        first, end = ({queue: share[at] for queue, share in shares.items()} for at in (0, 1))
        rows = read_now(spark, by_pattern, startingOffsets=json.dumps(first), endingOffsets=json.dumps(end))
    return rows if options.where is None else rows.where(options.where)


def exactly(queues: Mapping[str, Range]) -> str:
    return "^(" + "|".join(re.escape(queue) for queue in queues) + ")$"


def in_archive(spark: SparkSession, options: ReplayOptions) -> DataFrame:
    """Selected by queue and time; the condition on the date lets Spark skip other folders."""
    rows = read_archive(spark, str(options.archive))
    since, until = moment(options.since, "since"), moment(options.until, "until")
    if options.queue is not None:
        rows = rows.where(F.col("queue") == options.queue)
    if options.pattern is not None:
        rows = rows.where(F.col("queue").rlike(f"^(?:{options.pattern})$"))
    if since is not None:
        rows = rows.where((F.col("date") >= F.lit(since.date())) & (F.col("timestamp") >= F.lit(since)))
    if until is not None:
        rows = rows.where((F.col("date") <= F.lit(until.date())) & (F.col("timestamp") < F.lit(until)))
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
