"""audit: verifies that an archive has every message of its streams.

Offsets of a stream are consecutive. The archive is complete if it has each offset once, from the first offset of the
broker (or of the archive, if that is lower) to the last. The job lists missing and duplicate offsets; if there are any,
the exit code is 1. With ``--bodies`` it also compares each message that is still in the stream with the archived one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from leveret.spark.jobs.accounting import Account, Counts, checked
from leveret.spark.jobs.archive import read_archive
from leveret.spark.jobs.job import Job, SourceOptions, setting
from leveret.spark.jobs.messages import read_now
from leveret.spark.jobs.queues import streams_of
from leveret.spark.jobs.running_job import Finished, Report
from leveret.spark.offsets import Source

HEADS = ("queue", "broker has", "archive has", "messages", "missing", "twice", "differ")
MOST_GAPS = 1_000


class Gap(NamedTuple):
    """Offsets from ``first`` to ``end`` (exclusive) that are missing in the archive."""

    queue: str
    first: int
    end: int


class Kept(NamedTuple):
    """The messages of one queue in the archive; ``copies``: duplicates."""

    first: int
    end: int
    messages: int
    copies: int


@dataclass(frozen=True, kw_only=True)
class AuditOptions(SourceOptions):
    path: str = setting("Directory of the archive.", metavar="FOLDER")
    allow_lag: int = setting("Number of newest messages of a stream that may be missing.", 0, metavar="N")
    bodies: bool = setting("Compare message bodies too.", False)


def start(spark: SparkSession, options: AuditOptions) -> Finished:
    streams = streams_of(options)  # before the archive is read: later messages are not expected
    queues = [stream.queue for stream in streams]
    copies = copies_of(readable(spark, options.path), queues)
    copies.cache()
    kept = kept_of(copies)
    parts = kept.values()
    read = readable(spark, options.path).where(F.col("queue").isin(queues)).count()
    counts = Counts(read, sum(part.messages for part in parts), sum(part.copies for part in parts))
    gaps = [gap for stream in streams for gap in edges(stream, kept.get(stream.queue), options.allow_lag)]
    gaps += inner_gaps(copies)
    differing = differing_of(spark, options) if options.bodies else {}
    copies.unpersist()
    report = report_of(streams, kept, sorted(gaps), differing)
    return Finished(replace(report, accounts=(Account("audit", checked("audit", counts)),)))


def readable(spark: SparkSession, path: str) -> DataFrame:
    """The readable part of the archive: messages of lost or damaged files are reported as missing."""
    return read_archive(spark, path, ignoreMissingFiles="true", ignoreCorruptFiles="true")


def copies_of(archive: DataFrame, queues: list[str]) -> DataFrame:
    """The number of copies of each offset in the archive."""
    return archive.where(F.col("queue").isin(queues)).groupBy("queue", "offset").agg(F.count("*").alias("copies"))


def kept_of(copies: DataFrame) -> dict[str, Kept]:
    first, end = F.min("offset"), F.max("offset") + 1
    rows = copies.groupBy("queue").agg(first, end, F.count("*"), F.sum("copies") - F.count("*")).collect()
    return {row[0]: Kept(*row[1:]) for row in rows}


def inner_gaps(copies: DataFrame) -> list[Gap]:
    """Missing offsets between two archived offsets of a queue."""
    in_order = Window.partitionBy("queue").orderBy("offset")
    following = copies.withColumn("following", F.lead("offset").over(in_order))
    rows = following.where("following > offset + 1").select("queue", F.col("offset") + 1, "following")
    return [Gap(*row) for row in rows.collect()]


def edges(stream: Source, kept: Kept | None, allow_lag: int) -> list[Gap]:
    """Missing offsets before the first and after the last archived offset."""
    if kept is None:
        kept = Kept(stream.first, stream.first, 0, 0)
    found = [Gap(stream.queue, stream.first, min(kept.first, stream.next))]
    found.append(Gap(stream.queue, kept.end, stream.first))  # deleted in the stream: these do not come any more
    behind = Gap(stream.queue, max(kept.end, stream.first), stream.next)
    if behind.end - behind.first > allow_lag:
        found.append(behind)
    return [gap for gap in found if gap.first < gap.end]


def differing_of(spark: SparkSession, options: AuditOptions) -> dict[str, int]:
    """The number of messages of each queue whose body or routing key differs between broker and archive."""
    content = F.sha2(F.concat(F.octet_length("routing_key"), F.lit(":"), "routing_key", "body"), 256)
    broker = read_now(spark, options, ["queue", "offset", "routing_key", "body"]).select(
        "queue", "offset", content.alias("there")
    )
    archive = readable(spark, options.path).select("queue", "offset", content.alias("here"))
    differ = broker.join(archive, ["queue", "offset"]).where("here <> there").groupBy("queue").count()
    return {row[0]: row[1] for row in differ.collect()}


def report_of(streams: list[Source], kept: Mapping[str, Kept], gaps: list[Gap], differing: Mapping[str, int]) -> Report:
    missing = {stream.queue: 0 for stream in streams}
    for gap in gaps:
        missing[gap.queue] += gap.end - gap.first
    rows = []
    for stream in streams:
        of_it = kept.get(stream.queue)
        bounds = "nothing" if of_it is None else f"{of_it.first} to {of_it.end - 1}"
        there = "nothing" if stream.first == stream.next else f"{stream.first} to {stream.next - 1}"
        counts = (
            (0, missing[stream.queue], 0) if of_it is None else (of_it.messages, missing[stream.queue], of_it.copies)
        )
        rows.append((stream.queue, there, bounds, *counts, differing.get(stream.queue, 0)))
    lines = [f"missing: {gap.queue}, offsets {gap.first} to {gap.end - 1} ({gap.end - gap.first})" for gap in gaps]
    if len(lines) > MOST_GAPS:
        lines = [*lines[:MOST_GAPS], f"and {len(lines) - MOST_GAPS} more gaps"]
    is_good = not gaps and not any(differing.values()) and not any(part.copies for part in kept.values())
    conclusion = (
        "nothing is lost: the archive has every message once" if is_good else "the archive differs from the streams"
    )
    return Report(HEADS, tuple(rows), (*lines, conclusion), is_good)


JOB = Job("audit", AuditOptions, start)
