"""Batch writes of Spark: Parquet, a Python sink that drops its rows, and ours with both guarantees, in turn in one run.

`python -m benchmarks.pipeline.sink_rates [--rows N] [--rounds N] [--partitions N] [--ways parquet]` starts a broker and
a session of local[2] and prints a JSON line for each write: rows per second, and microseconds of CPU per row of the
JVM, of Spark's Python processes and of the broker. The lines also go to benchmarks/results. To compare two versions,
run it in turn in their checkouts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.brokers import descendants
from benchmarks.pipeline.bodies import SIZE
from benchmarks.pipeline.cost import TICKS, cpu_seconds, reading
from benchmarks.pipeline.provisions import LeveretWithHttp, channel_to, declare_outlet, wait_for_messages
from benchmarks.pipeline.raw_lines import RawLines
from benchmarks.pipeline.run import now
from benchmarks.pipeline.spark_process import session
from benchmarks.report import machine

MODULE = "benchmarks.pipeline.sink_rates"
SUFFIX = "x" * (SIZE - 20)
WAYS = ("parquet", "nothing", "at-least-once", "exactly-once")


class NothingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class NothingSink(DataSource):
    """What PySpark itself needs to hand rows to a Python sink."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return NothingWriter()


def python_seconds(pid: int) -> float:
    """CPU of the Python processes below the JVM, also of those that have ended: all of the tree but the JVM itself."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    own = sum(int(field) for field in stat.rpartition(")")[2].split()[11:13]) / TICKS
    return cpu_seconds(pid) - own


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


class Rates:
    def __init__(self, spark: SparkSession, broker: LeveretWithHttp, folder: Path, rows: int, partitions: int) -> None:
        self._spark, self._broker, self._folder, self._rows = spark, broker, folder, rows
        self._partitions = partitions
        self._written = 0

    def measure(self, way: str) -> dict[str, Any]:
        self._written += 1
        write = self._write(way)
        jvm = next(each for each in descendants(os.getpid()) if "java" in command_of(each).split(" ")[0])
        before, python = reading({"broker": self._broker.pid, "jvm": jvm}), python_seconds(jvm)
        write()
        after, python = reading({"broker": self._broker.pid, "jvm": jvm}), python_seconds(jvm) - python
        if way in WAYS[2:]:
            wait_for_messages(self._broker, [f"out-{self._written}"], self._rows)
            with channel_to(self._broker) as channel:
                channel.queue_delete(f"out-{self._written}")
        seconds = after.time - before.time
        trees = {name: after.trees[name] - before.trees[name] for name in after.trees}
        trees = {"jvm": trees["jvm"] - python, "python": python, "broker": trees["broker"]}
        per_row = {f"{name}_us_per_row": round(spent / self._rows * 1e6, 2) for name, spent in trees.items()}
        other = after.busy - before.busy - sum(trees.values())
        line = {"way": way, "rows_per_s": round(self._rows / seconds), "seconds": round(seconds, 2)}
        return line | per_row | {"others_busy_cores": round(other / seconds, 2)}

    def _write(self, way: str) -> Callable[[], None]:
        frame = self._frame()
        if way == "parquet":
            return lambda: frame.write.parquet(str(self._folder / f"out-{self._written}"))
        writer = frame.write.format("nothing" if way == "nothing" else "leveret").mode("append")
        if way != "nothing":
            name = f"out-{self._written}"
            declare_outlet(self._broker, name, name, "classic")
            writer = writer.options(endpoint=self._broker.endpoint, exchange=name, guarantee=way)
        return writer.save

    def _frame(self) -> DataFrame:
        frame = self._spark.range(0, self._rows, 1, self._partitions)
        return frame.selectExpr(f"concat(lpad(cast(id as string), 20, '0'), '{SUFFIX}') as body")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=MODULE, description=__doc__)
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--rounds", type=int, default=3, help="of all writes; the first one warms up")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args(arguments)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="leveret-bench-", ignore_cleanup_errors=True) as folder:
        with LeveretWithHttp(Path(folder) / "broker", sys.executable) as broker:
            spark = session(Path(folder))
            spark.dataSource.register(NothingSink)
            raw = RawLines("spark-sinks")
            raw.keep({"machine": machine(), "date": now(), "command": f"python -m {MODULE} {given(options)}"})
            rates = Rates(spark, broker, Path(folder), options.rows, options.partitions)
            for number in range(options.rounds):
                for way in options.ways.split(","):
                    line = {"round": number, "rows": options.rows, **rates.measure(way)}
                    print(json.dumps(line), flush=True)
                    raw.keep(line)
            spark.stop()


def given(options: argparse.Namespace) -> str:
    sizes = f"--rows {options.rows} --rounds {options.rounds} --partitions {options.partitions}"
    return f"{sizes} --ways {options.ways}"


if __name__ == "__main__":
    main()
