"""Speculation: a slow task gets a rival on the other worker, and the rows of both arrive at the broker. One counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failpoints import FOLDER, Failpoints
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_cluster import SETTINGS, Cluster
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline

# As soon as one task of a stage is done, any other that has run for two seconds more than usual gets a rival.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "2s",
}


@pytest.mark.timeout(900)
def test_the_rows_of_two_attempts_count_once(tmp_path: Path) -> None:
    pipeline = Pipeline("rivals", tmp_path / "checkpoint", rows_in_batch=500, body_bytes=100)
    traps = Failpoints(tmp_path / "traps")
    # The task stands there with all its rows staged, until Spark kills it in favour of its rival.
    slow = traps.arm("rivals.written", 1)
    settings = SETTINGS | SPECULATION | {f"spark.executorEnv.{FOLDER}": str(traps.folder)}
    with RestartableBroker(tmp_path) as broker, Cluster(tmp_path / "cluster") as cluster:
        pipeline.declare(broker)
        pipeline.publish(broker, 1500)
        with Driver(tmp_path / "driver", broker, [pipeline], traps, master=cluster.url, settings=settings) as driver:
            driver.await_traps(slow)
            driver.await_end()
        pipeline.assert_once(pipeline.received(broker))
        pipeline.assert_nothing_left_over(broker)
    partition = traps.seen(slow)["partition"]
    attempts = {
        note["attempt"]: set(note["stages"])
        for note in traps.notes("rivals.writes")
        if (note["batch"], note["partition"]) == (1, partition)
    }
    assert attempts.keys() == {0, 1}
    [commit] = [note for note in traps.notes("rivals.commits") if note["batch"] == 1]
    assert attempts[1] <= set(commit["stages"])
    assert not attempts[0] & set(commit["stages"])
