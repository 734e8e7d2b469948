"""`make bench-spark-reads`: batch reads of the same rows beside each other, in one Spark session.

Spark passes neither columns nor limits to a Python source, so the price of a row has three parts: what the JVM does
with it, what the Python worker does, and what the broker does. An empty Python source, which only hands over Arrow
batches from memory, and Parquet show what is Spark's own part. Each read runs once to warm up, then some times; the
table has medians. Raw lines go to benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.brokers import descendants
from benchmarks.pipeline.cost import between, cpu_seconds, reading
from benchmarks.pipeline.measures import Measures
from benchmarks.pipeline.provisions import SHARDS, LeveretWithHttp
from benchmarks.pipeline.raw_lines import RawLines
from benchmarks.pipeline.run import now, say
from benchmarks.pipeline.spark_process import session
from benchmarks.report import machine

MODULE = "benchmarks.pipeline.reads"
NAME = "bench.reads"
BODY = bytes(100)
BATCH_ROWS = 10_000
TWO_COLUMNS = "body BINARY, offset BIGINT"
HEADINGS = ("read of", "action", "rows/s", "rows per CPU s", "CPU JVM", "CPU Python", "CPU broker")


class EmptySource(DataSource):
    """Hands over the same Arrow batch again and again."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return TWO_COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return EmptyReader(int(self.options["rows"]))


class EmptyReader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(SHARDS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        columns = [pa.array([BODY] * BATCH_ROWS), pa.array(range(BATCH_ROWS), pa.int64())]
        batch = pa.RecordBatch.from_arrays(columns, ["body", "offset"])
        left = self._rows // SHARDS
        while left > 0:
            yield batch.slice(0, min(left, BATCH_ROWS))
            left -= BATCH_ROWS


class Read(NamedTuple):
    what: str
    action: str
    frame: DataFrame

    def run(self) -> int | None:
        if self.action == "count":
            return self.frame.count()
        self.frame.write.format("noop").mode("append").save()
        return None


def reads(spark: SparkSession, broker: LeveretWithHttp, rows: int, folder: Path) -> Iterator[Read]:
    def leveret() -> DataFrameReader:  # a new one each time: a reader keeps the schema that is set
        reader = spark.read.format("leveret").options(superStream=NAME, startingOffsets="earliest")
        return reader.option("endpoint", broker.endpoint)

    spark.dataSource.register(EmptySource)
    path = str(folder / "parquet")
    leveret().schema(TWO_COLUMNS).load().write.parquet(path)
    yield Read("range", "noop", spark.range(0, rows, numPartitions=SHARDS))
    yield Read("Parquet, 2 columns", "noop", spark.read.parquet(path))
    yield Read("empty Python source, 2 columns", "noop", spark.read.format("empty").option("rows", rows).load())
    yield Read("leveret, 2 columns", "noop", leveret().schema(TWO_COLUMNS).load())
    yield Read("leveret, offset only", "count", leveret().schema("offset BIGINT").load())
    yield Read("leveret, all columns", "count", leveret().load())
    yield Read("leveret, all columns", "noop", leveret().load())


def parts_of_cpu(broker: int) -> dict[str, float]:
    """CPU seconds of the JVM, of Python's workers (below the JVM) and of the broker."""
    below = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
    java = next(pid for pid in below if "java" in Path(f"/proc/{pid}/comm").read_text())
    jvm = own_cpu_seconds(java)
    return {"jvm": jvm, "python": cpu_seconds(java) - jvm, "broker": cpu_seconds(broker)}


def own_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def measured(each: Read, rows: int, rounds: int, broker: int) -> dict[str, object]:
    runs = []
    each.run()
    for _ in range(rounds):
        start, before = reading({"broker": broker, "spark": os.getpid()}), parts_of_cpu(broker)
        found = each.run()
        assert found in (None, rows), f"{each.what}: {found} rows were counted, not {rows}"
        cost, after = between(start, reading({"broker": broker, "spark": os.getpid()})), parts_of_cpu(broker)
        runs.append({"seconds": cost["seconds"], "other": cost["other_cpu_s"]})
        runs[-1] |= {name: after[name] - before[name] for name in after}
    medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
    cpu = medians["jvm"] + medians["python"] + medians["broker"]
    rates = {"rows_per_s": round(rows / medians["seconds"]), "rows_per_cpu_s": round(rows / cpu)}
    return {"what": each.what, "action": each.action, "rows": rows, **rates, **medians}


def row_of(line: dict[str, object]) -> str:
    rates = [f"{line[name]:,}" for name in ("rows_per_s", "rows_per_cpu_s")]
    parts = [f"{line[name]:.2f} s" for name in ("jvm", "python", "broker")]
    return "| " + " | ".join([str(line["what"]), str(line["action"]), *rates, *parts]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(prog=MODULE, description=__doc__)
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name, LeveretWithHttp(Path(name) / "broker", sys.executable) as broker:
        Measures(broker, Path(name), say).super_stream(NAME, options.rows)
        spark = session(Path(name))
        head = {"machine": machine(), "date": now(), "command": f"python -m {MODULE} {given(options)}"}
        print(json.dumps(head))
        raw = RawLines("spark-reads")
        raw.keep(head)
        print("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|")
        for each in reads(spark, broker, options.rows, Path(name)):
            line = measured(each, options.rows, options.rounds, broker.pid)
            print(row_of(line), flush=True)
            raw.keep(line)
        spark.stop()
    say(f"raw lines: {raw.path.name}")


def given(options: argparse.Namespace) -> str:
    return f"--rows {options.rows} --rounds {options.rounds}"


if __name__ == "__main__":
    main()
