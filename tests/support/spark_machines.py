"""Two replicated cells for pipelines (tests/support/spark_cells.py), whose leaders are killed in turn."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.support.cell_machines import CellMachines
from tests.support.cell_node import CellNode, until
from tests.support.spark_broker import SparkBroker

USER = "guest"  # the default user of the pipelines
LOGIN = {"LEVERET_DEFAULT_USER": USER, "LEVERET_DEFAULT_PASSWORD": USER, "LEVERET_LOOPBACK_USERS": "none"}


class KillableMachines:
    """``kill`` ends the process of the leader of the next cell; that of the first cell takes its node with it.
    ``start`` waits for the next leader, and starts the node again."""

    def __init__(self, machines: CellMachines, *turns: str) -> None:
        """``turns``: the cells whose leaders are killed, one for each call."""
        self._machines = machines
        self._turns = list(turns)
        self._epochs: dict[str, int] = {}  # before the last kill
        self._ended: CellNode | None = None
        for node in machines.nodes:
            node.start(**LOGIN)
        machines.await_ready()
        machines.await_members(USER)

    @property
    def endpoint(self) -> str:
        return ",".join(node.http_url for node in self._machines.nodes)

    def kill(self) -> None:
        cell = self._turns.pop(0)
        row = self._machines.rows(USER)[cell]
        self._epochs = {cell: row["epoch"]}
        if cell == "c1":
            self._ended = self._machines.node(row["leader"])
            self._ended.kill()
        else:
            os.kill(self._machines.pid(row["leader"], cell), signal.SIGKILL)

    def start(self) -> None:
        def look() -> bool:
            rows = self._machines.rows(USER)
            return all(rows[cell]["leader"] and rows[cell]["epoch"] > epoch for cell, epoch in self._epochs.items())

        until(look, 60, self._machines.logs)
        if self._ended is not None:
            self._ended.start(**LOGIN)
            self._ended = None
        self._machines.await_members(USER)

    def connect(self) -> SparkBroker:
        node = self._machines.node(self._machines.led_by("c1", user=USER))
        return SparkBroker(node.url.replace("admin:admin", f"{USER}:{USER}"), node.http_url)

    def ask(self, path: str, **query: object) -> dict[str, Any]:
        return self.connect().ask("GET", f"%2F/{path}", **query)
