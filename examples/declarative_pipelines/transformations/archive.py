"""The archive pipeline: every message of a sharded exchange, in folders by date, hour and queue."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from leveret.spark.jobs.archive import FOLDERS, by_arrival

spark = SparkSession.active()


@dp.table(format="parquet", partition_cols=[*FOLDERS], comment="all messages, by arrival")
def archive() -> DataFrame:
    return by_arrival(
        spark.readStream.format("leveret")
        .option("endpoint", spark.conf.get("leveret.endpoint"))
        .option("superStream", spark.conf.get("leveret.superStream"))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
