"""dead-letters: count dead letters by cause, and redrive them.

The header ``x-death`` of a dead letter has one entry for each queue and reason, the latest first.
Without ``--redrive`` the job reads the dead-letter queue without consuming it, and counts its messages by cause.

With ``--redrive`` it consumes the messages and publishes those that match the SQL condition to the exchange that they
were published to when they were dead-lettered last, with the routing key of that time, each exactly once. The broker's
own headers are removed; ``x-redriven`` counts the redrives. Messages of a classic queue that do not match return to the
end of the queue. A stream keeps its messages. If the exchange is gone or routes a message to no queue, the job fails,
and all messages of the batch stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import Account, Counts, checked, counted
from leveret.spark.jobs.job import Job, PassingOptions, setting, sink_settings
from leveret.spark.jobs.messages import FORMAT, outgoing, own_headers, read_now, read_stream, started, with_header
from leveret.spark.jobs.queues import has_classic, queues_of
from leveret.spark.jobs.running_job import Finished, Queries, Report
from leveret.spark.options import REPORT

DEATH = (
    "array<struct<reason: string, queue: string, exchange: string, `routing-keys`: array<string>, "
    "count: bigint, time: string>>"
)
CAUSE = ("reason", "died_in", "from_exchange", "from_key")
REDRIVEN = "x-redriven"
MOST_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class DeadLettersOptions(PassingOptions):
    redrive: str | None = setting(
        "Redrive messages selected by SQL: reason = 'expired' AND died_in = 'orders'; true for all.",
        None,
        metavar="SQL",
    )
    path: str | None = setting("Also write the causes to this directory, as Parquet.", None, metavar="FOLDER")

    def check(self) -> None:
        super().check()
        if self.redrive is not None and self.continuous:
            raise ConfigError("--redrive ends when it has processed every message once: remove --continuous")
        if self.redrive is not None and self.unroutable == REPORT:
            raise ConfigError(
                "--unroutable report would drop dead letters that no queue gets: leave them out by the condition of "
                "--redrive, such as died_in <> 'orders'"
            )


def start(spark: SparkSession, options: DeadLettersOptions) -> Finished | Queries:
    if options.redrive is not None:
        return redrive(spark, options)
    letters = read_now(spark, options, ["timestamp", "headers"]).persist()
    all_causes = by_cause(with_deaths(letters)).persist()
    counts = checked("dead-letters", Counts(letters.count(), all_causes.agg(F.sum("letters")).collect()[0][0] or 0))
    causes = all_causes.drop("letters")
    if options.path is not None:
        causes.write.mode("overwrite").parquet(options.path)
        causes = spark.read.parquet(options.path)
    rows = causes.orderBy(F.desc("messages"), *CAUSE).limit(MOST_ROWS).collect()
    all_causes.unpersist()
    letters.unpersist()
    table = tuple(tuple(row) for row in rows)
    return Finished(Report(tuple(causes.columns), table, accounts=(Account("dead-letters", counts),)))


def redrive(spark: SparkSession, options: DeadLettersOptions) -> Queries:
    letters = read_stream(spark, options, "dead-letters")
    marked = with_deaths(letters).withColumn("goes_back", chosen(str(options.redrive)))
    if has_classic(options):
        marked = counted(marked, out=F.col("goes_back"), filtered=~F.col("goes_back"))
    else:
        marked = counted(counted(marked, filtered=~F.col("goes_back")).where("goes_back"))
    query = started(to_origin(marked), options, "dead-letters", FORMAT, sink_settings(options))
    return Queries(query, now=lambda: queues_of(options))


def with_deaths(letters: DataFrame) -> DataFrame:
    """Adds the latest entry of ``x-death``, and how often the message was dead-lettered in total."""
    deaths = F.from_json(F.col("headers")["x-death"], DEATH)
    latest = F.col("deaths")[0]
    return (
        letters.withColumn("deaths", deaths)
        .withColumn("reason", latest["reason"])
        .withColumn("died_in", latest["queue"])
        .withColumn("from_exchange", latest["exchange"])
        .withColumn("from_key", latest["routing-keys"][0])
        .withColumn("times", F.aggregate("deaths", F.lit(0).cast("bigint"), lambda sum_, one: sum_ + one["count"]))
        .withColumn("redriven", F.coalesce(F.col("headers")[REDRIVEN].try_cast("int"), F.lit(0)))
    )


def by_cause(letters: DataFrame) -> DataFrame:
    """One row per cause. A message that was dead-lettered by two queues is counted for both in ``messages``, and for
    the latest in ``letters``."""
    each = letters.select("timestamp", F.posexplode_outer("deaths").alias("place", "death"))
    return (
        each.select(
            F.col("death")["reason"].alias("reason"),
            F.col("death")["queue"].alias("died_in"),
            F.col("death")["exchange"].alias("from_exchange"),
            F.col("death")["routing-keys"][0].alias("from_key"),
            F.coalesce(F.col("death")["count"], F.lit(0)).alias("times"),
            "timestamp",
            (F.coalesce("place", F.lit(0)) == 0).alias("is_latest"),
        )
        .groupBy(*CAUSE)
        .agg(
            F.count("*").alias("messages"),
            F.sum("times").alias("deaths"),
            F.min("timestamp").alias("first"),
            F.max("timestamp").alias("last"),
            F.count_if("is_latest").alias("letters"),
        )
    )


def chosen(condition: str) -> Column:
    """Whether a message is redriven: the condition is true, and ``x-death`` has its exchange and routing key."""
    known = F.col("from_exchange").isNotNull() & F.col("from_key").isNotNull()
    return F.coalesce(F.expr(condition), F.lit(False)) & known


def to_origin(letters: DataFrame) -> DataFrame:
    """Redriven messages go to their exchange, others back to their queue with all headers."""
    back = F.col("goes_back")
    exchange = F.when(back, F.col("from_exchange")).otherwise(F.lit(""))
    anew = with_header(own_headers(), REDRIVEN, (F.col("redriven") + 1).cast("string"))
    headers = F.when(back, anew).otherwise(F.col("headers"))
    key = F.when(back, F.col("from_key")).otherwise(F.col("queue"))
    return outgoing(letters.withColumn("routing_key", key), exchange, headers)


JOB = Job("dead-letters", DeadLettersOptions, start)
