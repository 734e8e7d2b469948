"""The driver is killed at every failpoint, for streams and classic queues: everything comes out once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failpoints import Failpoints
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline

POINTS = ("fetch", "written", "staged", "committed")
ROWS = 600


@pytest.mark.timeout(900)
def test_everything_comes_out_once_after_a_kill_at_every_point(tmp_path: Path) -> None:
    failpoints = Failpoints(tmp_path / "failpoints")
    pipelines = [Pipeline(kind, tmp_path / kind, kind=kind, rows_in_batch=ROWS) for kind in ("stream", "classic")]
    with RestartableBroker(tmp_path) as broker:
        for pipeline in pipelines:
            pipeline.declare(broker)
            pipeline.publish(broker, ROWS * (len(POINTS) + 1))
        for batch, point in enumerate(POINTS):
            names = [failpoints.arm(f"{pipeline.name}.{point}", batch) for pipeline in pipelines]
            with Driver(tmp_path / point, broker, pipelines, failpoints) as driver:
                driver.await_traps(*names)
                driver.kill()
        with Driver(tmp_path / "last", broker, pipelines, failpoints) as driver:
            driver.await_end()
        for pipeline in pipelines:
            assert pipeline.last_finished() == pipeline.last_committed(broker) == len(POINTS)
            pipeline.assert_once(pipeline.received(broker))
            pipeline.assert_nothing_left_over(broker)
