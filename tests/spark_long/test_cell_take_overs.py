"""A Spark query over two replicated cells, whose leaders are killed in turn: everything comes out once.

The leader of the second cell, which has a partition, a classic queue and the outputs, is killed in the middle of a
fetch. The node that leads the first cell, which has the other partition, the stages and the commits, is killed when all
of a batch is staged and nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cell_machines import CellMachines
from tests.support.failpoints import Failpoints
from tests.support.nats_servers import NatsServers
from tests.support.spark_cells import CellPipeline
from tests.support.spark_kills import Driver
from tests.support.spark_machines import KillableMachines

ROWS, BATCHES = 200, 4


@pytest.fixture
def machines(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellMachines]:
    with NatsServers(tmp_path_factory.mktemp("engine")) as servers:
        servers.start()
        with CellMachines(tmp_path, servers, nodes=2, cells=2) as made:
            yield made


@pytest.mark.timeout(600)
def test_a_query_over_two_cells_is_exactly_once_when_their_leaders_are_killed(
    machines: CellMachines, tmp_path: Path
) -> None:
    failpoints = Failpoints(tmp_path / "failpoints")
    broker = KillableMachines(machines, "c2", "c1")
    pipelines = [
        CellPipeline("stream", tmp_path / "stream", rows_in_batch=ROWS),
        CellPipeline("classic", tmp_path / "classic", kind="classic", rows_in_batch=ROWS),
    ]
    for pipeline in pipelines:
        pipeline.declare(broker)
        pipeline.publish(broker, ROWS * BATCHES)
    traps = [
        [failpoints.arm(f"{pipeline.name}.{point}", batch) for pipeline in pipelines]
        for point, batch in (("fetch", 1), ("staged", 2))
    ]
    with Driver(tmp_path / "driver", broker, pipelines, failpoints) as driver:
        for names in traps:
            driver.await_traps(*names)
            broker.kill()
            failpoints.release(*names)
            broker.start()
        driver.await_end()
    for pipeline in pipelines:
        assert pipeline.last_finished() == pipeline.last_committed(broker) >= BATCHES - 1
        pipeline.assert_once(pipeline.received(broker))
        pipeline.assert_nothing_left_over(broker)
