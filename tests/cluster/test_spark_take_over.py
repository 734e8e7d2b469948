"""A Spark query across take-overs: what comes out of a stream and of a classic queue is what went in, exactly once.

The leader of the cell is killed twice at points that are hit for certain (tests/support/failpoints.py): in the middle
of a fetch, and when all of a batch is staged and nothing is committed. The driver outlives both, by asking again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cell_node import Cell, CellNode
from tests.support.failpoints import Failpoints
from tests.support.nats_servers import NatsServers
from tests.support.spark_broker import SparkBroker
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline

pytestmark = pytest.mark.timeout(600)
ROWS, BATCHES = 200, 4
NAMES = ("stream", "classic")
GUEST = {
    "LEVERET_DEFAULT_USER": "guest", "LEVERET_DEFAULT_PASSWORD": "guest", "LEVERET_LOOPBACK_USERS": "none",
}  # fmt: skip


class KillableCell:
    """``kill`` ends the leader's process, ``start`` waits for the next leader and starts the dead node again."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._killed: CellNode | None = None
        self.leaders: list[str] = []
        for node in cell.nodes:
            node.start(**GUEST)
        self.leader = cell.leader()

    @property
    def endpoint(self) -> str:
        return ",".join(node.http_url for node in self._cell.nodes)

    def kill(self) -> None:
        self._killed = self._cell.leader()
        self._killed.kill()

    def start(self) -> None:
        assert self._killed is not None
        self.leader = self._cell.leader()
        self.leaders.append(self.leader.name)
        self._killed.start(**GUEST)

    def connect(self) -> SparkBroker:
        return SparkBroker(self.leader.url.replace("admin:admin", "guest:guest"), self.leader.http_url)

    def ask(self, path: str, **query: object) -> dict[str, Any]:
        return self.connect().ask("GET", f"%2F/{path}", **query)


@pytest.fixture
def cell(servers: NatsServers, tmp_path: Path) -> Iterator[Cell]:
    with Cell(tmp_path, servers, "spark") as made:
        yield made


def test_a_query_across_take_overs_is_exactly_once(cell: Cell, tmp_path: Path) -> None:
    broker, failpoints = KillableCell(cell), Failpoints(tmp_path / "failpoints")
    pipelines = [Pipeline(name, tmp_path / f"checkpoint-{name}", kind=name, rows_in_batch=ROWS) for name in NAMES]
    for pipeline in pipelines:
        pipeline.declare(broker)
        pipeline.publish(broker, ROWS * BATCHES)
    traps = [
        [failpoints.arm(f"{name}.{point}", batch) for name in NAMES] for point, batch in (("fetch", 1), ("staged", 2))
    ]
    with Driver(tmp_path / "driver", broker, pipelines, failpoints) as driver:
        for names in traps:
            driver.await_traps(*names)
            broker.kill()
            failpoints.release(*names)
            broker.start()
        driver.await_end()
    assert len(broker.leaders) == 2
    for pipeline in pipelines:
        assert pipeline.last_finished() == pipeline.last_committed(broker) == BATCHES - 1
        pipeline.assert_once(pipeline.received(broker))
        pipeline.assert_nothing_left_over(broker)
