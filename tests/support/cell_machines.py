"""A cluster of several replicated cells: nodes that run ``leveret serve --cluster --cells N`` on ports of loopback.

    with CellMachines(tmp_path, servers, nodes=2, cells=2) as machines:
        machines.start()
        machines.led_by("c2")                       # the node that leads it, waits for one
        machines.kill_leader("c2")                  # SIGKILL to that process only
        with machines.clients("a", "c1", "c2") as clients: ...

Cells have the names c1, c2, ... on every engine, so each such cluster needs servers of its own.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import AbstractContextManager
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.support.cell_clients import CellClient, clients_by_cell
from tests.support.cell_node import Cell, CellNode, until
from tests.support.management_api import ManagementApi
from tests.support.nats_servers import NatsServers

NOT_LED: dict[str, Any] = {"leader": None, "members": []}  # while the first cell has no leader


class CellMachines(Cell):
    def __init__(self, folder: Path, servers: NatsServers, *arguments: str, nodes: int = 3, cells: int = 2) -> None:
        self.cells = tuple(f"c{number}" for number in range(1, cells + 1))
        super().__init__(folder, servers, "main", "--cells", str(cells), *arguments, nodes=nodes)
        for node in self.nodes:  # each process has its own cluster port: free ones
            node._arguments = [each for each in node._arguments if not each.startswith("--cluster-port")]
            node._arguments.append("--cluster-port=0")

    def restart_with(self, node: CellNode, cells: int) -> None:
        """With so many cells; until it is ready."""
        if node.is_running:
            node.signal(signal.SIGTERM)
            assert node.wait() == 0
        self.cells = tuple(f"c{number}" for number in range(1, cells + 1))
        node._arguments[node._arguments.index("--cells") + 1] = str(cells)
        node.start()
        until(lambda: "is ready as" in node.log()[node._begun :], 90.0, node.log)

    def node(self, name: str) -> CellNode:
        return next(node for node in self.nodes if node.name == name)

    def api(self, node: CellNode | None = None, user: str = "admin") -> ManagementApi:
        """``user``: with its name as the password."""
        asked = node or next(each for each in self.nodes if each.is_running)
        return ManagementApi(asked.http_url, user, user)

    def rows(self, user: str = "admin") -> dict[str, dict[str, Any]]:
        """The cells by name, as the management API shows them."""
        try:
            status, rows = self.api(user=user).get("cluster/cells")
        except (OSError, HTTPException):
            status, rows = 503, []
        return {row["cell"]: row for row in rows} if status == 200 else dict.fromkeys(self.cells, NOT_LED)

    def led_by(self, cell: str, seconds: float = 90.0, *, but: str = "", user: str = "admin") -> str:
        """The node that leads the cell. ``but``: another one than this."""

        def look() -> str | None:
            leader = self.rows(user)[cell]["leader"]
            return None if leader == but else leader

        return str(until(look, seconds, self.logs))

    def await_members(self, user: str = "admin") -> None:
        """All members of all cells are connected and up to date."""

        def look() -> bool:
            rows = self.rows(user)
            members = [member for row in rows.values() for member in row["members"]]
            return len(members) == len(self.nodes) * len(self.cells) and all(each["up_to_date"] for each in members)

        until(look, 90.0, lambda: f"{self.rows()}\n{self.logs()}")

    def pid(self, node: str, cell: str) -> int:
        """The process of the member of this cell on this node."""
        first = self.node(node).pid
        if cell == "c1":
            return first
        children = [int(child) for child in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
        spawned = [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return next(child for child in spawned if _cell_of(child) == cell)

    def kill_leader(self, cell: str) -> str:
        """The process of the leader only; returns the name of its node."""
        leader = self.led_by(cell)
        os.kill(self.pid(leader, cell), signal.SIGKILL)
        return leader

    def start_again(self, name: str) -> None:
        """A node that was killed, until it is ready."""
        node = self.node(name)
        node.start()
        until(lambda: "is ready as" in node.log()[node._begun :], 90.0, node.log)
        self.await_members()

    def clients(self, node: str, *cells: str, url: str = "") -> AbstractContextManager[dict[str, CellClient]]:
        return clients_by_cell(url or self.node(node).url, *cells)


def _cell_of(pid: int) -> str:
    """By its data directory, which it has open."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        found = re.search(r"/cells/(c\d+)(/|$)", os.readlink(link))
        if found:
            return found[1]
    return ""
