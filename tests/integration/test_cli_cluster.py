"""``leveret cluster`` and the other commands that list nodes, at a node of a cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret import Broker
from leveret.cluster.cell_summary import CellSummary, summary_of
from tests.support.command_line import Cli
from tests.support.still_cell import StillCell

pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> Cli:
    return Cli(broker.http_url, tmp_path)


@pytest.fixture
def cell(broker: Broker) -> StillCell:
    return StillCell(broker)


def test_the_state_of_the_cell_is_printed(cli: Cli, cell: StillCell) -> None:
    facts, members, servers, take_overs = cli.done("cluster", "status").split("\n\n")
    assert "cell          orders" in facts
    assert "leader since  2023-11-14 22:13:20Z" in facts
    assert "log           1.0 MiB of 1.0 GiB" in facts
    assert "critical      only one other member (b)" in facts
    rows = [line.split() for line in members.splitlines()]
    assert rows[2][:8] == ["b", "standby", "yes", "1.0", "98", "2", "4.0", "KiB"]
    assert rows[2][-2:] == ["amqp://b.example:5672", "-"]
    assert members.endswith("its disk is full")
    assert rows[3][:5] == ["c", "down", "no", "0.9", "-"]
    assert servers.splitlines()[3].split() == ["s3", "-", "no", "no", "no", "7", "-"]
    assert "leader's process ended  0.6 s" in take_overs


def test_json_is_that_of_the_api_and_watching_a_pipe_prints_once(cli: Cli, cell: StillCell) -> None:
    assert cli.json("cluster", "status")["members"][1]["lag_bytes"] == 4096
    assert cli.done("cluster", "status", "--watch") == cli.done("cluster", "status")


def test_a_broker_without_a_cell_is_refused_with_the_reason(cli: Cli) -> None:
    assert "does not belong to a cell" in cli.refused("cluster", "status")
    assert "does not belong to a cell" in cli.refused("cluster", "handover")


def test_hand_over_waits_until_the_other_node_leads(cli: Cli, cell: StillCell) -> None:
    cell.leads_after_hand_over = "b"
    done = cli.done("cluster", "handover", "--to", "b")
    assert done.startswith("node 'b' leads the cell 'orders', after ")
    assert cell.asked == ["b"]


def test_hand_over_fails_if_another_node_leads_or_none_can(cli: Cli, cell: StillCell) -> None:
    assert "cannot take over" in cli.refused("cluster", "handover", "--to", "c")
    cell.leads_after_hand_over = "c"
    assert "node 'c' leads now instead of 'b'" in cli.refused("cluster", "handover")


def test_other_commands_leave_out_what_is_known_of_the_leader_only(cli: Cli, cell: StillCell) -> None:
    leader = cell.now.leader
    status = cli.done("status")
    assert f"node {leader}" in status
    assert "leader of the cell orders" in status
    lines = cli.done("overview").splitlines()
    nodes = [line.split() for line in lines if line.split()[:1] in ([leader], ["b"], ["c"])]
    assert [row[:2] for row in nodes] == [[leader, "leader"], ["b", "standby"], ["c", "down"]]
    assert f"node {leader}, up" in cli.done("top", "--once")
    result = cli.run("doctor")
    assert result.exit_code == 1
    assert "node 'c' is not running" in result.stdout
    assert "the cell may not survive another failure" in result.stdout


# ---- several cells


def test_cells_are_printed(cli: Cli, cell: StillCell) -> None:
    cell.others = [CellSummary("more", problem="no node leads this cell")]
    _, first, second = cli.done("cluster", "cells").splitlines()
    assert first.split()[:3] == ["orders", cell.now.leader, "4"]
    assert "b (lag 0.2 s), c (down)" in first
    assert second.split() == ["more", "-", "0", "-", "no", "node", "leads", "this", "cell"]
    assert cli.json("cluster", "cells")[1]["problem"] == "no node leads this cell"


def test_leaders_are_balanced_after_a_question(cli: Cli, cell: StillCell) -> None:
    cell.others = [summary_of(cell.now)._replace(cell="more")]
    shown = cli.done("cluster", "cells", "--balance", "--dry-run")
    assert shown.splitlines()[1].split() == ["more", cell.now.leader, "b"]
    assert cell.moved == []
    assert "1 cell(s) handed over" in cli.done("cluster", "cells", "--balance", "--yes")
    assert cell.moved == [("more", "b")]
    assert cli.done("cluster", "cells", "--balance") == "the leaders are balanced already\n"
    assert "use both" in cli.refused("cluster", "cells", "--dry-run", code=2)


def test_a_hand_over_that_is_refused_is_reported(cli: Cli, cell: StillCell) -> None:
    cell.others = [summary_of(cell.now)._replace(cell="stuck")]
    assert "no standby is connected and up to date" in cli.refused("cluster", "cells", "--balance", "--yes")


def test_one_of_several_cells_is_handed_over(cli: Cli, cell: StillCell) -> None:
    cell.others = [summary_of(cell.now)._replace(cell="more")]
    done = cli.done("cluster", "handover", "--cell", "more", "--yes")
    assert done.startswith("node 'b' leads the cell 'more', after ")
    assert cell.moved == [("more", "")]
    assert "no cell 'other'" in cli.refused("cluster", "handover", "--cell", "other")
