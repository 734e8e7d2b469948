"""An executor is killed in the middle of a batch into a table or an archive, on a cluster of two workers.

A task of the Iceberg table has written its file. A task of the PostgreSQL table and of the archive has read all its
rows, while those of the other task are in the open transaction or in a finished file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.failpoints import FOLDER
from tests.support.postgres_server import PostgresServer
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_cluster import SETTINGS, Cluster
from tests.support.table_pipelines import TablePipelines

POINTS = ("iceberg.files", "postgres-1.read", "archive-1.read")
ROWS = 200  # in a batch


@pytest.mark.timeout(900)
def test_tables_have_each_row_once_after_executors_are_killed(tmp_path: Path) -> None:
    with RestartableBroker(tmp_path) as broker, PostgresServer() as server:
        tables = ("iceberg", "postgres", "archive")
        pipelines = TablePipelines(tmp_path / "tables", broker, server, ROWS, tables)
        pipelines.publish(2 * ROWS)
        points = [pipelines.failpoints.arm(point, 1) for point in POINTS]
        with Cluster(tmp_path / "cluster", {FOLDER: str(pipelines.failpoints.folder)}) as cluster:
            with pipelines.driver(master=cluster.url, settings=SETTINGS) as driver:
                driver.kill_executors_at(*points)
                driver.await_end()
        assert all(f": {2 * ROWS} in = {2 * ROWS} out" in report for report in driver.reports()), driver.reports()
        assert len(driver.reports()) == len(tables)
        pipelines.assert_once()
