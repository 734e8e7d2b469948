"""Where Spark looks: a module `pyspark_<name>` with a class `DefaultSource` makes `format("<name>")` known."""

from __future__ import annotations

from leveret.spark.source import LeveretDataSource


class DefaultSource(LeveretDataSource):
    """`format("leveret")`, without registering anything."""
