"""A Spark driver as a process of its own: pipelines side by side, until all is carried over or for ever.

Started by `tests/support/spark_kills.py` with a plan as JSON. It ends with 0 when all queries have ended well.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("body", "properties", "headers")
BEGINNING = ("Initializing", "Starting")
SLOW_START = "failed to connect back"
ATTEMPTS = 5


def session_of(plan: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.appName("leveret-proof")
    for name, value in plan["settings"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def ancestors() -> Iterator[int]:
    """This process and those it came from."""
    pid = os.getpid()
    while pid > 1:
        yield pid
        with open(f"/proc/{pid}/stat") as stat:
            pid = int(stat.read().rpartition(")")[2].split()[1])


def signed(frame: DataFrame, label: str) -> DataFrame:
    """The headers of each row name the processes that handled it, and where these find the package."""

    def sign(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.util

        import pyarrow as pa

        way = " ".join(map(str, ancestors()))
        found = importlib.util.find_spec("leveret")
        place = "absent" if found is None else str(found.origin)
        for batch in batches:
            old = batch.column("headers").to_pylist()
            new = [[*(headers or []), (label, way), (f"package-{label}", place)] for headers in old]
            at = batch.schema.get_field_index("headers")
            yield batch.set_column(at, batch.schema.field(at), pa.array(new, batch.schema.field(at).type))

    return frame.mapInArrow(sign, frame.schema)


def start(spark: SparkSession, plan: dict[str, Any], pipeline: dict[str, Any]) -> StreamingQuery:
    """From a source through a shuffle into the exchange that has the pipeline's name."""
    source = spark.readStream.format("leveret").options(endpoint=plan["endpoint"], **pipeline["source"])
    frame = source.load().select(*COLUMNS)
    if pipeline["signed"]:
        frame = signed(signed(frame, "read").repartition(plan["shuffled"], "body"), "written")
    else:
        frame = frame.repartition(plan["shuffled"], "body")
    if pipeline["each_batch"]:
        from leveret.spark import publish_each_batch

        each = publish_each_batch(pipeline["sink"], endpoint=plan["endpoint"])
        sink = frame.writeStream.outputMode("update").foreachBatch(each)
    else:
        sink = frame.writeStream.format("leveret").options(endpoint=plan["endpoint"], **pipeline["sink"])
    sink = sink.option("checkpointLocation", pipeline["checkpoint"]).queryName(pipeline["name"])
    return (sink if plan["endless"] else sink.trigger(availableNow=True)).start()


def start_patiently(spark: SparkSession, plan: dict[str, Any], pipeline: dict[str, Any]) -> StreamingQuery:
    """One after the other: Spark gives the process of a source ten seconds to start, however busy the machine is."""
    for _ in range(ATTEMPTS):
        query = start(spark, plan, pipeline)
        while query.isActive and query.status["message"].startswith(BEGINNING):
            time.sleep(0.05)
        problem = query.exception()
        if problem is None or SLOW_START not in str(problem):
            break
    return query


def main(plan: dict[str, Any]) -> None:
    spark = session_of(plan)
    for pipeline in plan["pipelines"]:
        if pipeline["is_first"]:  # with the source that Spark finds by itself
            start_patiently(spark, plan, pipeline).awaitTermination()
    if plan["trapped"]:
        from tests.support.failpoint_source import FailpointSource

        spark.dataSource.register(FailpointSource)
    if plan["carried"]:
        from leveret.spark import register

        register(spark, carry_code=True)
    others = [pipeline for pipeline in plan["pipelines"] if not pipeline["is_first"]]
    queries = [start_patiently(spark, plan, pipeline) for pipeline in others]
    with open(plan["begun"], "w") as file:
        file.write(json.dumps({query.name: str(query.id) for query in queries}))
    jobs = []
    if plan["jobs"]:
        from tests.support.table_driver import started_jobs

        jobs = started_jobs(spark, plan)
    for query in queries:
        query.awaitTermination()
    with open(plan["reports"], "w") as file:
        file.writelines(f"{job.wait() and job.report().accounts[0]}\n" for job in jobs)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
