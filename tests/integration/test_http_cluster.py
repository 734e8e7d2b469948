"""A node of a cell over HTTP: members, health, metrics and hand-over."""

from __future__ import annotations

import re

import pytest

from leveret import Broker
from leveret.cluster.cell_summary import CellSummary, summary_of
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path
from tests.support.still_cell import SINCE, StillCell

pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.fixture
def cell(broker: Broker) -> StillCell:
    return StillCell(broker)


def test_a_node_without_a_cell_says_so(api: ManagementApi) -> None:
    cells = api.get("cluster/cells"), api.post("cluster/cells/balance", {})
    for status, answer in (api.get("cluster"), api.post("cluster/handover", {}), *cells):
        assert (status, "does not belong to a cell" in answer["reason"]) == (404, True)
    assert "cell" not in api.get("overview")[1]


def test_the_state_of_the_cell_is_shown(cell: StillCell, api: ManagementApi) -> None:
    status, row = api.get("cluster")
    assert status == 200
    assert (row["cell"], row["leader"], row["epoch"], row["leader_since"]) == ("orders", cell.now.leader, 4, SINCE)
    b = next(each for each in row["members"] if each["name"] == "b")
    assert (b["role"], b["connected"], b["batch"]) == ("standby", True, 98)
    assert (b["lag_records"], b["lag_bytes"], b["lag_seconds"]) == (2, 4096, 0.25)
    c = next(each for each in row["members"] if each["name"] == "c")
    assert (c["role"], c["connected"], c["batch"], c["lag_records"]) == ("down", False, None, None)
    assert (b["problem"], c["problem"]) == (None, "its disk is full")
    assert row["engine"]["answering"] is True
    assert [(each["name"], each["reachable"], each["leader"]) for each in row["engine"]["servers"]] == [
        ("s1", True, True),
        ("s2", True, False),
        ("s3", False, False),
    ]
    assert row["log"] == {"first": 1, "last": 100, "bytes": 1 << 20, "max_bytes": 1 << 30, "replicas": 3}
    assert [each["reason"] for each in row["take_overs"]] == ["leader's process ended", "founded"]
    assert row["take_over_totals"] == {"founded": 1, "leader's process ended": 3}
    assert api.get("cluster", columns="leader,log.bytes")[1] == {"leader": cell.now.leader, "log": {"bytes": 1 << 20}}


def test_all_members_are_listed_as_nodes(cell: StillCell, api: ManagementApi) -> None:
    status, rows = api.get("nodes")
    assert (status, [row["name"] for row in rows]) == (200, [cell.now.leader, "b", "c"])
    assert [row["running"] for row in rows] == [True, True, False]
    assert [row["role"] for row in rows] == ["leader", "standby", "down"]
    assert "mem_used" in rows[0]
    assert rows[1]["endpoints"] == {"amqp": "amqp://b.example:5672"}
    assert api.get("nodes/b")[1] == rows[1]
    own = api.get(f"nodes/{in_path(cell.now.leader)}")[1]
    assert (own["role"], own["lag_records"], "mem_used" in own) == ("leader", 0, True)
    for name in ("b/memory", "elsewhere"):
        status, answer = api.get(f"nodes/{name}")
        assert status == 404
        assert cell.now.leader in answer["reason"]


def test_the_overview_names_the_cell(cell: StillCell, api: ManagementApi) -> None:
    overview = api.get("overview")[1]
    assert overview["cell"] == {"name": "orders", "leader": cell.now.leader, "epoch": 4}
    assert overview["cluster_name"] == "orders"
    api.put("cluster-name", {"name": "shop"})
    assert api.get("overview")[1]["cluster_name"] == "shop"


# ---- health


def test_a_node_is_critical_while_a_member_is_missing(cell: StillCell, api: ManagementApi) -> None:
    status, answer = api.get("health/checks/node-is-quorum-critical")
    assert (status, answer["status"]) == (503, "failed")
    assert "(b)" in answer["reason"]
    members = [each._replace(is_connected=True, lag_seconds=0.0) for each in cell.now.members]
    cell.now = cell.now._replace(members=tuple(members))
    status, answer = api.get("health/checks/node-is-quorum-critical")
    assert (status, "(s3)" in answer["reason"]) == (503, True)
    servers = [each._replace(is_reachable=True, is_current=True) for each in cell.now.engine]
    cell.now = cell.now._replace(engine=tuple(servers))
    assert api.get("health/checks/node-is-quorum-critical") == (200, {"status": "ok"})


def test_a_node_that_is_not_up_to_date_may_stop(cell: StillCell, api: ManagementApi) -> None:
    servers = [each._replace(is_reachable=True, is_current=True) for each in cell.now.engine]
    cell.now = cell.now._replace(engine=tuple(servers))
    check = "health/checks/node-is-quorum-critical"
    assert [api.get(check, node=node)[0] for node in (cell.now.leader, "b", "c")] == [503, 503, 200]
    assert api.get(check)[0] == 503
    assert "nodes are" in api.get(check, node="elsewhere")[1]["reason"]


def test_a_node_is_ready_while_the_engine_stores_messages(broker: Broker, cell: StillCell, api: ManagementApi) -> None:
    assert api.get("health/checks/ready-to-serve-clients") == (200, {"status": "ok"})
    cell.now = cell.now._replace(is_answering=False)
    status, answer = api.get("health/checks/ready-to-serve-clients")
    assert (status, "engine" in answer["reason"]) == (503, True)


