"""Ready pipelines into a Delta, an Iceberg and a PostgreSQL table and an archive; driver or executors are killed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset
from deltalake import DeltaTable

from leveret.spark.tables.iceberg import catalog_of
from tests.support.failpoints import Failpoints
from tests.support.postgres_server import PASSWORD, PostgresServer
from tests.support.restartable_broker import KillableBroker
from tests.support.spark_kills import Driver

TABLES = ("delta", "iceberg", "postgres")
SCHEMA = "id BIGINT NOT NULL, text STRING"


class TablePipelines:
    """``server`` is for the table of PostgreSQL.

    ``partitioned``: rows are shuffled into the partitions of the Delta table. What Spark computes again because an
    executor took the rows of a shuffle with it is counted twice, which the accounts of a pipeline report as an error.
    """

    def __init__(
        self,
        folder: Path,
        broker: KillableBroker,
        server: PostgresServer | None,
        rows_in_batch: int,
        tables: Sequence[str] = TABLES,
        *,
        partitioned: bool = True,
    ) -> None:
        self.folder, self.broker, self.server = folder, broker, server
        self.failpoints = Failpoints(folder / "failpoints")
        self.rows_in_batch = rows_in_batch
        self.tables = tables
        self._partitioned = partitioned
        self._sent = self._drivers = 0
        with broker.connect() as known:
            for queue in (queue for table in tables for queue in queues_of(table)):
                # Messages of a classic queue are leased: those of an interrupted batch are read again.
                kind = "classic" if queue == "iceberg" else "stream"
                known.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})

    def publish(self, number: int) -> None:
        bodies = [json.dumps({"id": id_, "text": f"row {id_}"}) for id_ in range(self._sent, self._sent + number)]
        self._sent += number
        with self.broker.connect() as known:
            for table in self.tables:
                queues = queues_of(table)
                for place, queue in enumerate(queues):
                    known.publish(queue, bodies[place :: len(queues)])

    def driver(self, **cluster: Any) -> Driver:
        """``cluster``: its master and settings."""
        self._drivers += 1
        return Driver(
            self.folder / f"driver-{self._drivers}",
            self.broker,
            [],
            self.failpoints,
            jobs=self.jobs(),
            environ={"PGPASSWORD": PASSWORD},
            **({"master": "local[2]"} | cluster),
        )

    def kill_at(self, points: Iterable[str], batch: int) -> None:
        """Kill the driver when each pipeline stands at its point of this batch."""
        armed = [self.failpoints.arm(point, batch) for point in points]
        with self.driver() as driver:
            driver.await_traps(*armed)
            driver.kill()

    def jobs(self) -> list[tuple[str, dict[str, Any]]]:
        return [getattr(self, f"_{table}")() for table in self.tables]

    def _common(self, table: str) -> dict[str, Any]:
        queues = {"pattern": f"{table}-.*"} if len(queues_of(table)) > 1 else {"queue": table}
        checkpoint = str(self.folder / f"checkpoint-{table}")
        return {**queues, "consumer_name": table, "max_per_batch": self.rows_in_batch, "checkpoint": checkpoint}

    def _delta(self) -> tuple[str, dict[str, Any]]:
        own = {"table": f"{self.folder}/delta", "schema": SCHEMA}
        return "lake", self._common("delta") | own | ({"partition_by": "date"} if self._partitioned else {})

    def _iceberg(self) -> tuple[str, dict[str, Any]]:
        own = {"table": f"{self.folder}/ware/shop.orders", "schema": SCHEMA, "format": "iceberg"}
        return "lake", self._common("iceberg") | own

    def _postgres(self) -> tuple[str, dict[str, Any]]:
        assert self.server is not None
        own = {"database": self.server.conninfo, "table": "killed", "schema": SCHEMA, "key": "id"}
        return "to_jdbc", self._common("postgres") | own

    def _archive(self) -> tuple[str, dict[str, Any]]:
        return "archive", self._common("archive") | {"path": f"{self.folder}/archive"}

    def ids(self, table: str) -> list[int]:
        if table == "postgres":
            assert self.server is not None
            return [id_ for (id_,) in self.server.rows("SELECT id FROM killed ORDER BY id")]
        if table == "archive":
            bodies = pyarrow.dataset.dataset(self.archived_files()).to_table(["body"])["body"].to_pylist()
            return sorted(json.loads(body)["id"] for body in bodies)
        if table == "delta":
            rows = DeltaTable(f"{self.folder}/delta").to_pyarrow_table()
        else:
            name, catalog = catalog_of(f"{self.folder}/ware/shop.orders", None)
            rows = catalog.load_table(name).scan().to_arrow()
        return sorted(rows.column("id").to_pylist())

    def archived_files(self) -> list[str]:
        """Those that Spark has committed. Others may be left of failed tasks."""
        logs = [path for path in (self.folder / "archive" / "_spark_metadata").iterdir() if path.name.isdecimal()]
        lines = [line for log in logs for line in log.read_text().splitlines()[1:]]
        return [json.loads(line)["path"].removeprefix("file://") for line in lines]

    def assert_once(self) -> None:
        for table in self.tables:
            assert self.ids(table) == list(range(self._sent)), f"rows of {table} are lost or there twice"


def queues_of(table: str) -> list[str]:
    """Two tasks read a batch: slices of a lease of the classic queue, or two streams."""
    return [table] if table == "iceberg" else [f"{table}-0", f"{table}-1"]
