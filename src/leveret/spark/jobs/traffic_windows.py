"""Counts, sizes and latencies of messages in time windows, which can be added to each other.

A row is one window of one group: numbers of messages and bytes, and sketches (KLL) of sizes and latencies, from which
percentiles are computed. Rows of the same window and group are merged to one, whichever messages came first.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
WINDOW = ("window_start", "window_end")
GROUPS = ("exchange", "routing_key", "queue")
SKETCHES = {"size": "sizes", "latency_ms": "latencies"}
INTERNAL = (*SKETCHES.values(), "newest", "rows")  # needed to merge rows
ACCURACY = 1_000  # of a sketch: exact up to about as many values; beyond that, ranks differ by less than 1 %


def by_window(messages: DataFrame, groups: Sequence[str], window: str, slide: str) -> DataFrame:
    """``messages``: timestamp, groups, size and latency_ms. ``rows`` counts each message in its last window only."""
    windows = messages.withColumn("window", F.window("timestamp", window, slide))
    is_last = F.col("window.start") + F.expr(f"INTERVAL '{slide}'") > F.col("timestamp")
    each = windows.withColumn("is_last", is_last).groupBy("window", *groups)
    return aggregated(each, groups, F.count_if("is_last"))


def aggregated(by_window: GroupedData, groups: Sequence[str], rows: Column) -> DataFrame:
    found = by_window.agg(
        F.count("*").alias("messages"),
        F.sum("size").alias("bytes"),
        *(F.kll_sketch_agg_bigint(values, F.lit(ACCURACY)).alias(name) for values, name in SKETCHES.items()),
        F.max(F.unix_micros("timestamp")).alias("newest"),
        rows.alias("rows"),
    )
    return found.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *groups,
        "messages",
        "bytes",
        *SKETCHES.values(),
        "newest",
        "rows",
    )


def merged(rows: DataFrame, groups: Sequence[str]) -> DataFrame:
    return rows.groupBy(*WINDOW, *groups).agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        *(F.kll_merge_agg_bigint(name).alias(name) for name in SKETCHES.values()),
        F.max("newest").alias("newest"),
        F.sum("rows").alias("rows"),
    )


def is_closed(watermark: int | None) -> Column:
    """Whether the window ended before this time, in microseconds."""
    return F.lit(False) if watermark is None else F.unix_micros("window_end") <= F.lit(watermark)


def with_percentiles(rows: DataFrame, groups: Sequence[str], internal: Sequence[str] = INTERNAL) -> DataFrame:
    """Rows as they are written: the percentiles, and the columns for later merges."""
    found = [
        percentile(sketch, share).alias(f"{values}_{name}")
        for values, sketch in SKETCHES.items()
        for name, share in PERCENTILES.items()
    ]
    return rows.select(*WINDOW, *groups, "messages", "bytes", *found, *internal)


def percentile(sketch: str, share: float) -> Column:
    """Null if no message has the value: an empty sketch has no percentiles."""
    is_empty = F.kll_sketch_get_n_bigint(sketch) == 0
    return F.when(~is_empty, F.kll_sketch_get_quantile_bigint(sketch, F.lit(share)))


def latest(rows: DataFrame, groups: Sequence[str]) -> DataFrame:
    """The row with the highest revision of each window and group."""
    keys = [*WINDOW, *groups]
    others = [name for name in rows.columns if name not in keys]
    last = rows.groupBy(*keys).agg(F.max_by(F.struct(*others), "revision").alias("last"))
    return last.select(*keys, "last.*")
