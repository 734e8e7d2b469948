"""Leveret for Spark: `format("leveret")` reads queues and streams, and writes to exchanges.

spark.readStream.format("leveret").option("queue", "orders").load()

Spark finds the format if the package is installed: `pip install 'leveret[spark]'`. It does not import the broker; it
connects to one over HTTP.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.batch_publisher import publish_each_batch
    from leveret.spark.lag import source_metrics
    from leveret.spark.listener import LeveretListener
    from leveret.spark.schema import SCHEMA
    from leveret.spark.source import LeveretDataSource

MODULES = {
    "SCHEMA": "schema",
    "LeveretDataSource": "source",
    "LeveretListener": "listener",
    "publish_each_batch": "batch_publisher",
    "source_metrics": "lag",
}
__all__ = ["SCHEMA", "LeveretDataSource", "LeveretListener", "publish_each_batch", "register", "source_metrics"]


def __getattr__(name: str) -> object:
    """Imports Spark on first use: the command line lists the pipelines without it."""
    if name not in MODULES:
        raise AttributeError(f"module 'leveret.spark' has no attribute {name!r}")
    return getattr(import_module(f"leveret.spark.{MODULES[name]}"), name)


def register(spark: SparkSession, *, carry_code: bool = False) -> None:
    """Register `format("leveret")` in this session.

    `carry_code` sends the code to the executors with each task, for clusters whose nodes have pyarrow but not this
    package (if it is passed with --py-files, for example).
    """
    from leveret.spark.source import LeveretDataSource

    if carry_code:
        from pyspark import cloudpickle

        # The whole package `leveret`: this subpackage imports errors and the version from it.
        package = sys.modules[__name__.partition(".")[0]]
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    spark.dataSource.register(LeveretDataSource)
