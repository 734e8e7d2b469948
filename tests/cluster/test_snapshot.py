"""Members that the log does not reach any more copy the leader's data directory."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from leveret.cluster.cell_stream import CellStream, prepare_stream
from leveret.cluster.engine import Engine, EngineOptions
from leveret.store.replica_note import read_note
from tests.support.cell_jobs import QUEUE, acknowledge, channel_of, publish, queued, streamed
from tests.support.cell_node import Cell, CellNode
from tests.support.nats_servers import NatsServers

RING = 2 << 20


def engine_request(servers: NatsServers, stream: CellStream) -> dict[str, Any]:
    """Create the stream, with a small ring, unless it is there; what the engine knows about it."""

    async def ask() -> dict[str, Any]:
        connection = await Engine(EngineOptions(tuple(servers.urls)), "test").connect_within(10)
        try:
            return await prepare_stream(connection, stream.configuration(3, RING))
        finally:
            await connection.close()

    return asyncio.run(ask())


@pytest.fixture
def cell(servers: NatsServers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cell]:
    """Two nodes, started, and a log of 2 MiB."""
    with Cell(tmp_path, servers, request.node.originalname[:60], nodes=2) as made:
        engine_request(servers, CellStream.of(made.name))
        made.start()
        made.leader()
        yield made


def outrun(cell: Cell, servers: NatsServers, leader: CellNode, behind: int) -> list[bytes]:
    """Publish until the log begins behind this sequence; what was published."""
    bodies: list[bytes] = []
    while engine_request(servers, CellStream.of(cell.name))["state"]["first_seq"] <= behind + 1:
        bodies += publish(leader, f"more {len(bodies)}", 20, 50_000)
    return bodies


def test_members_that_were_away_for_too_long_and_new_ones_copy_a_snapshot(cell: Cell, servers: NatsServers) -> None:
    leader = cell.leader()
    (away,) = cell.standbys()
    before = publish(leader, "before", 20)
    away.signal(signal.SIGTERM)
    assert away.wait() == 0
    note = read_note(away.data)
    assert note is not None
    more = outrun(cell, servers, leader, note.sequence)
    acknowledge(leader, 10)
    new = cell.add("c")
    for node in (away, new):
        node.start()
        node.wait_for("snapshot copied")
        assert "copying the leader's data directory" in node.log()
    last = publish(new, "last", 10)
    leader.kill()
    second = cell.leader()
    assert queued(second) == before[10:] + more + last
    assert streamed(second, len(before + more + last)) == before + more + last
    assert not list(leader.data.glob("backup-*"))
    assert not [*second.data.glob("snapshot.*"), *second.data.glob("before-*")]


class Load(Thread):
    """Publishes, settles, declares and deletes until it is told to stop."""

    def __init__(self, node: CellNode) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.settled = 0
        self.declared: list[str] = []
        self._node = node
        self._enough = Event()

    def run(self) -> None:
        while not self._enough.is_set():
            name = f"during {len(self.sent)}"
            self.sent += publish(self._node, name, 5, 1000)
            with channel_of(self._node) as channel:
                channel.queue_declare(name, durable=True)
                self.declared.append(name)
                if len(self.declared) > 2:
                    channel.queue_delete(self.declared.pop(0))
                channel.basic_get(QUEUE, auto_ack=True)
                self.settled += 1

    def stop(self) -> None:
        self._enough.set()
        self.join()


def test_a_snapshot_that_is_taken_under_load_has_everything(cell: Cell, servers: NatsServers) -> None:
    leader = cell.leader()
    for node in cell.standbys():
        node.kill()
    before = outrun(cell, servers, leader, 0)
    load = Load(leader)
    load.start()
    try:
        new = cell.add("c")
        new.start()
        new.wait_for("snapshot copied")
    finally:
        load.stop()
    end = engine_request(servers, CellStream.of(cell.name))["state"]["last_seq"]
    last: list[bytes] = []
    while (note := read_note(new.data)) is None or note.sequence < end:  # it writes a note now and then
        last += publish(leader, f"last {len(last)}", 1)
    leader.kill()
    assert cell.leader() is new
    sent = before + load.sent + last
    assert queued(new) == sent[load.settled :]
    assert streamed(new, len(sent)) == sent
    with channel_of(new) as channel:
        for name in load.declared:
            channel.queue_declare(name, passive=True)
