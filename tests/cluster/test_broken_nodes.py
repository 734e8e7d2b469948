"""The checker of histories finds the loss when a part of the replication is broken. That it finds nothing otherwise is
shown by the tests of faults, and for the fence here: it needs no help of the lease."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cell_node import Cell
from tests.support.nats_servers import NatsServers
from tests.support.operation_history import Kind
from tests.support.recorded_publishers import Publishers

pytestmark = pytest.mark.timeout(400)

NewCell = Callable[..., Cell]


@pytest.fixture
def new_cell(tmp_path: Path) -> Iterator[NewCell]:
    made: list[Cell] = []

    def new_cell(servers: NatsServers, name: str, faults: str) -> Cell:
        """Three nodes, started, with these faults."""
        program = ("tests.support.broken_node", faults)
        made.append(Cell(tmp_path, servers, name, program=program))
        made[-1].start()
        return made[-1]

    yield new_cell
    for cell in made:
        cell.end()


@pytest.mark.parametrize(("faults", "found"), [("no-lease", []), ("no-lease,no-fence", [Kind.LOST])])
@pytest.mark.slow
def test_appends_of_a_deposed_leader_are_lost_without_the_fence(
    faults: str, found: list[Kind], servers: NatsServers, new_cell: NewCell
) -> None:
    """The lease does not matter."""

    async def run(cell: Cell) -> None:
        old = cell.leader()
        async with Publishers(cell) as publishers:
            to_old = await publishers.add(old)
            to_old.send(20)
            assert await to_old.take_confirms(20, 20) == 20
            old.signal(signal.SIGSTOP)
            new = await asyncio.to_thread(cell.leader, but=old)
            to_new = await publishers.add(new)
            to_new.send(20)
            assert await to_new.take_confirms(20, 20) == 20
            old.signal(signal.SIGCONT)
            to_old.send(20)  # two nodes that lead are asked at the same moment
            to_new.send(20)
            confirmed = await asyncio.gather(to_old.take_confirms(40, 5), to_new.take_confirms(40, 20))
            assert confirmed == [40 if found else 20, 40]
            old.kill()
            assert await publishers.violations() == found

    asyncio.run(run(new_cell(servers, f"fence{len(found)}", faults)))


@pytest.mark.slow
def test_messages_confirmed_before_the_engine_has_them_are_lost_with_the_leader(
    own_servers: NatsServers, new_cell: NewCell
) -> None:
    """The engine may lack even the declaration of their queue."""

    async def run(cell: Cell) -> None:
        leader = cell.leader()
        cell.await_ready()
        async with Publishers(cell) as publishers:
            sender = await publishers.add(leader)
            sender.send(20)
            assert await sender.take_confirms(20, 20) == 20
            own_servers.stop()
            sender.send(20)
            await sender.take_confirms(40, 2)
            leader.kill()
            own_servers.start()
            assert await publishers.violations() == [Kind.LOST]

    asyncio.run(run(new_cell(own_servers, "early", "early")))


@pytest.mark.slow
def test_records_that_standbys_skip_are_lost_with_the_leader(servers: NatsServers, new_cell: NewCell) -> None:
    async def run(cell: Cell) -> None:
        leader = cell.leader()
        async with Publishers(cell) as publishers:
            sender = await publishers.add(leader)
            for number in range(1, 31):  # one record for each
                sender.send(1)
                assert await sender.take_confirms(number, 20) == number
            leader.kill()
            assert await publishers.violations() == [Kind.LOST]

    asyncio.run(run(new_cell(servers, "skip", "skip")))
