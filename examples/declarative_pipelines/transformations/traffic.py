"""The traffic pipeline: counts and percentiles in windows as a table, and the measured messages to an exchange.

Both read the archive. The windows are a materialized view: each run computes them from the whole archive, so every
message is in its window, however late its partition was read. A streaming table would need a watermark, and Spark would
silently drop messages behind it. For the same reason the sink gets messages and not windows: a flow only appends, and
cannot revise a window.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.spark.jobs.traffic import TrafficOptions, counted, measured

spark = SparkSession.active()
OPTIONS = TrafficOptions(super_stream=spark.conf.get("leveret.superStream"), path="unused", window="10 seconds")


@dp.materialized_view(format="parquet", comment="messages, bytes, sizes and latencies in windows of time")
def traffic() -> DataFrame:
    return counted(spark.read.table("archive"), OPTIONS)


dp.create_sink(
    "results",
    "leveret",
    {"endpoint": spark.conf.get("leveret.endpoint"), "exchange": spark.conf.get("leveret.results")},
)


@dp.append_flow(target="results")
def publish() -> DataFrame:
    facts = measured(spark.readStream.table("archive"), OPTIONS)
    return facts.select(F.to_json(F.struct("*")).alias("body"), F.lit("measured").alias("routing_key"))
