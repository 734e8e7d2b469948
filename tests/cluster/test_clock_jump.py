"""The time of day of a node jumps by days, in both directions: neither the leader nor a take-over depends on it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.cell_node import Cell, CellNode, until
from tests.support.nats_servers import NatsServers
from tests.support.own_clock import OwnClock, compile_clock
from tests.support.recorded_publishers import Publishers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

DAY = 24 * 60 * 60
LOOKS = 2.5  # seconds: several looks at the lease, at the log and at the members


def test_a_clock_that_jumps_changes_nothing_for_the_leader_and_its_standbys(
    servers: NatsServers, tmp_path: Path
) -> None:
    library = compile_clock(tmp_path)
    with Cell(tmp_path, servers, "clocks") as cell:
        clocks = {node.name: OwnClock(library, tmp_path / f"{node.name}.clock") for node in cell.nodes}
        for node in cell.nodes:
            node.start(**clocks[node.name].environ)
        cell.await_ready()
        asyncio.run(jump(cell, clocks))


async def jump(cell: Cell, clocks: dict[str, OwnClock]) -> None:
    leader = cell.leader()
    standby, other = cell.standbys()
    confirmed = 0
    async with Publishers(cell) as publishers:
        publisher = await publishers.add(leader)
        for days in (40, -40, 0):
            clocks[leader.name].jump(days * DAY)
            clocks[standby.name].jump(-days * DAY)
            for _ in range(10):  # more than one renewal of the lease
                publisher.send(5)
                confirmed += 5
                assert await publisher.take_confirms(confirmed, 20) == confirmed
                await asyncio.sleep(LOOKS / 10)
            await publishers.add(leader)
            await asyncio.to_thread(until, lambda: shows(leader, days), 30, leader.log)  # noqa: B023
        assert cell.leader() is leader
        assert [node.times_leading for node in cell.nodes if node is not leader] == [0, 0]
        assert "stepping down" not in leader.log()
        clocks[standby.name].jump(-40 * DAY)
        other.kill()
        leader.kill()
        assert await asyncio.to_thread(cell.leader, 9) is standby  # not when a lease is over: after 10 s
        assert await publishers.violations() == []


def shows(node: CellNode, days: int) -> bool:
    """Whether the last line of its log has the time after such a jump: the clock of the process has jumped."""
    day = datetime.now() + timedelta(days=days)
    return node.log().splitlines()[-1][:10] in (f"{day - timedelta(minutes=1):%Y-%m-%d}", f"{day:%Y-%m-%d}")
