"""traffic: message counts, sizes and latencies in time windows.

Windows are over the time of arrival. A window is closed when a message arrived ``--lateness`` after its end, and is
then written to Parquet and published. Messages for a closed window are late: partitions, priorities and backlogs are
not read in the order of arrival. ``--late`` decides what happens with them; they are counted in each case:

* ``count``: they are added to their window, which is written and published again with a higher revision. For each
  window and group, the row with the highest revision has the totals (``read_traffic``).
* ``side``: their own windows are written to ``--late-path``; closed windows do not change.
* ``drop``: they are left out.

The query has no state in Spark and no watermark, which would drop late messages silently. Each batch merges its counts
into the open windows of the batch before, and writes them next to the checkpoint. All that a batch writes has its
number, so a repeated batch replaces or repeats its own output only: each window is written and published exactly once
per revision.

Latency is the time of arrival minus the time set by the publisher: the property ``timestamp`` (seconds), or a header
with milliseconds since 1970 (``--sent-header``). Without either, latency is null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.checkpoint import make_folder, names_in, refuse_results_of_others, refuse_used_transaction
from leveret.spark.jobs.job import Job, PassingOptions, setting, sink_settings
from leveret.spark.jobs.messages import read_stream, started_batches
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries
from leveret.spark.jobs.traffic_batches import OPEN, TrafficBatches, revisions_in
from leveret.spark.jobs.traffic_batches import as_messages as as_messages
from leveret.spark.jobs.traffic_windows import GROUPS, INTERNAL, aggregated, latest, with_percentiles
from leveret.spark.options import FAIL, REPORT

COUNT, SIDE, DROP = "count", "side", "drop"
TIME = re.compile(r"\s*\d+\s+\w+")


@dataclass(frozen=True, kw_only=True)
class TrafficOptions(PassingOptions):
    path: str = setting("Directory of the results.", metavar="FOLDER")
    window: str = setting("Length of a window.", "1 minute", metavar="TIME")
    slide: str | None = setting("Interval between windows.  [default: --window]", None, metavar="TIME")
    lateness: str = setting("How long after its end a window is closed.", "10 seconds", metavar="TIME")
    late: str = setting(
        "Messages for closed windows: count (revise the window), side (--late-path) or drop. A TIME sets --lateness.",
        COUNT,
        metavar="WORD",
    )
    late_path: str | None = setting("With --late side: directory for late messages.", None, metavar="FOLDER")
    by: str = setting("Comma-separated columns to group by.", ",".join(GROUPS), metavar="COLUMNS")
    sent_header: str | None = setting(
        "Header with the time of publishing, in milliseconds since the epoch.", None, metavar="NAME"
    )
    unroutable: str = setting(  # not lost: the files have all windows
        "Windows that are routed to no queue: report (a warning) or fail the pipeline.",
        REPORT,
        choices=(FAIL, REPORT),
        metavar="WORD",
    )

    def check(self) -> None:
        super().check()
        unknown = [name for name in self.groups() if name not in GROUPS]
        if unknown or not self.groups():
            raise ConfigError(f"--by is {self.by!r}: it can be one or more of {', '.join(GROUPS)}")
        if TIME.match(self.late):  # before there was --lateness, --late was the time
            object.__setattr__(self, "lateness", self.late)
            object.__setattr__(self, "late", COUNT)
        if self.late not in (COUNT, SIDE, DROP):
            raise ConfigError(f"invalid --late {self.late!r}: choose one of {COUNT}, {SIDE}, {DROP}")
        if (self.late == SIDE) != (self.late_path is not None):
            raise ConfigError("--late side and --late-path belong together: --late side --late-path /data/late")

    def groups(self) -> list[str]:
        return [name.strip() for name in self.by.split(",") if name.strip()]


def start(spark: SparkSession, options: TrafficOptions) -> Queries:
    path = options.path.rstrip("/")
    query = replace(options, path=path, checkpoint=(options.checkpoint or f"{path}/_checkpoint").rstrip("/"))
    refuse_old_results(spark, path, str(query.checkpoint))
    refuse_results_of_others(spark, path, str(query.checkpoint), revisions_in(spark, path))
    if options.exchange is not None:
        refuse_used_transaction(spark, sink_settings(options), str(query.checkpoint))
    make_folder(spark, f"{query.checkpoint}/{OPEN}")
    counts: dict[int, Counts] = {}
    messages = measured(read_stream(spark, options, "traffic", columns_for(options)), options)
    batches = TrafficBatches(query, options.groups(), counts)
    running = started_batches(messages, query, "traffic", batches.write)
    return Queries(running, now=lambda: queues_of(options), recorded={"traffic": counts})


def refuse_old_results(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Until version 0.1, windows were written by Spark's file sink, and late messages were lost."""
    is_old_query = names_in(spark, f"{checkpoint}/offsets") and OPEN not in names_in(spark, checkpoint)
    if "_spark_metadata" in names_in(spark, path) or is_old_query:
        raise ConfigError(
            f"--path {path} has results of an earlier version of this pipeline, which cannot be continued: use another "
            "--path (and --checkpoint, if you set it). The old results can be read as before; to compute them again, "
            "read the stream from the beginning"
        )


def measured(messages: DataFrame, options: TrafficOptions) -> DataFrame:
    size = F.octet_length("body").alias("size")
    return messages.select("timestamp", *options.groups(), size, latency_ms(options).alias("latency_ms"))


def counted(messages: DataFrame, options: TrafficOptions) -> DataFrame:
    """The windows of a table, for a view of a declarative project that each run computes again. A stream is not for it:
    Spark would close windows by a watermark, and silently drop messages that are read later."""
    window = F.window("timestamp", options.window, options.slide).alias("window")
    windows = aggregated(measured(messages, options).groupBy(window, *options.groups()), options.groups(), F.count("*"))
    # Not with drop(): Spark looks up its input at once, and the tables of a declarative project are not there then.
    return with_percentiles(windows, options.groups(), internal=())


def columns_for(options: TrafficOptions) -> list[str]:
    """Headers and properties cost more than all other columns: they are fetched only for the time of the publish."""
    return ["body", "timestamp", *options.groups(), "properties" if options.sent_header is None else "headers"]


def latency_ms(options: TrafficOptions) -> Column:
    arrived = F.unix_millis("timestamp")
    if options.sent_header is None:
        return arrived - F.unix_millis(F.col("properties.timestamp"))
    return arrived - F.col("headers")[options.sent_header].try_cast("bigint")


def read_traffic(spark: SparkSession, path: str) -> DataFrame:
    """The totals of all closed windows: those with the highest revision."""
    rows = spark.read.parquet(path).drop(*INTERNAL)
    return latest(rows, [name for name in GROUPS if name in rows.columns])


JOB = Job("traffic", TrafficOptions, start)
