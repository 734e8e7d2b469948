"""The management of a cell of real processes: its state through any node, lag, take-overs, hand-over, metrics."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPConnectionError

from leveret.cluster.status import FOUNDED, HAND_OVER, PROCESS_ENDED
from tests.support.cell_node import Cell, CellNode, until
from tests.support.command_line import Cli
from tests.support.management_api import ManagementApi
from tests.support.nats_servers import NatsServers

PERSISTENT = pika.BasicProperties(delivery_mode=2)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def cell(servers: NatsServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    made = Cell(tmp_path_factory.mktemp("managed"), servers, "managed")
    try:
        made.start()
        for node in made.nodes:
            node.wait_for("is ready as", 30.0)
        yield made
    finally:
        made.end()
    found = [log[max(log.index("Traceback") - 500, 0) :][:4000] for log in made.tracebacks()]
    assert not found, "\n\n".join(found)


def api(node: CellNode) -> ManagementApi:
    return ManagementApi(node.http_url, "admin", "admin")


def state(node: CellNode) -> Row:
    status, row = api(node).get("cluster")
    assert status == 200, row
    return dict(row)


def wait(cell: Cell, node: CellNode, is_reached: Callable[[Row], object], seconds: float = 20.0) -> Row:
    """Until the state that this node shows is as wanted."""
    seen: list[Row] = []

    def look() -> bool:
        seen[:] = [state(node)]
        return bool(is_reached(seen[0]))

    until(look, seconds, lambda: f"{seen}\n{cell.logs()}")
    return seen[0]


def members(row: Row) -> dict[str, Row]:
    return {each["name"]: each for each in row["members"]}


def is_whole(row: Row) -> bool:
    """All members follow, and the history is complete."""
    if len(row["members"]) < 3 or not row["take_overs"] or row["take_overs"][0]["epoch"] != row["epoch"]:
        return False
    return all(each["connected"] and each["lag_records"] == 0 for each in row["members"])


def test_a_standby_shows_the_state_of_the_cell(cell: Cell) -> None:
    leader, standby = cell.leader(), cell.standbys()[0]
    row = wait(cell, standby, lambda row: is_whole(row) and all(each["version"] for each in row["engine"]["servers"]))
    assert (row["cell"], row["leader"], row["epoch"]) == ("managed", leader.name, 1)
    roles = {name: each["role"] for name, each in members(row).items()}
    assert roles == {node.name: "leader" if node is leader else "standby" for node in cell.nodes}
    assert members(row)[standby.name]["endpoints"]["amqp"] == f"amqp://127.0.0.1:{standby.port}"
    assert members(row)[standby.name]["cluster_address"]["port"] == standby.cluster_port
    servers = row["engine"]["servers"]
    assert [each["name"] for each in servers] == ["server0", "server1", "server2"]
    assert all(each["reachable"] and each["current"] for each in servers)
    assert sum(each["leader"] for each in servers) == 1
    assert row["engine"]["answering"] is True
    assert row["log"]["max_bytes"] == 64 << 20
    assert row["log"]["last"] > 0
    (founded,) = row["take_overs"]
    assert (founded["node"], founded["epoch"], founded["reason"]) == (leader.name, 1, FOUNDED)
    assert {each["name"]: each["running"] for each in api(standby).get("nodes")[1]} == dict.fromkeys("abc", True)
    assert api(standby).get("health/checks/node-is-quorum-critical") == (200, {"status": "ok"})
    assert api(standby).get("health/checks/ready-to-serve-clients") == (200, {"status": "ok"})


def test_a_standby_that_does_not_follow_lags(cell: Cell) -> None:
    leader = cell.leader()
    standby = cell.standbys()[0]
    wait(cell, leader, is_whole)
    standby.signal(signal.SIGSTOP)
    try:
        with pika.BlockingConnection(pika.URLParameters(leader.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("jobs", durable=True)
            channel.confirm_delivery()
            for _ in range(20):
                channel.basic_publish("", "jobs", bytes(10_000), PERSISTENT)
        row = wait(cell, leader, lambda row: not members(row)[standby.name]["connected"])
        seen = members(row)[standby.name]
        assert seen["role"] == "standby"  # its process is there
        assert seen["lag_records"] > 0
        assert 200_000 <= seen["lag_bytes"] < 400_000
        assert 2.0 < seen["lag_seconds"] < 60.0
        status, answer = api(leader).get("health/checks/node-is-quorum-critical")
        assert (status, answer["status"]) == (503, "failed")
        assert {each["name"]: each["running"] for each in api(leader).get("nodes")[1]}[standby.name] is False
    finally:
        standby.signal(signal.SIGCONT)
    row = wait(cell, leader, is_whole)
    assert members(row)[standby.name]["lag_seconds"] == 0.0


class Publisher:
    """Publishes through one node until it is stopped, and connects again when the connection is lost."""

    def __init__(self, node: CellNode) -> None:
        self.confirmed = self.losses = 0
        self.problems: list[BaseException] = []
        self._url = node.url
        self._is_over = Event()

    @contextmanager
    def running(self) -> Iterator[Publisher]:
        thread = Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._publish()
            except AMQPConnectionError:
                self.losses += 1
            except Exception as problem:
                self.problems.append(problem)
                raise

    def _publish(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
            channel = connection.channel()
            channel.queue_declare("handed", durable=True)
            channel.confirm_delivery()
            while not self._is_over.is_set():
                channel.basic_publish("", "handed", b"x", PERSISTENT)
                self.confirmed += 1


def hand_over(cell: Cell, at: CellNode, to: CellNode, folder: Path) -> float:
    """By the command line; the seconds that it took."""
    cli = Cli(at.http_url, folder, "admin", "admin")
    printed = cli.done("cluster", "handover", "--to", to.name)
    found = re.fullmatch(rf"node '{to.name}' leads the cell 'managed', after ([0-9.]+) s\n", printed)
    assert found, printed
    assert cell.leader() is to
    return float(found[1])


def test_the_command_line_hands_over_and_clients_only_reconnect(cell: Cell, tmp_path: Path) -> None:
    to, other = cell.standbys()
    wait(cell, to, is_whole)
    with Publisher(other).running() as publisher:
        until(lambda: publisher.confirmed > 20, 20.0, cell.logs)
        hand_over(cell, other, to, tmp_path)
        before = publisher.confirmed
        until(lambda: publisher.confirmed > before + 20, 20.0, cell.logs)
    assert publisher.problems == []
    assert publisher.losses >= 1
    row = wait(cell, other, is_whole)
    assert (row["take_overs"][0]["node"], row["take_overs"][0]["reason"]) == (to.name, HAND_OVER)
    count = api(other).get("queues/%2F/handed")[1]["messages"]
    assert publisher.confirmed <= count <= publisher.confirmed + publisher.losses
    assert "cannot take over" in Cli(other.http_url, tmp_path, "admin", "admin").refused(
        "cluster", "handover", "--to", "elsewhere"
    )


@pytest.mark.quiet
def test_hand_over_takes_less_than_a_second(cell: Cell, tmp_path: Path) -> None:
    to, other = cell.standbys()
    wait(cell, other, is_whole)
    assert hand_over(cell, other, to, tmp_path) < 1.0


def test_a_killed_leader_is_in_the_history(cell: Cell) -> None:
    killed = cell.leader()
    wait(cell, killed, is_whole)
    epoch = state(killed)["epoch"]
    killed.kill()
    leader = cell.leader()
    row = wait(cell, leader, lambda row: row["take_overs"] and row["take_overs"][0]["epoch"] == row["epoch"])
    newest = row["take_overs"][0]
    assert (newest["epoch"], newest["node"], newest["reason"]) == (epoch + 1, leader.name, PROCESS_ENDED)
    assert 0.0 < newest["seconds"] < 20.0
    assert row["take_over_totals"][PROCESS_ENDED] == 1
    assert row["take_over_totals"][FOUNDED] == 1
    row = wait(cell, leader, lambda row: members(row)[killed.name]["problem"])
    assert members(row)[killed.name]["role"] == "down"
    assert members(row)[killed.name]["connected"] is False
    assert members(row)[killed.name]["problem"] == f"no process listens on 127.0.0.1 port {killed.cluster_port}"
    killed.start()
    wait(cell, leader, is_whole)


def metrics(node: CellNode) -> dict[str, float]:
    response, body = api(node).http.send("GET", "/metrics")
    assert response.status == 200
    lines = [line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines if name.startswith("leveret_")}


def test_the_leader_has_the_metrics_of_the_cell_and_standbys_their_own(cell: Cell) -> None:
    leader, standby = cell.leader(), cell.standbys()[0]
    wait(cell, leader, is_whole)
    values = metrics(leader)
    assert values[f'leveret_cluster_member_role{{node="{leader.name}",role="leader"}}'] == 1
    for each in cell.nodes:
        assert values[f'leveret_cluster_member_up{{node="{each.name}"}}'] == 1
        assert values[f'leveret_cluster_member_lag_seconds{{node="{each.name}"}}'] < 5.0
    assert values["leveret_cluster_epoch"] == state(leader)["epoch"]
    assert values["leveret_cluster_engine_up"] == 1
    assert values['leveret_cluster_engine_server_up{server="server0"}'] == 1
    assert values["leveret_cluster_log_limit_bytes"] == 64 << 20
    assert values['leveret_cluster_take_overs_total{reason="founded"}'] == 1
    assert metrics(standby)["leveret_standby_ready"] == 1
    assert "leveret_cluster_epoch" not in metrics(standby)
