"""The engine has lost the log of a cell: a new one begins with the data directories of the members."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leveret.cluster.cell_stream import BUCKET, CellStream, bucket_configuration, prepare_stream
from leveret.cluster.engine import Engine, EngineConnection, EngineOptions, EngineUnavailable
from leveret.store.cell_file import CellFile, read_cell
from leveret.store.replica_note import read_note
from tests.support.cell_jobs import acknowledge, publish, queued, streamed
from tests.support.cell_node import PROGRAM, Cell, CellNode, until
from tests.support.nats_servers import NatsServers


@pytest.fixture
def cell(own_servers: NatsServers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    """Three nodes, started."""
    with Cell(tmp_path, own_servers, request.node.originalname[:60]) as made:
        made.start()
        made.await_ready()  # one that starts later would begin an empty cell when the log is gone
        yield made


def delete(servers: NatsServers, stream: str, seconds: float = 10.0) -> None:
    async def ask() -> None:
        connection = await Engine(EngineOptions(tuple(servers.urls)), "test").connect_within(60)
        try:
            await connection.request(f"$JS.API.STREAM.DELETE.{stream}", seconds=seconds)
        finally:
            await connection.close()

    asyncio.run(ask())


def cluster_command(servers: NatsServers, cell: Cell, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ("--cluster", ",".join(servers.urls), "--cell", cell.name)
    return subprocess.run(
        [*PROGRAM, "cluster", *arguments, *where], capture_output=True, text=True, timeout=60, check=False
    )


def follows(node: CellNode, log: str) -> bool:
    note = read_note(node.data)
    return note is not None and note.log == log and note.epoch > 0


def test_a_log_that_was_deleted_is_founded_again_without_a_loss(cell: Cell, own_servers: NatsServers) -> None:
    leader, servers = cell.leader(), own_servers
    before = publish(leader, "before", 40)
    acknowledge(leader, 10)
    in_use = cluster_command(servers, cell, "refound", "--yes")
    assert in_use.returncode == 1
    assert f"node {leader.name} leads the cell" in in_use.stderr
    delete(servers, CellStream.of(cell.name).name)
    delete(servers, f"KV_{BUCKET}")  # and with it the members and the secret
    for node in cell.nodes:
        node.wait_for("this node cannot follow", 60)
    refounded = cluster_command(servers, cell, "refound", "--yes", "--data-dir", str(leader.data))
    assert refounded.returncode == 0, refounded.stderr + cell.logs()
    former, leader = leader, cell.leader()  # another node may have as much as the former leader
    assert f"node '{leader.name}' leads the cell" in refounded.stdout
    ends = dict(re.findall(r"^(\w): (.*, journal to \S+)", refounded.stdout, re.MULTILINE))
    assert ends[leader.name] == ends[former.name]
    after = publish(leader, "after", 20)
    note = read_note(leader.data)
    assert note is not None
    until(lambda: all(follows(node, note.log) for node in cell.nodes), 60, cell.logs)
    after += publish(leader, "at last", 1)
    for node in cell.standbys():
        assert len(list(node.data.glob("before-*/replica"))) == 1
    leader.kill()
    second = cell.leader()
    assert queued(second) == before[10:] + after
    assert streamed(second, 61) == before + after


def test_the_journal_of_a_killed_leader_counts_and_not_only_its_note(cell: Cell, own_servers: NatsServers) -> None:
    leader = cell.leader()
    bodies = publish(leader, "all have this", 5)
    for node in cell.standbys():
        node.kill()
    bodies += publish(leader, "only the leader has this", 20)
    leader.kill()
    delete(own_servers, CellStream.of(cell.name).name)
    cell.start()
    for node in cell.nodes:
        node.wait_for("is not in the engine any more")  # they stay, and do not create a log
    refounded = cluster_command(own_servers, cell, "refound", "--yes")
    assert refounded.returncode == 0, refounded.stderr + cell.logs()
    assert cell.leader() is leader
    assert queued(leader) == bodies
    assert streamed(leader, 25) == bodies


def test_a_member_of_new_servers_does_not_forget_the_others(cell: Cell, own_servers: NatsServers) -> None:
    leader, standby = cell.leader(), cell.standbys()[0]
    until(lambda: len((read_cell(standby.data) or CellFile("", "")).members) == 3, 60, cell.logs)
    for node in cell.nodes:
        node.kill()
    delete(own_servers, CellStream.of(cell.name).name)
    delete(own_servers, f"KV_{BUCKET}")
    standby.start()
    standby.wait_for("is not in the engine any more")
    until(lambda: "its members are: a, b, c" in remove_unknown(own_servers, cell), 60, cell.logs)
    refused = cluster_command(own_servers, cell, "refound", "--yes", "--data-dir", str(standby.data))
    assert (refused.returncode, "not all members answer" in refused.stderr) == (1, True), refused.stderr
    leader.start()
    refused = cluster_command(own_servers, cell, "refound", "--yes")
    assert (refused.returncode, "not all members answer" in refused.stderr) == (1, True), refused.stderr


def remove_unknown(servers: NatsServers, cell: Cell) -> str:
    return cluster_command(servers, cell, "remove", "unknown", "--yes").stderr


@pytest.mark.timeout(400)
def test_two_servers_that_are_lost_for_ever_are_replaced_without_a_loss(tmp_path: Path) -> None:
    """The third one has the log, if it was not behind: then the cell comes back by itself."""
    with NatsServers(tmp_path) as servers, Cell(tmp_path, servers, "replaced") as cell:
        servers.start()
        cell.start()
        cell.await_ready()
        leader = cell.leader()
        bodies = publish(leader, "before", 40)
        for place in (0, 1):
            servers.kill(place)
            shutil.rmtree(tmp_path / servers.name(place))
        leader.wait_for("stepping down", 60)
        status = cluster_status(leader, tmp_path)
        assert (status.returncode, "has no leader" in status.stderr) == (1, True), status.stderr
        assert f"waiting for {leader.http_url}: the cell may have no leader now" in status.stderr
        refused = cluster_command(servers, cell, "refound", "--yes", "--data-dir", str(leader.data))
        assert refused.returncode == 1
        assert re.search(r"2 of 3 NATS servers cannot .*same server_name and an empty store_dir", refused.stderr)
        servers.start(0, 1)
        leader = cell.leader(60)
        bodies += publish(leader, "after", 5)
        assert queued(leader) == bodies


def cluster_status(node: CellNode, folder: Path) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"LEVERET_PASSWORD": "admin", "XDG_CONFIG_HOME": str(folder)}
    command = [*PROGRAM, "cluster", "status", "--url", node.http_url, "--username", "admin"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)


@pytest.mark.timeout(400)
def test_a_log_that_has_lost_two_of_its_servers_is_founded_again(tmp_path: Path) -> None:
    """The other three servers work, but the log and the bucket have no leader."""
    tags = [f"\nserver_tags: [{'first' if place < 3 else 'other'}]\n" for place in range(5)]
    with NatsServers(tmp_path, 5, more=tags) as servers, Cell(tmp_path, servers, "leaderless") as cell:
        servers.start()
        asyncio.run(create_streams(servers, cell))
        cell.start()
        cell.await_ready()
        leader = cell.leader()
        bodies = publish(leader, "before", 40)
        for place in (0, 1):
            servers.signal(place, signal.SIGTERM)  # the others know at once that it is down
            servers.wait(place)
        asyncio.run(lose_leaders(servers, f"KV_{BUCKET}", CellStream.of(cell.name).name))
        command = ("refound", "--yes", "--data-dir", str(leader.data))
        refused = cluster_command(servers, cell, *command)
        assert "delete it with 'nats stream rm KV_LEVERET'" in refused.stderr, refused.stderr + cell.logs()
        with suppress(EngineUnavailable):
            delete(servers, f"KV_{BUCKET}", seconds=1.0)
        refounded = cluster_command(servers, cell, *command)
        assert refounded.returncode == 0, refounded.stderr + cell.logs()
        leader = cell.leader()
        bodies += publish(leader, "after", 5)
        assert queued(leader) == bodies


async def create_streams(servers: NatsServers, cell: Cell) -> None:
    """All copies on the first three servers."""
    placement = {"placement": {"tags": ["first"]}}
    connection = await Engine(EngineOptions(tuple(servers.urls)), "test").connect_within(60)
    await prepare_stream(connection, bucket_configuration(3) | placement)
    await prepare_stream(connection, CellStream.of(cell.name).configuration(3, 64 << 20) | placement)
    await connection.close()


async def lose_leaders(servers: NatsServers, *streams: str) -> None:
    """Wait until the engine has noticed that a majority of the servers with these streams is down."""
    connection = await Engine(EngineOptions(tuple(servers.urls)), "test").connect_within(60)
    try:
        async with asyncio.timeout(60):
            for stream in streams:
                while await has_leader(connection, stream):
                    await asyncio.sleep(0.1)
    finally:
        await connection.close()


async def has_leader(connection: EngineConnection, stream: str) -> bool:
    try:
        info = await connection.request(f"$JS.API.STREAM.INFO.{stream}")
    except EngineUnavailable:  # during an election
        return True
    return bool(info["cluster"].get("leader"))
