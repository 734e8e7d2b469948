"""Whole queries, with a listener that tells the broker about them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import leveret
from leveret.spark import SCHEMA, LeveretListener, register
from leveret.spark.errors import BrokerUnreachable
from leveret.spark.fetch import Fetch, RangePartition
from leveret.spark.options import connection_options
from leveret.spark.progress import COUNTS
from leveret.spark.shape import Shape
from tests.support.spark_broker import SparkBroker, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def listening(spark: SparkSession, broker: SparkBroker) -> Iterator[None]:
    listener = LeveretListener({"endpoint": broker.endpoint})
    spark.streams.addListener(listener)
    yield
    spark.streams.removeListener(listener)


def from_queue(spark: SparkSession, broker: SparkBroker, queue: str, checkpoint: Path, rows: Path) -> StreamingQuery:
    """From a classic queue through a shuffle into files."""
    read = spark.readStream.format("leveret").options(endpoint=broker.endpoint, queue=queue, consumerName="spark")
    counted = read.option("maxOffsetsPerTrigger", "10").load().repartition(2).selectExpr("cast(body as string) as body")
    written = counted.writeStream.format("text").option("path", str(rows)).queryName("from queue")
    return written.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def report_of(broker: SparkBroker, query: StreamingQuery) -> dict[str, Any]:
    found = [report for report in broker.ask("GET", "queries")["queries"] if report["id"] == query.id]
    return found[0] if found else {}


def has_stopped(broker: SparkBroker, query: StreamingQuery) -> bool:
    """This run of it: the next one with the same checkpoint has the same id."""
    report = report_of(broker, query)
    return (report.get("run_id"), report.get("state")) == (query.runId, "stopped")


@pytest.mark.usefixtures("listening")
def test_a_classic_queue_is_emptied_once_over_two_runs(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    queue = broker.queue("emptied", [str(n) for n in range(15)])
    first = from_queue(spark, broker, queue, tmp_path / "checkpoint", tmp_path / "rows")
    assert first.awaitTermination(120)
    broker.publish(queue, [str(n) for n in range(15, 20)])
    second = from_queue(spark, broker, queue, tmp_path / "checkpoint", tmp_path / "rows")
    assert second.awaitTermination(120)
    assert sorted(int(row.value) for row in spark.read.text(str(tmp_path / "rows")).collect()) == list(range(20))
    leases = broker.ask("GET", "%2F/leases", queue=queue)
    assert (leases["leases"], leases["consumers"][0]["committed"]) == ([], 3)
    assert broker.bodies(queue) == []
    eventually(lambda: has_stopped(broker, second))
    report = report_of(broker, second)
    assert (report["name"], report["batch"], report["rows"], report["lag"]) == ("from queue", 2, 5, 0)


@pytest.mark.usefixtures("listening")
def test_the_listener_commits_a_batch_that_nothing_follows(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    stream = broker.stream("watched", [str(n) for n in range(5)])
    queue = broker.queue("watched", "abc")
    read = spark.readStream.format("leveret").option("endpoint", broker.endpoint)
    counting = read.options(queue=stream, startingOffsets=f'{{"{stream}": 0}}', maxOffsetsPerTrigger="2").load()
    taking = spark.readStream.format("leveret").options(endpoint=broker.endpoint, queue=queue, consumerName="once")
    both = counting.select("body").union(taking.load().select("body"))
    # Only one batch, so the source is never asked what follows it.
    query = both.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(once=True).start()
    assert query.awaitTermination(120)
    eventually(lambda: broker.ask("GET", "%2F/leases", queue=queue)["leases"] == [])
    eventually(lambda: has_stopped(broker, query))
    assert report_of(broker, query)["rows"] == 8


def test_a_report_has_everything_that_the_page_of_a_query_shows(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path
) -> None:
    described = {"seen": {"steps": ["seen", "by body"], "sink": "exchange x"}}
    listener = LeveretListener({"endpoint": broker.endpoint}, described)
    spark.streams.addListener(listener)
    stream = broker.stream("seen", [str(number % 4) for number in range(10)])
    read = spark.readStream.format("leveret").options(endpoint=broker.endpoint, queue=stream, maxOffsetsPerTrigger="5")
    rows = read.option("startingOffsets", "earliest").load().select("body", "timestamp")
    once = rows.dropDuplicates(["body"]).observe("leveret rows: out", F.count(F.lit(1)).alias("out"))
    writing = once.writeStream.option("checkpointLocation", str(tmp_path / "seen")).trigger(availableNow=True)
    good = writing.format("noop").queryName("seen").start()
    assert good.awaitTermination(120)
    eventually(lambda: has_stopped(broker, good))
    report = report_of(broker, good)
    assert report["steps"] == ["seen", "by body"]
    once_each = {"read": 10, "out": 4, "duplicates": 6}
    assert (report["sink"], report["counts"], report["rows_per_second"]) == ("exchange x", once_each, 0)
    [operator] = report["state_operators"]
    assert (operator["name"], operator["rows"], operator["late_rows"]) == ("dedupe", 4, 0)
    assert operator["memory_bytes"] > 0
    assert report["batch_ms"] >= report["duration_ms"]["addBatch"] > 0
    assert report["duration_ms"]["triggerExecution"] > 0

    sent = rows.select("body").writeStream.option("checkpointLocation", str(tmp_path / "bad"))
    bad = sent.format("leveret").options(endpoint=broker.endpoint, exchange="nowhere", routingKey="k").start()
    with pytest.raises(StreamingQueryException):
        bad.awaitTermination(120)
    eventually(lambda: report_of(broker, bad).get("state") == "failed")
    spark.streams.removeListener(listener)
    assert report_of(broker, bad)["error"].startswith("POST "), report_of(broker, bad)
    assert "no exchange 'nowhere' in vhost '/'" in report_of(broker, bad)["error"]


def test_lag_is_what_waits_behind_the_batch(broker: SparkBroker) -> None:
    stream, queue, query = broker.stream("behind", "abcde"), broker.queue("behind", "xyz"), broker.name("query")
    python = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"
    lease = {"consumer": "nobody", "lease": 0, "queue": queue, "vhost": "/"}
    sources = [
        {"description": python, "endOffset": {stream: 1}},
        {"description": python, "endOffset": lease},
        {"description": python, "endOffset": {"no-such-queue": 1}},
    ]
    told = {"id": query, "runId": "r", "timestamp": "t", "batchId": 0, "sources": sources}
    event = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(told)))
    LeveretListener({"endpoint": broker.endpoint}).onQueryProgress(event)  # type: ignore[arg-type]
    [report] = [one for one in broker.ask("GET", "queries")["queries"] if one["id"] == query]
    assert [source["lag"] for source in report["sources"]] == [4, 3, None]
    assert report["lag"] == 7


def test_the_last_report_has_the_counts_of_a_batch_whose_report_was_lost(
    broker: SparkBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, query = broker.stream("counted", "abc"), broker.name("query")
    python = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"
    source = {"description": python, "endOffset": {stream: 3}, "numInputRows": 3}
    batch = {"durationMs": {"addBatch": 1}, "observedMetrics": {f"{COUNTS}counted": {"out": 3}}}
    told = {"id": query, "runId": "r", "timestamp": "t", "batchId": 0, "sources": [source], **batch}
    progress = SimpleNamespace(progress=SimpleNamespace(json=json.dumps(told)))

    def unreachable(*_: object) -> None:
        raise BrokerUnreachable("no answer")

    monkeypatch.setattr("leveret.spark.listener.behind", unreachable)
    listener: Any = LeveretListener({"endpoint": broker.endpoint})
    listener.onQueryProgress(progress)
    listener.onQueryTerminated(SimpleNamespace(id=query, runId="r", exception=None))
    [report] = [one for one in broker.ask("GET", "queries")["queries"] if one["id"] == query]
    assert (report["state"], report["counts"]) == ("stopped", {"read": 3, "out": 3})


def test_a_listener_without_a_broker_hurts_no_query(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = LeveretListener({"endpoint": "http://127.0.0.1:9"})
    spark.streams.addListener(listener)
    stream = broker.stream("unheard", "abc")
    read = spark.readStream.format("leveret").options(endpoint=broker.endpoint, queue=stream)
    with caplog.at_level(logging.WARNING, logger="leveret.spark.listener"):
        rows = read.option("startingOffsets", "earliest").load().writeStream.format("noop")
        query = rows.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert query.exception() is None
        eventually(lambda: bool(caplog.records))
    spark.streams.removeListener(listener)
    assert [record.getMessage()[:36] for record in caplog.records] == ["query progress cannot be sent to the"]


def test_credentials_show_in_no_plan(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("guest\n")
    stream = broker.stream("plan", "a")
    options = {"endpoint": broker.endpoint, "username": "guest", "credentialsFile": str(tmp_path / "file")}
    frame = spark.read.format("leveret").options(queue=stream, **options).load().filter("offset >= 0")
    assert frame.count() == 1
    frame.explain(extended=True)
    shown = capsys.readouterr().out
    assert "guest" not in shown
    with pytest.raises(Exception, match="option password is not allowed") as caught:
        spark.read.format("leveret").options(queue=stream, endpoint=broker.endpoint, password="hunter2").load()
    assert "hunter2" not in str(caught.value)


def test_a_registered_source_is_the_same(spark: SparkSession, broker: SparkBroker) -> None:
    stream = broker.stream("registered", "ab")
    register(spark)
    assert spark.read.format("leveret").options(endpoint=broker.endpoint, queue=stream).load().count() == 2


ELSEWHERE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("leveret", "pyspark_leveret"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
fetch, part = cloudpickle.loads(sys.stdin.buffer.read())
print(sum(batch.num_rows for batch in fetch.range(part)))
"""


def test_code_can_travel_to_nodes_without_the_package(broker: SparkBroker) -> None:
    stream = broker.stream("travel", "abc")
    fetch = Fetch(connection_options({"endpoint": broker.endpoint}), Shape(SCHEMA, headers=False))
    cloudpickle.register_pickle_by_value(leveret)
    try:
        carried = cloudpickle.dumps((fetch, RangePartition(stream, 0, 0, 3, skip_missing=False)))
    finally:
        cloudpickle.unregister_pickle_by_value(leveret)
    there = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=carried, capture_output=True, timeout=60, check=False
    )
    assert there.stdout.strip() == b"3", there.stderr.decode()
