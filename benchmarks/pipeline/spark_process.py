"""The Spark side of a measurement, in a process of its own: `python -m benchmarks.pipeline.spark_process JOB`.

local[2], as on a user's machine. A pass is a streaming query with AvailableNow. Its rate comes from the query's own
progress, without the first batch, in which Python workers start and the JVM compiles; the time from start to end of the
whole query is reported as well. The results go to standard output as one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.pipeline.cost import between, reading
from benchmarks.pipeline.job import NEWS, Job, Line, Pass, Sink, Source
from benchmarks.pipeline.pika_source import PikaSource

PASS_SECONDS = 150
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "4g",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.session.timeZone": "UTC",
}


class SparkSide:
    """One session and what is measured with it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._folder = Path(job.folder)
        self._pids = {"broker": job.broker_pid, "spark": os.getpid()}
        begun = time.monotonic()
        self.spark = session(self._folder)
        self.session_seconds = time.monotonic() - begun
        if any(each.source.format == PikaSource.name() for each in job.passes):
            self.spark.dataSource.register(PikaSource)
        if job.listener_options is not None:
            from leveret.spark import LeveretListener

            self.spark.streams.addListener(LeveretListener(job.listener_options))

    def run(self) -> Line:
        job = self._job
        line: Line = {"session_s": round(self.session_seconds, 2), "spark": self.spark.version}
        line["passes"] = [self._run_pass(number, each) for number, each in enumerate(job.passes)]
        if job.batch is not None:
            assert job.nothing is not None
            line["batch"] = self._run_batch(job.batch, job.nothing)
        if job.output is not None:
            line["output"] = sums_of(self._read(job.output), has_headers=False)
        self.spark.stop()
        return line

    def _run_pass(self, number: int, wanted: Pass) -> Line:
        frame = self.spark.readStream.format(wanted.source.format).options(**wanted.source.options).load()
        if wanted.observe:
            frame = frame.observe("sums", *sums(has_headers=self._job.has_headers))
        start = reading(self._pids)
        query = self._start(frame, wanted.sink, self._folder / f"checkpoint-{number}")
        batches = self._follow(query, wanted.role)
        cost = between(start, reading(self._pids))
        return {"role": wanted.role, **cost, **rates(batches, cost["seconds"]), "batches": batches}

    def _start(self, frame: DataFrame, sink: Sink, checkpoint: Path) -> StreamingQuery:
        if sink.kind == "exchange":
            frame = frame.select("body", "routing_key")
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        if sink.kind == "parquet":
            return writer.format("parquet").start(sink.path)
        if sink.kind == "exchange":
            return writer.format("leveret").options(**sink.options).start()
        return writer.format("noop").start()

    def _follow(self, query: StreamingQuery, role: str) -> list[Line]:
        """Until the query has ended; its batches that had rows."""
        deadline = time.monotonic() + PASS_SECONDS
        told = 0
        while True:
            is_over = query.awaitTermination(1)
            batches = [batch_of(progress.json) for progress in query.recentProgress]
            found = [batch for batch in batches if batch["rows"]]
            for batch in found[told:]:
                say(f"{role}: {batch['rows']:,} rows in {batch['ms'] / 1000:.2f} s")
            told = len(found)
            if is_over:
                return found
            if time.monotonic() > deadline:
                query.stop()
                raise TimeoutError(f"the query was not done after {PASS_SECONDS} s, {told} batches were")

    def _run_batch(self, source: Source, nothing: Source) -> Line:
        """PySpark starts its Python processes for a queue without messages; then comes the first read that has some,
        the same once more, and what was read."""
        begun = time.monotonic()
        self._read(nothing).write.format("noop").mode("append").save()
        python_seconds = time.monotonic() - begun
        start = reading(self._pids)
        self._read(source).write.format("noop").mode("append").save()
        cost = between(start, reading(self._pids)) | {"python_start_s": python_seconds}
        begun = time.monotonic()
        self._read(source).write.format("noop").mode("append").save()
        cost["again_s"] = time.monotonic() - begun
        return cost | sums_of(self._read(source), has_headers=self._job.has_headers)

    def _read(self, source: Source) -> DataFrame:
        if source.format == "parquet":
            return self.spark.read.parquet(source.options["path"])
        return self.spark.read.format(source.format).options(**source.options).load()


def session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    places = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Two cores and short-lived garbage: the collector that docs/guide/spark.md advises for one small machine.
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -XX:+UseParallelGC",
    }
    for name, value in (SETTINGS | places).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sums(*, has_headers: bool) -> list[Column]:
    attempts = F.sum(F.element_at("headers", "attempt").cast("long")) if has_headers else F.lit(0).cast("long")
    columns = [F.count(F.lit(1)).alias("rows"), F.sum(F.crc32("body")).alias("crc")]
    return [*columns, attempts.alias("attempts")] if has_headers else columns


def sums_of(frame: DataFrame, *, has_headers: bool) -> Line:
    row = frame.agg(*sums(has_headers=has_headers)).first()
    assert row is not None
    return {"sums": row.asDict()}


def batch_of(progress: str) -> Line:
    """What counts of a batch's progress."""
    given = json.loads(progress)
    batch = {"batch": given["batchId"], "rows": given["numInputRows"], "ms": given["durationMs"]["triggerExecution"]}
    observed = given.get("observedMetrics") or {}
    return batch | {"durations_ms": given["durationMs"]} | ({"sums": observed["sums"]} if "sums" in observed else {})


def rates(batches: list[Line], seconds: float) -> Line:
    """Rows per second by the query's progress and by the clock. One batch alone is counted with its warming up."""
    rows = sum(batch["rows"] for batch in batches)
    counted = batches[1:] or batches
    milliseconds = sum(batch["ms"] for batch in counted)
    return {
        "rows": rows,
        "rate": round(sum(batch["rows"] for batch in counted) / max(milliseconds, 1) * 1000),
        "wall_rate": round(rows / seconds),
        "is_warm": len(batches) > 1,
    }


def say(text: str) -> None:
    """A progress line; standard error is full of Spark's own output."""
    os.write(int(os.environ.get(NEWS, "2")), f"    {text}\n".encode())


if __name__ == "__main__":
    print(json.dumps(SparkSide(Job.from_json(sys.argv[1])).run()))
