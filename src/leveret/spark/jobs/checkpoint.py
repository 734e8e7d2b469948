"""The checkpoint folder of a streaming query, on any file system of Hadoop."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from leveret.errors import ConfigError
from leveret.spark.broker_client import BrokerClient
from leveret.spark.options import sink_options
from leveret.spark.written import last_batch as last_committed


class LastBatch(NamedTuple):
    planned: datetime  # by the clock of the driver
    watermark: datetime


def last_batch(spark: SparkSession, checkpoint: str) -> LastBatch | None:
    """The times of the last batch: Spark notes them in the log of offsets, in the line after the version."""
    number = last_planned(spark, checkpoint)
    if number < 0:
        return None
    path = f"{checkpoint.rstrip('/')}/offsets/{number}"
    lines = [row.value for row in spark.read.text(path, wholetext=True).collect()]
    planned = json.loads(lines[0].splitlines()[1])
    times = (planned["batchTimestampMs"], planned["batchWatermarkMs"])
    return LastBatch(*(datetime.fromtimestamp(time / 1000, UTC) for time in times))


def last_planned(spark: SparkSession, checkpoint: str) -> int:
    """The number of the last batch that was begun; -1 before the first."""
    names = names_in(spark, f"{checkpoint.rstrip('/')}/offsets")
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def refuse_results_of_others(spark: SparkSession, path: str, checkpoint: str, batches: Iterable[int]) -> None:
    """Results have the numbers of the batches that wrote them. ``batches``: those in ``path``. If the checkpoint has
    not begun them, it is new or an old copy, and its next batch would be skipped, or replace other results."""
    last, planned = max(batches, default=-1), last_planned(spark, checkpoint)
    if last > planned:
        raise ConfigError(
            f"--path {path} has results of batches up to {last}, and {_described(checkpoint, planned)}: use the "
            "checkpoint that belongs to the results, or another --path"
        )


def refuse_used_transaction(spark: SparkSession, settings: Mapping[str, str], checkpoint: str) -> None:
    """The same for a transaction that the user named. ``settings``: those of the sink."""
    options = sink_options(settings)
    if options.transaction is None or not options.exactly_once:
        return
    with BrokerClient(options.access) as broker:
        last = last_committed(broker, options.transaction)
    planned = last_planned(spark, checkpoint)
    if last is not None and last > planned:
        raise ConfigError(
            f"--transaction-id {options.transaction} has batches up to {last}, and {_described(checkpoint, planned)}: "
            "the broker would drop its next batches as repeats. Use the checkpoint that belongs to the transaction, or "
            "another --transaction-id"
        )


def _described(checkpoint: str, planned: int) -> str:
    return f"the checkpoint {checkpoint} {f'begins with batch {planned + 1}' if planned >= 0 else 'is new'}"


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """The names of the files and folders in a folder; none if it does not exist."""
    path, files = hadoop_path(spark, folder)
    return [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []


def make_folder(spark: SparkSession, folder: str) -> None:
    path, files = hadoop_path(spark, folder)
    files.mkdirs(path)


def delete_folder(spark: SparkSession, folder: str) -> None:
    path, files = hadoop_path(spark, folder)
    files.delete(path, True)


def hadoop_path(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    """The path, and its file system."""
    jvm = spark._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(folder)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())
