"""The pipeline on a real cluster: a master and two workers on this machine, with the package installed on all of them.

Nothing is registered: Spark finds `format("leveret")` by itself, on the driver and on the workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_cluster import SETTINGS, Cluster
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline


@pytest.mark.timeout(600)
def test_a_stream_goes_to_an_exchange_exactly_once_through_both_workers(tmp_path: Path) -> None:
    pipeline = Pipeline("cluster", tmp_path / "checkpoint", rows_in_batch=500, body_bytes=100)
    with RestartableBroker(tmp_path) as broker, Cluster(tmp_path / "cluster") as cluster:
        pipeline.declare(broker)
        pipeline.publish(broker, 1000)
        with Driver(
            tmp_path / "driver", broker, [pipeline], master=cluster.url, settings=SETTINGS, signed=True
        ) as driver:
            driver.await_end()
            driver_pid = driver.process.pid
        assert pipeline.last_finished() == 1
        rows = pipeline.received(broker)
        pipeline.assert_nothing_left_over(broker)
    pipeline.assert_once(rows)
    for place in ("read", "written"):
        ways = [{int(pid) for pid in row.headers[place].split()} for row in rows]
        assert all(way & cluster.worker_pids for way in ways), f"a row was {place} outside of the workers"
        assert not any(driver_pid in way for way in ways)
        assert set().union(*ways) >= cluster.worker_pids, f"one worker alone has {place} everything"
