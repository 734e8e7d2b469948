"""Leveret for Spark: `format("leveret")` reads queues and streams, and writes to exchanges.

spark.readStream.format("leveret").option("queue", "orders").load()

Spark finds the format by itself where the package is installed. This package needs `pip install 'leveret[spark]'` and
imports nothing of the broker: it speaks HTTP to it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.listener import LeveretListener
    from leveret.spark.schema import SCHEMA
    from leveret.spark.source import LeveretDataSource

__all__ = ["SCHEMA", "LeveretDataSource", "LeveretListener", "register"]


def __getattr__(name: str) -> object:
    """Imports Spark on first use: the command line lists the pipelines without it."""
    if name == "LeveretDataSource":
        from leveret.spark.source import LeveretDataSource

        return LeveretDataSource
    if name == "LeveretListener":
        from leveret.spark.listener import LeveretListener

        return LeveretListener
    if name == "SCHEMA":
        from leveret.spark.schema import SCHEMA

        return SCHEMA
    raise AttributeError(f"module 'leveret.spark' has no attribute {name!r}")


def register(spark: SparkSession, *, carry_code: bool = False) -> None:
    """Make `format("leveret")` known to this session.

    With `carry_code` the code travels to the executors with each task, for clusters whose nodes have pyarrow but not
    this package (one that is given by --py-files, say).
    """
    from leveret.spark.source import LeveretDataSource

    if carry_code:
        from pyspark import cloudpickle

        # The whole package: this one imports errors and the version from beside it.
        package = sys.modules[__name__.partition(".")[0]]
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    spark.dataSource.register(LeveretDataSource)
