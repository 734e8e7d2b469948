"""traffic: message counts, sizes and latencies in time windows.

Windows are over the time of arrival. A window is written once, ``--late`` after its end, when no more messages can
belong to it. The results are Parquet files. A second query reads the files and publishes their rows, so each window is
computed once, and written and published exactly once.

Latency is the time of arrival minus the time set by the publisher: the property ``timestamp`` (seconds), or a header
with milliseconds since 1970 (``--sent-header``). Without either, latency is null.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from leveret.errors import ConfigError
from leveret.spark.jobs.job import Job, PassingOptions, setting
from leveret.spark.jobs.messages import publish, read_stream, started
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries

GROUPS = ("exchange", "routing_key", "queue")
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, kw_only=True)
class TrafficOptions(PassingOptions):
    path: str = setting("Directory of the results.", metavar="FOLDER")
    window: str = setting("Length of a window.", "1 minute", metavar="TIME")
    slide: str | None = setting("Interval between windows.  [default: --window]", None, metavar="TIME")
    late: str = setting("How long a window accepts late messages.", "10 seconds", metavar="TIME")
    by: str = setting("Comma-separated columns to group by.", ",".join(GROUPS), metavar="COLUMNS")
    sent_header: str | None = setting(
        "Header with the time of publishing, in milliseconds since the epoch.", None, metavar="NAME"
    )

    def check(self) -> None:
        super().check()
        unknown = [name for name in self.groups() if name not in GROUPS]
        if unknown or not self.groups():
            raise ConfigError(f"--by is {self.by!r}: it can be one or more of {', '.join(GROUPS)}")

    def groups(self) -> list[str]:
        return [name.strip() for name in self.by.split(",") if name.strip()]


def start(spark: SparkSession, options: TrafficOptions) -> Queries:
    path = options.path.rstrip("/")
    query = replace(options, checkpoint=options.checkpoint or f"{path}/_checkpoint")
    results = counted(read_stream(spark, options, "traffic", columns_for(options)), options)
    make_folder(spark, path)
    first = started(results, query, "traffic", "parquet", {"path": path})
    if options.exchange is None:
        return Queries(first, now=lambda: queues_of(options))

    def second() -> StreamingQuery:
        rows = spark.readStream.schema(results.schema).parquet(path)
        own = replace(query, checkpoint=f"{str(query.checkpoint).rstrip('/')}_published")
        return publish(as_messages(rows), own, "traffic-published")

    if options.continuous:
        return Queries(first, second(), now=lambda: queues_of(options))
    return Queries(first, then=[second], now=lambda: queues_of(options))


def counted(messages: DataFrame, options: TrafficOptions) -> DataFrame:
    window = F.window("timestamp", options.window, options.slide)
    sized = messages.withWatermark("timestamp", options.late).select(
        "timestamp", *options.groups(), F.octet_length("body").alias("size"), latency_ms(options).alias("latency_ms")
    )
    groups = sized.groupBy(window.alias("window"), *options.groups()).agg(
        F.count("*").alias("messages"),
        F.sum("size").alias("bytes"),
        percentiles("size"),
        percentiles("latency_ms"),
    )
    return groups.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *options.groups(),
        "messages",
        "bytes",
        *(F.col("size")[at].alias(f"size_{name}") for at, name in enumerate(PERCENTILES)),
        *(F.col("latency_ms")[at].alias(f"latency_ms_{name}") for at, name in enumerate(PERCENTILES)),
    )


def columns_for(options: TrafficOptions) -> list[str]:
    """Headers and properties cost more than all other columns: they are fetched only for the time of the publish."""
    return ["body", "timestamp", *options.groups(), "properties" if options.sent_header is None else "headers"]


def percentiles(column: str) -> Column:
    return F.percentile_approx(column, list(PERCENTILES.values()), 1000).alias(column)


def latency_ms(options: TrafficOptions) -> Column:
    arrived = F.unix_millis("timestamp")
    if options.sent_header is None:
        return arrived - F.unix_millis(F.col("properties.timestamp"))
    return arrived - F.col("headers")[options.sent_header].try_cast("bigint")


def as_messages(results: DataFrame) -> DataFrame:
    """Each window as JSON."""
    properties = F.struct(F.lit("application/json").alias("content_type"), F.lit("traffic").alias("type"))
    return results.select(
        F.to_json(F.struct("*")).cast("binary").alias("body"),
        F.lit("traffic").alias("routing_key"),
        properties.alias("properties"),
    )


def make_folder(spark: SparkSession, path: str) -> None:
    """The second query needs the folder before the first has written a file, on any file system."""
    jvm = spark._jvm
    assert jvm is not None
    folder = jvm.org.apache.hadoop.fs.Path(path)
    folder.getFileSystem(spark._jsc.hadoopConfiguration()).mkdirs(folder)


JOB = Job("traffic", TrafficOptions, start)
