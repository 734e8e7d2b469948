"""The management API of several cells while one of them does not answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.integration.test_cells import cell_processes, until
from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import clients_by_cell
from tests.support.command_line import Cli
from tests.support.managed_cells import ManagedCells
from tests.support.management_api import ManagementApi

MISSING = "X-Leveret-Missing-Nodes"


def test_a_cell_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0") as broker,
        clients_by_cell(broker.url(), "c1", "c2") as clients,
    ):
        here = ManagedCells(broker, ManagementApi(broker.url("http")), clients)
        path, node = here.declare("c2", "q", messages=1), here.node("c2")
        until(lambda: here.api.get(path)[1]["messages"] == 1)
        (stopped,) = cell_processes(broker)
        os.kill(stopped, signal.SIGSTOP)
        try:
            for asked in ("connections", "connections?page=1&page_size=10", "overview", "nodes", "vhosts", "queues"):
                response, body = here.api.http.send("GET", f"/api/{asked}")
                assert (response.status, response.getheader(MISSING)) == (200, node), (asked, body)
            assert {row["name"]: row["running"] for row in here.rows("nodes")}[node] is False
            (row,) = here.rows("queues", page=1, page_size=10)
            assert (row["node"], row["state"]) == (node, "down")
            assert here.api.get(path)[1]["state"] == "down"
            assert {row["node"] for row in here.rows("connections")} == {here.node("c1")}
            assert here.api.get("health/checks/alarms")[0] == 503
            listed = Cli(broker.url("http"), tmp_path).run("queues", "list")
            assert (listed.exit_code, listed.stderr.count(f"incomplete: no response from {node}")) == (0, 1)
            status, problem = here.api.delete(f"{path}/contents?limit=5")
            assert (status, problem["error"]) == (503, "node_down")
        finally:
            os.kill(stopped, signal.SIGCONT)
        until(lambda: here.api.http.send("GET", "/api/connections")[0].getheader(MISSING) is None)
        assert {row["node"] for row in here.rows("connections")} == {here.node("c1"), node}
