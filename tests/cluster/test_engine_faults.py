"""Servers of the engine are killed and stopped while a leader appends: nothing granted is lost, nothing is double."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from leveret.replication.append_window import WORTHWHILE
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog, Leader, until
from tests.support.nats_servers import NatsServers

Fault = Callable[[CellLog, Leader], Awaitable[None]]
MORE = 20  # batches that are granted after a fault


class Load:
    """Appends as long as it runs, a few batches at a time."""

    def __init__(self, leader: Leader) -> None:
        self.appended: list[bytes] = []
        self._leader = leader
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            if self._leader.appender.has_room(WORTHWHILE):
                self.appended.append(b"batch %d " % len(self.appended) + bytes(2000))
                self._leader.append(self.appended[-1])
            await asyncio.sleep(0.001)

    def stop(self) -> None:
        self._task.cancel()


async def more(leader: Leader) -> None:
    reached = len(leader.acknowledged) + MORE
    await until(lambda: len(leader.acknowledged) >= reached)


async def follower_killed(cell: CellLog, leader: Leader) -> None:
    place = (await cell.stream_leader() + 1) % 3
    cell.servers.kill(place)
    await more(leader)
    cell.servers.start(place)


async def leader_killed(cell: CellLog, leader: Leader) -> None:
    place = await cell.stream_leader()
    cell.servers.kill(place)
    await more(leader)
    cell.servers.start(place)


async def leader_stopped(cell: CellLog, leader: Leader) -> None:
    """It continues later, and finds that another server leads."""
    place = await cell.stream_leader()
    cell.servers.signal(place, signal.SIGSTOP)
    try:
        await more(leader)
    finally:
        cell.servers.signal(place, signal.SIGCONT)


async def two_killed_then_all(cell: CellLog, leader: Leader) -> None:
    """Without a majority nothing is granted."""
    places = [(await cell.stream_leader() + n) % 3 for n in (0, 1)]
    for place in places:
        cell.servers.kill(place)
    await until(lambda: not leader.appender.has_room(WORTHWHILE))
    granted = len(leader.acknowledged)
    cell.servers.kill((places[1] + 1) % 3)  # the last one: what it has is all that could have been granted
    assert len(leader.acknowledged) == granted
    cell.servers.start()


@pytest.mark.parametrize("fault", [follower_killed, leader_killed, leader_stopped, two_killed_then_all])
def test_appends_continue_after(fault: Fault, own_servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        standby = cell.member("b")
        load = Load(leader)
        await more(leader)
        await fault(cell, leader)
        await more(leader)
        load.stop()
        await leader.settled()
        assert leader.reason is None
        assert leader.acknowledged == load.appended
        await until(lambda: len(standby.batches) == len(load.appended))
        assert standby.batches == load.appended
        assert await cell.all_batches() == load.appended

    play(own_servers, story)
