"""Links between three machines break, each with a node and a server of the engine; clients reach all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.support.cell_load import CellLoad
from tests.support.cell_node import Cell, CellNode
from tests.support.machines import Machines
from tests.support.nats_servers import NatsServers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Site(NamedTuple):
    machines: Machines
    cell: Cell
    load: CellLoad

    def place(self, node: CellNode) -> int:
        return self.cell.nodes.index(node)

    async def leader(self, but: CellNode | None = None) -> CellNode:
        return await asyncio.to_thread(self.cell.leader, 60.0, but=but)


@pytest.fixture
def machines() -> Iterator[Machines]:
    with Machines(3) as machines, machines.inside():
        yield machines


@pytest.fixture
def cell(machines: Machines, tmp_path: Path) -> Iterator[Cell]:
    """Three nodes, started."""
    with NatsServers(tmp_path, machines=list(machines)) as servers:
        servers.start()
        made = Cell(tmp_path, servers, "network", machines=list(machines))
        try:
            made.start()
            yield made
        finally:
            made.end()


def play(machines: Machines, cell: Cell, fault: Callable[[Site], object]) -> None:
    """Under load; nothing confirmed is lost."""

    async def run() -> None:
        load = CellLoad(cell.nodes, Random(1), rate=60, holds=True)
        await load.start()
        await load.more(30, 60)
        await fault(Site(machines, cell, load))  # type: ignore[misc]
        machines.heal()
        await load.more(30, 60)
        await load.stop()
        await load.drain()
        report = load.history.check()
        print(report)
        assert not report.violations, str(report)
        assert not cell.tracebacks()

    asyncio.run(run())


def test_a_leader_on_the_minority_side_is_replaced(machines: Machines, cell: Cell) -> None:
    """It has one server of the engine, and its clients. The other nodes cannot tell whether it is alive."""

    async def fault(site: Site) -> None:
        old = await site.leader()
        site.machines.isolate(site.place(old))
        new = await site.leader(but=old)
        await site.load.more(30, 60)
        assert new is not old
        site.machines.heal()
        await asyncio.to_thread(old.wait_for, "stepping down", 60.0)

    play(machines, cell, fault)


def test_a_leader_on_the_majority_side_stays(machines: Machines, cell: Cell) -> None:
    async def fault(site: Site) -> None:
        leader = await site.leader()
        site.machines.isolate((site.place(leader) + 1) % 3)
        await site.load.more(100, 60)
        assert leader.leads
        assert leader.times_leading == 1

    play(machines, cell, fault)


def test_links_that_work_in_one_direction_only(machines: Machines, cell: Cell) -> None:
    """The leader receives from one machine and cannot send to it."""

    async def fault(site: Site) -> None:
        leader = await site.leader()
        place = site.place(leader)
        site.machines.cut(place, (place + 1) % 3)
        await site.load.more(60, 60)
        site.machines.cut((place + 2) % 3, place)
        await site.load.more(60, 60)

    play(machines, cell, fault)
