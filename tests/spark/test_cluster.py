"""The pipeline on a real cluster: a master and two workers on this machine, with the package installed on all of them.

One driver runs five pipelines. The first one comes to its end alone, and nothing is registered for it: Spark finds
`format("leveret")` by itself. Then the executors of the others are killed, one sink after the other. The other tables
have their test in tests/spark_long/test_table_executor_kills.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.failpoints import FOLDER, Failpoints
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_cluster import SETTINGS, Cluster
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline, Received
from tests.support.table_pipelines import TablePipelines

pytestmark = pytest.mark.timeout(600)
ROWS = 200  # in a batch


class Proof:
    """The whole run; the tests look at what was seen on the way, and at what is there in the end."""

    def __init__(self, folder: Path) -> None:
        self.failpoints = Failpoints(folder / "failpoints")
        small = {"rows_in_batch": ROWS, "body_bytes": 100}
        self.plain = Pipeline("plain", folder / "plain", signed=True, is_first=True, **small)
        self.exact = Pipeline("exact", folder / "exact", **small)
        self.each = Pipeline("each", folder / "each", each_batch=True, **small)
        self.loose = Pipeline("loose", folder / "loose", "stream", "at-least-once", **small)
        self.killed = [self.exact, self.each, self.loose]
        self.received: dict[str, list[Received]] = {}
        environ = {FOLDER: str(self.failpoints.folder)}
        with Cluster(folder / "cluster", environ) as cluster, RestartableBroker(folder) as broker:
            self.worker_pids = cluster.worker_pids
            self._run(folder, broker, cluster)

    def _run(self, folder: Path, broker: RestartableBroker, cluster: Cluster) -> None:
        for pipeline in (self.plain, *self.killed):
            pipeline.declare(broker)
            pipeline.publish(broker, 2 * ROWS)
        self.tables = TablePipelines(folder, broker, None, ROWS, ("delta",), partitioned=False)
        self.tables.publish(2 * ROWS)
        points = [*(f"{pipeline.name}.written" for pipeline in self.killed), "delta.files"]
        names = [self.failpoints.arm(point, 1) for point in points]
        pipelines = [self.plain, *self.killed]
        more: dict[str, Any] = {"jobs": self.tables.jobs(), "master": cluster.url, "settings": SETTINGS}
        with Driver(folder / "driver", broker, pipelines, self.failpoints, **more) as driver:
            self.driver_pid = driver.process.pid
            driver.kill_executors_at(*names)
            driver.await_end()
        self.reports = driver.reports()
        for pipeline in pipelines:
            self.received[pipeline.name] = pipeline.received(broker)
            pipeline.assert_nothing_left_over(broker)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    return Proof(tmp_path_factory.mktemp("cluster"))


def test_a_stream_goes_to_an_exchange_exactly_once_through_both_workers(proof: Proof) -> None:
    rows = proof.received["plain"]
    proof.plain.assert_once(rows)
    assert proof.plain.last_finished() == 1
    for place in ("read", "written"):
        ways = [{int(pid) for pid in row.headers[place].split()} for row in rows]
        assert all(way & proof.worker_pids for way in ways), f"a row was {place} outside of the workers"
        assert not any(proof.driver_pid in way for way in ways)
        assert set().union(*ways) >= proof.worker_pids, f"one worker alone has {place} everything"


def test_an_executor_that_is_killed_with_its_rows_at_the_broker_changes_no_guarantee(proof: Proof) -> None:
    """A task has staged or published its rows and has not told Spark when its executor is killed."""
    for pipeline in (proof.exact, proof.each):
        pipeline.assert_once(proof.received[pipeline.name])
    found = Counter(message[:2] for message in proof.received["loose"])
    assert found.keys() == {*proof.loose.sent}
    twice = found - Counter(proof.loose.sent)
    assert twice.total() >= proof.failpoints.seen("loose.written")["messages"], "its rows were published before"


def test_an_executor_that_is_killed_with_its_file_written_adds_no_row_twice_to_a_table(proof: Proof) -> None:
    proof.tables.assert_once()
    assert proof.reports == ["rows of lake: 400 in = 400 out + 0 duplicates + 0 filtered + 0 refused + 0 late"]
    folder = proof.tables.folder / "delta"
    written, committed = {*folder.glob("*.parquet")}, DeltaTable(str(folder)).file_uris()
    assert len(written) > len(committed), "its file was written before"
