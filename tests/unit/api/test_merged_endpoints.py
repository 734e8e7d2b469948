"""Responses that are made of those of all cells: health checks and nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from leveret.api.cells.home_requests import HomeRequests
from leveret.api.cells.merged_endpoints import MergedEndpoints
from leveret.api.cells.relay import CellRelay
from leveret.http.rows import Row
from tests.support.list_cells import ListCells

MISSING = "x-leveret-missing-nodes"
WELL = (200, {"status": "ok"})
FAILED = (503, {"status": "failed", "reason": "only one other member (b) is up to date"})
NO_MEMBER = (404, {"error": "not_found", "reason": "no node 'd' in the cell"})


def cells_with(**replies: tuple[int, object]) -> ListCells:
    cells = ListCells(**{cell: [] for cell in replies})
    cells.replies = replies
    return cells


def check(cells: ListCells, query: str = "") -> tuple[int, Any, dict[str, str]]:
    endpoints = MergedEndpoints(cells.requests, HomeRequests(cells.requests))
    return asyncio.run(cells.answer(endpoints.check, query))


def test_a_check_is_ok_if_it_is_in_all_cells() -> None:
    cells = cells_with(c1=WELL, c2=WELL)
    assert check(cells, "node=b")[:2] == WELL
    assert cells.asked == [("c1", "node=b"), ("c2", "node=b")]


def test_a_check_that_fails_in_one_cell_fails_with_its_reason() -> None:
    status, value, _ = check(cells_with(c1=WELL, c2=FAILED))
    assert (status, value) == (503, FAILED[1] | {"cell": "c2"})


def test_a_check_fails_if_a_cell_does_not_answer() -> None:
    cells = cells_with(c1=WELL, c2=WELL)
    cells.away.add("c2")
    status, value, headers = check(cells)
    assert (status, value["status"], headers[MISSING]) == (503, "failed", "node-c2")
    assert "node-c2 (cell c2)" in value["reason"]


def test_a_cell_without_the_node_in_question_is_not_concerned() -> None:
    assert check(cells_with(c1=NO_MEMBER, c2=WELL), "node=d")[0] == 200
    assert check(cells_with(c1=NO_MEMBER, c2=FAILED), "node=d")[0] == 503
    assert check(cells_with(c1=NO_MEMBER, c2=NO_MEMBER), "node=d")[0] == 404
    cells = cells_with(c1=NO_MEMBER, c2=WELL)
    cells.away.add("c2")
    assert check(cells, "node=d")[0] == 503


def test_a_check_that_is_refused_is_refused() -> None:
    refused = (401, {"error": "not_authorized", "reason": "not a management user"})
    assert check(cells_with(c1=refused, c2=refused))[:2] == refused


@pytest.mark.parametrize(
    "name", ["alarms", "virtual-hosts", "node-is-quorum-critical", "ready-to-serve-clients", "local-alarms"]
)
def test_checks_of_the_cluster_are_those_of_all_cells(name: str) -> None:
    cells = cells_with(c1=WELL, c2=FAILED)
    request = cells.asking(path=f"/api/health/checks/{name}")
    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    is_answered = asyncio.run(CellRelay(cells.requests)(request.scope, request.receive, send))
    assert (is_answered, statuses[:1]) == ((False, []) if name == "local-alarms" else (True, [503]))


# ---- nodes of replicated cells


def leading(name: str, memory: int) -> Row:
    return {"name": name, "running": True, "role": "leader", "mem_used": memory, "mem_alarm": False} | {
        "disk_free_alarm": memory > 10
    }


def following(name: str, *, running: bool = True) -> Row:
    return {"name": name, "running": running, "role": "standby", "connected": running, "lag_records": 3}


def replicated(led: str = "b") -> ListCells:
    """Three nodes; ``a`` leads c1, ``led`` leads c2. Only c2 has a member on ``d``."""
    cells = ListCells(c1=[leading("a", 7), following("b"), following("c")], c2=[])
    cells.rows["c2"] = [leading(led, 20), *(following(name) for name in "abcd" if name != led)]
    cells.replicate("abc", c1="a", c2=led)
    return cells


def ask(cells: ListCells, endpoint: str, query: str = "", name: str = "") -> tuple[int, Any, dict[str, str]]:
    endpoints = MergedEndpoints(cells.requests, HomeRequests(cells.requests))
    path = f"/api/nodes/{name}" if name else "/api/nodes"
    return asyncio.run(cells.answer(getattr(endpoints, endpoint), query, path, name=name))


def test_each_node_is_listed_once_with_its_cells() -> None:
    rows = ask(replicated(), "nodes")[1]
    assert [row["name"] for row in rows] == ["a", "b", "c", "d"]
    roles = {row["name"]: {each["cell"]: each["role"] for each in row["cells"]} for row in rows}
    assert roles["a"] == {"c1": "leader", "c2": "standby"}
    assert roles["b"] == {"c1": "standby", "c2": "leader"}
    assert roles["c"] == {"c1": "standby", "c2": "standby"}
    assert roles["d"] == {"c2": "standby"}
    assert [(row["role"], row.get("mem_used")) for row in rows[:3]] == [
        ("leader", 7),
        ("leader", 20),
        ("standby", None),
    ]


def test_the_figures_of_a_node_are_those_of_all_its_leading_processes() -> None:
    row = ask(replicated("a"), "nodes")[1][0]
    assert (row["name"], row["mem_used"], row["mem_alarm"], row["disk_free_alarm"]) == ("a", 27, False, True)


def test_a_node_runs_if_one_of_its_processes_does() -> None:
    cells = replicated()
    cells.rows["c1"][2] = following("c", running=False)
    rows = {row["name"]: row for row in ask(cells, "nodes")[1]}
    assert rows["c"]["running"]
    assert [each["running"] for each in rows["c"]["cells"]] == [False, True]


def test_the_leader_of_a_missing_cell_is_listed_with_its_other_cells() -> None:
    cells = replicated()
    cells.away.add("c2")
    _, rows, headers = ask(cells, "nodes")
    assert ([row["name"] for row in rows], headers[MISSING]) == (["a", "b", "c"], "b")
    assert [(each["cell"], each["running"]) for each in rows[1]["cells"]] == [("c1", True), ("c2", False)]


@pytest.mark.parametrize(("wanted", "found"), [("b", ["b"]), ("d", ["d"]), ("c2", ["b"]), ("nowhere", [])])
def test_nodes_are_filtered_by_their_name_or_their_cell(wanted: str, found: list[str]) -> None:
    assert [row["name"] for row in ask(replicated(), "nodes", f"node={wanted}")[1]] == found


def test_one_node_is_shown_as_in_the_list() -> None:
    listed = ask(replicated(), "nodes")[1]
    assert [ask(replicated(), "node", name=row["name"])[1] for row in listed] == listed


def test_the_name_of_a_cell_chooses_the_process_that_leads_it() -> None:
    cells = replicated("a")
    cells.replies["c2"] = (200, leading("a", 20))
    assert ask(cells, "node", name="c2")[1]["mem_used"] == 20
    assert (cells.asked[-1][0], cells.paths[-1]) == ("c2", "/api/nodes/a")
