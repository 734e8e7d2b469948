"""A single node becomes a cell with its data, and a member becomes a single node again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cell_jobs import acknowledge, publish, queued, streamed
from tests.support.cell_node import PORTS, PROGRAM, Cell, CellNode, until
from tests.support.cell_ports import free_ports
from tests.support.nats_servers import NatsServers


@pytest.fixture
def cell(servers: NatsServers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    """Three nodes, not started."""
    with Cell(tmp_path, servers, request.node.originalname[:60]) as made:
        yield made


def single(cell: Cell, name: str) -> CellNode:
    """A node without a cell, on the data directory of this name."""
    node = CellNode(cell.folder, name, [], dict(zip(PORTS, free_ports(3), strict=True)))
    cell.singles.append(node)
    begun = len(node.log())
    node.start()
    until(lambda: " is ready" in node.log()[begun:], 60, node.log)
    return node


def stop(node: CellNode) -> None:
    node.signal(signal.SIGTERM)
    assert node.wait() == 0


def cluster_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, "cluster", *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_a_single_node_becomes_a_cell_of_three_and_a_single_node_again(cell: Cell) -> None:
    a, b, c = cell.nodes
    alone = single(cell, "a")
    before = publish(alone, "before", 30)
    acknowledge(alone, 10)
    stop(alone)
    a.start()
    assert cell.leader() is a
    during = publish(a, "during", 20)
    for node in (b, c):
        node.start()
        node.wait_for("snapshot copied")
    after = publish(b, "after", 20)
    a.kill()
    leader = cell.leader()
    assert queued(leader) == before[10:] + during + after
    assert streamed(leader, 70) == before + during + after
    in_use = cluster_command("leave", str(leader.data))
    assert (in_use.returncode, "in use by a broker" in in_use.stderr) == (1, True)
    stop(leader)
    left = cluster_command("leave", str(leader.data))
    assert left.returncode == 0, left.stderr
    assert f"has left the cell '{cell.name}'" in left.stdout
    alone = single(cell, leader.name)
    assert queued(alone) == before[10:] + during + after
    assert streamed(alone, 70) == before + during + after
    stop(alone)
    again = cluster_command("leave", str(leader.data))
    assert (again.returncode, "belongs to no cell" in again.stderr) == (1, True)


def test_a_removed_node_stops_following_and_joins_again_when_it_is_started(cell: Cell, servers: NatsServers) -> None:
    cell.start()
    leader = cell.leader()
    removed = cell.standbys()[0]
    removed.wait_for("is ready")
    where = ("--cluster", ",".join(servers.urls), "--cell", cell.name)
    refused = cluster_command("remove", leader.name, *where)
    assert (refused.returncode, "hand over first" in refused.stderr) == (1, True)
    monitoring = ("--cluster-monitoring", ",".join(servers.monitoring))
    joining = cluster_command("join", *where, *monitoring, "--node-name", "d", "--data-dir", str(leader.data / "none"))
    assert joining.returncode == 0, joining.stderr
    assert f"cell '{cell.name}': 3 node(s), node '{leader.name}' leads" in joining.stdout
    assert joining.stdout.count("  reachable") == 3
    assert f"--cell {cell.name} --node-name d" in joining.stdout
    unknown = cluster_command("remove", "z", *where)
    assert (unknown.returncode, "its members are: a, b, c" in unknown.stderr) == (1, True)
    done = cluster_command("remove", removed.name, *where)
    assert done.returncode == 0, done.stderr
    removed.wait_for("this node does not follow any more")
    assert removed.is_running
    publish(leader, "without it", 3)
    stop(removed)
    removed.start()
    until(lambda: removed.log().count("is ready") == 2, 60, removed.log)


def test_of_two_nodes_with_data_the_second_is_refused(cell: Cell) -> None:
    a, b, _ = cell.nodes
    for name in ("a", "b"):
        alone = single(cell, name)
        publish(alone, name, 1)
        stop(alone)
    a.start()
    cell.leader()
    b.start()
    assert b.wait() == 1
    assert "the cell has begun already: choose an empty one with --data-dir" in b.log()
    again = single(cell, "b")  # its data is as it was
    assert queued(again) == [b"b 0 "]
    stop(again)
