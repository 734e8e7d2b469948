"""Disks of a cell that are full, lose power, or are damaged. Needs root for the file systems of the tests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from tests.support.cell_load import CellLoad
from tests.support.cell_node import Cell, CellNode
from tests.support.freeze import freeze
from tests.support.mounts import Mount, ext4_on_a_file, tmpfs
from tests.support.nats_servers import NatsServers
from tests.support.recorded_publishers import Publisher, Publishers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CUTS = int(os.environ.get("LEVERET_POWER_CUTS", "1"))
CUT_SECONDS = 400  # at most, with the load before and after it
SMALL = 24 << 20
LARGE = 512 << 20
MESSAGE = 64 << 10
NO_LIMIT = ("--disk-free-limit", "0")  # so that the disk itself is what refuses


@pytest.fixture
def cells() -> Iterator[list[Cell]]:
    """To be ended."""
    made: list[Cell] = []
    yield made
    for cell in made:
        cell.end()


def link_folder(place: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


async def fill(publisher: Publisher, seconds: float = 3.0) -> int:
    """Publish until no more is confirmed; how many were."""
    confirmed = sent = 0
    while confirmed == sent:
        publisher.send(8, MESSAGE)
        sent += 8
        assert sent * MESSAGE < LARGE / 2, "more was stored than there is room for"
        confirmed = await publisher.take_confirms(sent, seconds)
    return confirmed


# ---- full


def test_publishers_are_blocked_while_the_disks_of_the_engine_are_full(tmp_path: Path, cells: list[Cell]) -> None:
    async def run(servers: NatsServers, disks: list[Mount]) -> None:
        cell = cells[0]
        leader = cell.leader(60)
        async with Publishers(cell) as publishers:
            publisher = await publishers.add(leader)
            confirmed = await fill(publisher, 5.0)
            assert confirmed > 0
            publisher.send(1)  # of which the client is told
            assert await publisher.take_confirms(confirmed + 1, 3.0) == confirmed
            assert publisher.is_blocked
            assert leader.is_running
            for disk in disks:
                disk.resize(LARGE)
            servers.stop()
            servers.start()
            assert await publishers.violations() == []
        assert not cell.tracebacks()

    with ExitStack() as stack:
        servers = stack.enter_context(NatsServers(tmp_path))
        disks = [stack.enter_context(tmpfs(tmp_path / servers.name(place), SMALL)) for place in range(3)]
        servers.start()
        cells.append(Cell(tmp_path, servers, "full"))
        cells[0].start()
        asyncio.run(run(servers, disks))
        servers.stop()


def test_a_leader_whose_disk_is_full_is_replaced_and_follows_when_there_is_space(
    servers: NatsServers, tmp_path: Path, cells: list[Cell]
) -> None:
    async def run(cell: Cell, disk: Mount) -> None:
        full, *others = cell.nodes
        full.start()
        assert cell.leader() is full
        for node in others:
            node.start()
        async with Publishers(cell) as publishers:
            assert await fill(await publishers.add(full)) > 0
            await asyncio.to_thread(full.wait_for, "stepping down", 60)
            new = await asyncio.to_thread(cell.leader, 60)
            assert new is not full
            publisher = await publishers.add(new)  # the standby that has no space does not disturb the others
            publisher.send(20, MESSAGE)
            assert await publisher.take_confirms(20, 20) == 20
            await asyncio.to_thread(full.wait_for, "cannot follow", 60)
            disk.resize(LARGE)
            begun = len(full.log())
            await asyncio.to_thread(lead, cell, full, begun)
            assert await publishers.violations() == []

    def lead(cell: Cell, node: CellNode, begun: int) -> None:
        """It follows again, and is the only one that is left to lead."""
        for other in cell.nodes[1:]:
            other.kill()
        assert cell.leader(60) is node, node.log()[begun:]

    with tmpfs(tmp_path / "a", SMALL) as disk:
        cells.append(Cell(tmp_path, servers, "space", *NO_LIMIT))
        asyncio.run(run(cells[0], disk))
        cells[0].end()


# ---- without power


@pytest.mark.timeout(CUTS * CUT_SECONDS)
@pytest.mark.parametrize("machines", [1, 2, 3])
def test_nothing_confirmed_is_lost_by_power_cuts(machines: int, tmp_path: Path, cells: list[Cell]) -> None:
    """Each machine has a node and a server of the engine on its disk."""

    async def run(servers: NatsServers, cell: Cell, disks: list[Mount], random: Random) -> None:
        load = CellLoad(cell.nodes, random)
        await load.start()
        for _ in range(CUTS):
            await load.more(random.randint(30, 100), 60)
            cut(servers, cell, disks, random.sample(range(3), machines))
            await load.more(30, 90, supervised=True)  # a node ends if the engine does not answer for 30 seconds
        await load.stop()
        await load.drain()
        report = load.history.check()
        print(report)
        assert not report.violations, str(report)

    def cut(servers: NatsServers, cell: Cell, disks: list[Mount], places: list[int]) -> None:
        nodes = [cell.nodes[place] for place in places]
        freeze([servers.pid(place) for place in places] + [node.pid for node in nodes if node.is_running])
        for place in places:
            disks[place].cut()
        for place, node in zip(places, nodes, strict=True):
            servers.kill(place)
            node.kill()
            disks[place].power_up()
            servers.start(place)

    with ExitStack() as stack:
        disks = [
            stack.enter_context(ext4_on_a_file(tmp_path / f"{place}.img", tmp_path / f"disk{place}", 256 << 20))
            for place in range(3)
        ]
        servers = stack.enter_context(NatsServers(tmp_path))
        cell = Cell(tmp_path, servers, "power")
        cells.append(cell)
        for place, disk in enumerate(disks):
            link_folder(tmp_path / servers.name(place), disk.place / "server")
            link_folder(cell.nodes[place].data, disk.place / "node")
        servers.start()
        cell.start()
        asyncio.run(run(servers, cell, disks, Random(5)))
        cell.end()
        servers.stop()
