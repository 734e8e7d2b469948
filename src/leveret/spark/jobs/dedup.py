"""dedup: forwards each message once.

Messages are duplicates if they have the same message id, body, or value of a header. The first one is published to the
exchange; duplicates that are read within ``--within`` are dropped and counted. Ids are discarded after that time, which
limits the memory of the query. Messages without an id are never dropped.

The time is that of the batch, not that of arrival: a partition, a priority or a backlog that is read later than others
has old arrival times, and a watermark over these would drop its messages as late. The time of a batch never goes back,
also not after a restart on a machine whose clock is behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import counted
from leveret.spark.jobs.checkpoint import LastBatch, last_batch
from leveret.spark.jobs.job import Job, PassingOptions, setting
from leveret.spark.jobs.messages import outgoing, publish, read_stream
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries

HEADER = "header:"


@dataclass(frozen=True, kw_only=True)
class DedupOptions(PassingOptions):
    by: str = setting("What identifies a duplicate: message-id, body or header:NAME.", "message-id", metavar="WHAT")
    within: str = setting("How long an id is remembered after it was read.", "10 minutes", metavar="TIME")

    def check(self) -> None:
        super().check()
        if self.by not in ("message-id", "body") and self.by.removeprefix(HEADER) in ("", self.by):
            raise ConfigError(f"--by is {self.by!r}: it can be message-id, body or header:NAME")


def start(spark: SparkSession, options: DedupOptions) -> Queries:
    before = last_batch(spark, options.checkpoint) if options.checkpoint else None
    sent = outgoing(once_each(read_stream(spark, options, "dedup"), options, before))
    return Queries(publish(counted(sent), options, "dedup"), now=lambda: queues_of(options))


def once_each(messages: DataFrame, options: DedupOptions, before: LastBatch | None = None) -> DataFrame:
    """``before``: the last batch of the previous run, whose machine may have had another clock."""
    read_at = F.current_timestamp()
    if before is not None:
        newest = F.lit(before.watermark) + F.expr(f"INTERVAL '{options.within}'")
        read_at = F.greatest(read_at, F.lit(before.planned), newest)
    known = messages.withColumn("identity", identity(options.by)).withColumn("read_at", read_at)
    return known.withWatermark("read_at", options.within).dropDuplicatesWithinWatermark(["identity"])


def identity(by: str) -> Column:
    """The id of a message; without one, its queue and offset, which are unique."""
    place = F.concat(F.lit("place:"), "queue", F.lit("/"), F.col("offset").cast("string"))
    if by == "body":
        return F.sha2("body", 256)
    name = by.removeprefix(HEADER)
    found = F.col("properties.message_id") if name == by else F.col("headers")[name]
    return F.coalesce(F.concat(F.lit("id:"), found), place)


JOB = Job("dedup", DedupOptions, start)
