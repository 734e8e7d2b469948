"""Tables whose driver is killed before and after every commit, and whose broker is killed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.postgres_server import PostgresServer
from tests.support.restartable_broker import RestartableBroker
from tests.support.table_pipelines import TABLES, TablePipelines


@pytest.mark.timeout(1800)
def test_tables_have_each_row_once_after_kills_at_every_point(tmp_path: Path) -> None:
    with RestartableBroker(tmp_path) as broker, PostgresServer() as server:
        pipelines = TablePipelines(tmp_path / "tables", broker, server, rows_in_batch=200)
        pipelines.publish(2000)
        for batch, states in enumerate(
            [("written", "committed", "written"), ("committed", "written", "committed")] * 2
        ):
            points = [f"{table}.{state}" for table, state in zip(TABLES, states, strict=True)]
            pipelines.kill_at(points, batch)
        points = [pipelines.failpoints.arm(f"{table}.written", 6) for table in TABLES]
        with pipelines.driver() as driver:
            driver.await_traps(*points)
            broker.kill()
            broker.start()
            pipelines.failpoints.release(*points)
            driver.await_end()
        pipelines.assert_once()
