"""The servers of the engine accept smaller messages than the records of the log are: at the start, and later."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.cell_node import Cell, until
from tests.support.nats_servers import NatsServers
from tests.support.recorded_publishers import Publishers

TOO_SMALL, ENOUGH = "\nmax_payload: 256KB\n", "\nmax_payload: 2MB\n"
LARGE = 400 << 10
REMEDY = "accepts messages of at most 262144 bytes: set 'max_payload' to 1MB or more"


@pytest.mark.timeout(400)
def test_a_limit_that_is_too_small_is_refused_at_the_start_and_blocks_publishers_later(tmp_path: Path) -> None:
    with NatsServers(tmp_path, more=TOO_SMALL) as servers, Cell(tmp_path, servers, "payload") as cell:
        servers.start()
        first = cell.nodes[0]
        first.start()
        assert first.wait(30) != 0
        assert first.log().count(REMEDY) == 3, first.log()  # one for each server
        servers.reload(ENOUGH)
        cell.start()
        asyncio.run(lower_the_limit(servers, cell))


async def lower_the_limit(servers: NatsServers, cell: Cell) -> None:
    leader = await asyncio.to_thread(cell.leader)
    async with Publishers(cell) as publishers:
        publisher = await publishers.add(leader)
        publisher.send(1, LARGE)
        assert await publisher.take_confirms(1, 20) == 1
        servers.reload(TOO_SMALL)
        deadline, before = time.monotonic() + 20, len(leader.log())
        while not publisher.is_blocked:
            assert time.monotonic() < deadline, cell.logs()
            publisher.send(1, LARGE)
            await publisher.take_confirms(1 << 30, 0.5)
        await asyncio.to_thread(until, lambda: REMEDY in leader.log()[before:], 10.0, lambda: leader.log()[before:])
        assert leader.log()[before:].count("\n") < 20  # not a line for each attempt
        servers.reload(ENOUGH)
        assert await publishers.violations() == []
        publisher = await publishers.add(await asyncio.to_thread(cell.leader))
        publisher.send(1, LARGE)
        assert await publisher.take_confirms(1, 20) == 1
