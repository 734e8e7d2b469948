"""Keys and times of messages, as SQL in options gives them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from leveret.spark.jobs.durations import LATEST

HEADER = "header:"
ROUTING_KEY = "routing-key"
ARRIVAL = "timestamp"  # the column with the time of arrival


def key_of(by: str) -> Column:
    """``header:NAME``, ``routing-key`` or an SQL expression."""
    if by.startswith(HEADER):
        return F.col("headers")[by.removeprefix(HEADER)]
    return F.col("routing_key") if by == ROUTING_KEY else F.expr(by).cast("string")


def milliseconds_since_1970(sql: str) -> Column:
    return F.unix_millis(F.expr(sql).try_cast("timestamp"))


def reason_of(by: str, time: str) -> Column:
    """Why a message with the columns ``key`` and ``time`` has no place in the state; null if it has one."""
    reason = F.when(F.col("key").isNull(), F.lit(f"the key ({by}) is null"))
    reason = reason.when(F.col("time").isNull(), F.lit(f"the time ({time}) is null or no timestamp"))
    return reason.when(~F.col("time").between(0, LATEST), F.lit(f"the time ({time}) is not between 1970 and 9999"))
