"""Spark over two cells: the example of cells.md; and partitions are read from their home cells, of which one is killed
twice on the way.

A super stream with a partition in each cell, and a classic queue of the second cell, go to queues of the second cell.
Spark is given two endpoints, of which the first is dead. The second cell is killed in the middle of a fetch of batch 1,
and when batch 2 is staged and not committed.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.cell_clients import clients_by_cell
from tests.support.failpoints import Failpoints
from tests.support.guide_pages import PAGES, blocks
from tests.support.spark_cells import CELLS, CellBroker, CellPipeline, declare_super_stream
from tests.support.spark_kills import Driver

ROWS, BATCHES = 400, 4


@pytest.mark.timeout(900)
def test_everything_arrives_once_although_the_home_cell_is_killed(tmp_path: Path) -> None:
    with socket.socket() as dead:  # bound and not listening: connections are refused
        dead.bind(("127.0.0.1", 0))
        with CellBroker(tmp_path, f"http://127.0.0.1:{dead.getsockname()[1]}") as broker:
            pipelines = [
                CellPipeline("stream", tmp_path / "stream", rows_in_batch=ROWS),
                CellPipeline("classic", tmp_path / "classic", kind="classic", rows_in_batch=ROWS),
            ]
            run(broker, pipelines, tmp_path)
            for pipeline in pipelines:
                assert pipeline.last_finished() >= BATCHES - 1
                pipeline.assert_once(pipeline.received(broker))
                pipeline.assert_nothing_left_over(broker)
            assert ("c1", False) in broker.reads("stream-in-0")
            assert ("c2", False) in broker.reads("stream-in-1")
            assert "c1" not in {cell for cell, _ in broker.reads("stream-in-1")}


def run(broker: CellBroker, pipelines: list[CellPipeline], folder: Path) -> None:
    failpoints = Failpoints(folder / "failpoints")
    for pipeline in pipelines:
        pipeline.declare(broker)
        pipeline.publish(broker, ROWS * BATCHES)
    traps = [
        [failpoints.arm(f"{pipeline.name}.{point}", batch) for pipeline in pipelines]
        for point, batch in (("fetch", 1), ("staged", 2))
    ]
    with Driver(folder / "driver", broker, pipelines, failpoints) as driver:
        for names in traps:
            driver.await_traps(*names)
            broker.kill()
            failpoints.release(*names)
            broker.start()
        driver.await_end()


def test_the_example_of_the_guide_reads_the_partitions_of_all_cells(spark: SparkSession, tmp_path: Path) -> None:
    """A new query begins with the latest messages: those that are published once it runs."""
    [(_, block)] = blocks(PAGES["cells"], "python")
    with CellBroker(tmp_path) as broker, clients_by_cell(broker.amqp, *CELLS) as clients:
        declare_super_stream("orders", clients)
        names: dict[str, Any] = {"spark": spark}
        code = block.replace('.format("leveret")', f'.format("leveret").option("endpoint", "{broker.endpoint}")')
        exec(code, names)  # noqa: S102  the guide is ours
        written = names["orders"].writeStream.format("memory").queryName("orders_of_cells")
        query = written.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
            publisher = clients["c1"].publisher()
            for number in range(10):
                publisher.basic_publish("orders", str(number % 2), b"%d" % number)
            query.processAllAvailable()
            rows = spark.table("orders_of_cells").collect()
        finally:
            query.stop()
        assert sorted((row.partition, bytes(row.body)) for row in rows) == sorted(
            (number % 2, b"%d" % number) for number in range(10)
        )
        assert [broker.reads(f"orders-{shard}") for shard in (0, 1)] == [{("c1", False)}, {("c2", False)}]