def test_the_old_check_of_another_node_is_about_its_connection(cell: StillCell, api: ManagementApi) -> None:
    assert api.get("healthchecks/node/b") == (200, {"status": "ok"})
    assert api.get("healthchecks/node/c")[0] == 503
    assert api.get("healthchecks/node/elsewhere")[0] == 404


# ---- hand-over


def test_administrators_hand_over(broker: Broker, cell: StillCell, api: ManagementApi) -> None:
    handed = {"from": cell.now.leader, "to": "b", "epoch": 4}
    assert api.post("cluster/handover", {"to": "b"}) == (202, handed)
    assert api.post("cluster/handover") == (202, handed)
    assert cell.asked == ["b", ""]
    monitor = as_user(broker, "max", "monitoring")
    assert monitor.post("cluster/handover", {})[0] == 403
    assert monitor.get("cluster")[0] == 200
    assert as_user(broker, "anna", "management").get("cluster")[0] == 403
    assert len(cell.asked) == 2


def test_a_node_that_cannot_lead_is_refused(cell: StillCell, api: ManagementApi) -> None:
    status, answer = api.post("cluster/handover", {"to": "c"})
    assert (status, answer["error"], "cannot take over" in answer["reason"]) == (409, "conflict", True)
    status, answer = api.post("cluster/handover", {"to": cell.now.leader})
    assert (status, "leads already" in answer["reason"]) == (409, True)
    assert api.post("cluster/handover", {"to": 5})[0] == 400


# ---- several cells


def test_cells_are_listed_with_their_leaders(cell: StillCell, api: ManagementApi) -> None:
    cell.others = [CellSummary("stuck", problem="no node leads this cell")]
    status, (first, second) = api.get("cluster/cells")
    assert (status, first["cell"], first["leader"], first["epoch"]) == (200, "orders", cell.now.leader, 4)
    b = next(each for each in first["members"] if each["name"] == "b")
    assert (b["role"], b["connected"], b["up_to_date"]) == ("standby", True, True)
    assert (b["lag_records"], b["lag_seconds"]) == (2, 0.25)
    assert (second["leader"], second["members"], second["problem"]) == (None, [], "no node leads this cell")


def test_administrators_balance_the_leaders(broker: Broker, cell: StillCell, api: ManagementApi) -> None:
    cell.others = [summary_of(cell.now)._replace(cell="more")]
    moves = {"moves": [{"cell": "more", "from": cell.now.leader, "to": "b"}]}
    assert api.post("cluster/cells/balance", {"dry_run": True}) == (200, moves)
    assert cell.moved == []
    monitor = as_user(broker, "max", "monitoring")
    assert monitor.post("cluster/cells/balance", {})[0] == 403
    assert api.post("cluster/cells/balance") == (202, moves)
    assert cell.moved == [("more", "b")]
    assert api.post("cluster/cells/balance") == (202, {"moves": []})
    assert api.post("cluster/cells/balance", {"dry_run": 5})[0] == 400


def test_one_of_several_cells_is_handed_over(cell: StillCell, api: ManagementApi) -> None:
    cell.others = [summary_of(cell.now)._replace(cell="more", epoch=7)]
    handed = {"from": cell.now.leader, "to": "b", "epoch": 7}
    assert api.post("cluster/handover", {"cell": "more", "to": "b"}) == (202, handed)
    assert (cell.moved, cell.asked) == ([("more", "b")], [])
    assert api.post("cluster/handover", {"cell": "more", "to": "b"})[0] == 409
    assert api.post("cluster/handover", {"cell": "orders", "to": "b"})[0] == 202
    assert cell.asked == ["b"]
    status, answer = api.post("cluster/handover", {"cell": "other"})
    assert (status, "no cell 'other'" in answer["reason"]) == (404, True)


def test_a_cell_that_cannot_be_handed_over_is_named(cell: StillCell, api: ManagementApi) -> None:
    cell.others = [summary_of(cell.now)._replace(cell="stuck")]
    status, answer = api.post("cluster/cells/balance", {})
    assert (status, "no standby is connected and up to date" in answer["reason"]) == (409, True)


# ---- metrics


def test_metrics_of_the_cell(cell: StillCell, api: ManagementApi) -> None:
    for path in ("/metrics", "/metrics/per-object"):
        _, body = api.http.send("GET", path)
        lines = body.decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("leveret_cluster_"))
        leader = cell.now.leader
        assert values[f'leveret_cluster_member_up{{node="{leader}"}}'] == "1"
        assert values['leveret_cluster_member_up{node="c"}'] == "0"
        assert values['leveret_cluster_member_role{node="b",role="standby"}'] == "1"
        assert values['leveret_cluster_member_lag_records{node="b"}'] == "2"
        assert values['leveret_cluster_member_lag_bytes{node="b"}'] == "4096"
        assert values['leveret_cluster_member_lag_seconds{node="b"}'] == "0.25"
        assert 'leveret_cluster_member_lag_records{node="c"}' not in values
        assert values["leveret_cluster_epoch"] == "4"
        assert values["leveret_cluster_leader_start_time_seconds"] == str(SINCE)
        assert values['leveret_cluster_engine_server_up{server="s3"}'] == "0"
        assert values["leveret_cluster_engine_up"] == "1"
        assert values["leveret_cluster_quorum_critical"] == "1"
        assert values["leveret_cluster_log_bytes"] == str(1 << 20)
        assert values["leveret_cluster_log_limit_bytes"] == str(1 << 30)
        assert values['leveret_cluster_take_overs_total{reason="founded"}'] == "1"
        names = {re.sub(r"[{ ].*", "", name) for name in values}
        assert all(any(line.startswith(f"# HELP {name} ") for line in lines) for name in names)
