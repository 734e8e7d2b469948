"""archive: writes messages to Parquet files, in folders by date, hour and queue.

A stream keeps its messages; messages of a classic queue are acknowledged once they are archived. Each message is
archived exactly once, also after crashes. Times are those of arrival at the broker, in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, StringType, StructField, StructType

from leveret.spark.jobs.accounting import counted
from leveret.spark.jobs.checkpoint import names_in, refuse_results_of_others
from leveret.spark.jobs.job import Job, QueryOptions, SourceOptions, setting
from leveret.spark.jobs.messages import read_stream, started
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries
from leveret.spark.schema import SCHEMA

FOLDERS = ("date", "hour", "queue")
# Given when an archive is read: Spark would infer a number from a folder queue=17.
FOLDER_COLUMNS = [
    StructField("date", DateType()),
    StructField("hour", IntegerType()),
    StructField("queue", StringType()),
]
KEPT = [field for field in SCHEMA.fields if field.name not in FOLDERS]
ARCHIVED = StructType([*KEPT, *FOLDER_COLUMNS])


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(SourceOptions, QueryOptions):
    path: str = setting("Directory of the archive, on any file system that Spark can write.", metavar="FOLDER")
    compression: str = setting(
        "Compression: zstd, snappy, gzip or none.", "zstd", choices=("zstd", "snappy", "gzip", "none")
    )


def start(spark: SparkSession, options: ArchiveOptions) -> Queries:
    query = replace(options, checkpoint=options.checkpoint or f"{options.path.rstrip('/')}/_checkpoint")
    refuse_results_of_others(spark, options.path, str(query.checkpoint), archived_batches(spark, options.path))
    settings = {"path": options.path, "compression": options.compression}
    messages = counted(by_arrival(read_stream(spark, options, "archive")))
    return Queries(started(messages, query, "archive", "parquet", settings, FOLDERS), now=lambda: queues_of(options))


def archived_batches(spark: SparkSession, path: str) -> list[int]:
    """The batches in the log of Spark's file sink, which silently skips batches that are in it."""
    names = names_in(spark, f"{path.rstrip('/')}/_spark_metadata")
    return [int(name.removesuffix(".compact")) for name in names if name.removesuffix(".compact").isdecimal()]


def by_arrival(messages: DataFrame) -> DataFrame:
    """Adds the date and the hour of arrival in UTC, independent of the time zone of the session."""
    seconds = F.unix_seconds("timestamp")
    days = F.floor(seconds / 86_400).cast("int")
    return messages.withColumn("date", F.date_add(F.lit("1970-01-01").cast("date"), days)).withColumn(
        "hour", F.floor(F.pmod(seconds, F.lit(86_400)) / 3_600).cast("int")
    )


def read_archive(spark: SparkSession, path: str, **settings: str) -> DataFrame:
    """The messages of an archive, with the columns of the source and of the folders."""
    return spark.read.schema(ARCHIVED).options(**settings).parquet(path)


JOB = Job("archive", ArchiveOptions, start)
