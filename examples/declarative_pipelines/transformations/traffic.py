"""The traffic pipeline: counts and percentiles in windows, as a table and as messages to an exchange.

The messages are read here and not from a view of the project: Spark resolves the input of a watermark while it builds
the project, and does not find a view then.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from leveret.spark.jobs.traffic import TrafficOptions, as_messages, counted

spark = SparkSession.active()
SOURCE = spark.conf.get("leveret.superStream")
OPTIONS = TrafficOptions(super_stream=SOURCE, path="unused", window="10 seconds", late="5 seconds")


@dp.table(format="parquet", comment="messages, bytes, sizes and latencies in windows of time")
def traffic() -> DataFrame:
    return counted(
        spark.readStream.format("leveret")
        .option("endpoint", spark.conf.get("leveret.endpoint"))
        .option("superStream", SOURCE)
        .option("startingOffsets", "earliest")
        .load(),
        OPTIONS,
    )


dp.create_sink(
    "results",
    "leveret",
    {"endpoint": spark.conf.get("leveret.endpoint"), "exchange": spark.conf.get("leveret.results")},
)


@dp.append_flow(target="results")
def publish() -> DataFrame:
    return as_messages(spark.readStream.table("traffic"))
