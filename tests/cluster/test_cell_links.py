"""Links between cells break, under load: nothing confirmed is lost, and only what needs the link waits.

The cells are on machines of their own (tests/support/machines.py). The times of links are shorter than they are for
users: a silent link is lost after 3 seconds, and publishes wait for 2. `make cells-long` runs with the real ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median

import pytest

from leveret.cells_node import CLUSTER
from leveret.cluster.cell_links import QUEUES
from leveret.cluster.link import Link as ClusterLink
from leveret.cluster.link import LinkLost, Peer, open_link
from leveret.server.link_protocol import MOST_SILENT
from leveret.wire.constants import BASIC_CLASS, HEARTBEAT_FRAME
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicConsume,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.cell_node import CellNode
from tests.support.cell_program import SECRET
from tests.support.link_faults import FAULTS, Fault, FaultedLinks, Site
from tests.support.link_load import LinkLoad
from tests.support.link_load import Path as MessagePath
from tests.support.linked_cells import LinkedCells, knows_queue, memory_of
from tests.support.links import Gone, Link, Refused
from tests.support.machines import Machines
from tests.support.operation_history import Kind, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

INTERVAL, PATIENCE = 0.5, 2.0
FAULT_SECONDS, SHORT = 4.0, 2.0  # longer and shorter than a link may be silent
MESSAGE = bytes(1 << 20)
FLOODS, MOST_MEMORY = 8, 256 << 20


@pytest.fixture
def machines() -> Iterator[Machines]:
    with Machines(3) as machines, machines.inside():
        yield machines


@pytest.fixture
def cells(machines: Machines, tmp_path: Path) -> Iterator[LinkedCells]:
    made = LinkedCells(tmp_path, 3, machines=list(machines), interval=INTERVAL, patience=PATIENCE)
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("fault", FAULTS[1:], ids=lambda fault: fault.name)
def test_nothing_is_lost_and_other_paths_go_on(machines: Machines, cells: LinkedCells, fault: Fault) -> None:
    run = FaultedLinks(machines, cells, Random(1))
    report = asyncio.run(run.run([fault], FAULT_SECONDS if fault.loses_links else SHORT, notify=print))
    print(report)
    assert not report.violations, str(report)


def test_without_the_first_cell_messages_flow_and_declarations_fail(machines: Machines, cells: LinkedCells) -> None:
    """The first of the faults: the link is cut in both directions."""

    async def declare(cell: CellNode, queue: str) -> None:
        async with await Link.open(cell.url) as link:
            await link.call(QueueDeclare(queue, durable=True), QueueDeclareOk)

    async def declare_in_all(site: Site) -> None:
        second, third = site.cells["c2"], site.cells["c3"]
        for queue in ("asked on a link that is silent", "asked without a link"):
            with pytest.raises(Refused, match=r"the first cell, which changes the definitions .* is down"):
                await declare(second, queue)
        await declare(third, "declared meanwhile")
        assert not await knows_queue(second, "declared meanwhile")
        await site.load.flows([MessagePath("c2", "c3"), MessagePath("c3", "c2"), MessagePath("c2", "c2")])

    async def follow() -> None:
        run = FaultedLinks(machines, cells, Random(1))
        report = await run.run(FAULTS[:1], FAULT_SECONDS, declare_in_all)
        assert not report.violations, str(report)
        while not await knows_queue(cells["c2"], "declared meanwhile"):
            await asyncio.sleep(0.05)
        await declare(cells["c2"], "declared later")

    asyncio.run(follow())


def test_publishes_to_a_cell_that_is_gone_are_nacked_in_time(machines: Machines, cells: LinkedCells) -> None:
    async def run() -> None:
        load = LinkLoad(cells, Random(1))
        await load.start()
        cells["c2"].kill()
        begun = time.monotonic()
        await asyncio.sleep(2 * PATIENCE + 1)
        ended = time.monotonic()
        for path in load.paths:
            found = load.outcomes(path, begun + 0.5, ended - PATIENCE - 0.5)
            if "c2" not in path:
                assert {outcome for outcome, _ in found} == {Outcome.CONFIRMED}, path
                assert median(seconds for _, seconds in found) < PATIENCE / 2, path
            elif path.source != "c2":
                assert {outcome for outcome, _ in found} == {Outcome.NACKED}, path
                assert min(seconds for _, seconds in found) > PATIENCE - 0.1, path
                assert median(seconds for _, seconds in found) < PATIENCE + 1, path
        cells["c2"].start()
        await load.flows(load.paths)
        await load.stop()
        await load.drain()
        report = load.history.check()
        assert not report.violations, str(report)

    asyncio.run(run())


def test_a_flood_of_publishes_to_a_cell_that_is_gone_is_held_back(tmp_path: Path) -> None:
    """It waits in the sockets of the publishers, and not in the memory of their cell."""
    cells = LinkedCells(tmp_path, 2, interval=INTERVAL)

    async def flood(place: int) -> int:
        async with await Link.open(cells["c1"].url) as link:
            if place % 2:
                await link.call(ConfirmSelect(), ConfirmSelectOk)
            sent, deadline = 0, time.monotonic() + PATIENCE
            with suppress(Gone):  # the socket accepts no more
                while (left := deadline - time.monotonic()) > 0:
                    link.publish("", "gone", MESSAGE)
                    await link.flush(left)
                    sent += 1
            return sent

    async def run() -> None:
        async with await Link.open(cells["c2"].url) as link:
            await link.call(QueueDeclare("gone", durable=True), QueueDeclareOk)
        while not await knows_queue(cells["c1"], "gone"):
            await asyncio.sleep(0.05)
        cells["c2"].kill()
        before = memory_of(cells["c1"].pid)
        sent = await asyncio.gather(*(flood(place) for place in range(FLOODS)))
        used = memory_of(cells["c1"].pid) - before
        print(f"{sum(sent)} MiB sent, {used >> 20} MiB more in use")
        assert used < MOST_MEMORY
        async with await Link.open(cells["c1"].url) as link:  # others are served
            await link.call(QueueDeclare("here", durable=True), QueueDeclareOk, 60)

    try:
        cells.start()
        asyncio.run(run())
    finally:
        cells.end()


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[CellNode]:
    """One cell, to which the test links as another one."""
    cells = LinkedCells(tmp_path, 1, interval=INTERVAL / 2)
    try:
        cells.start()
        yield cells["c1"]
    finally:
        cells.end()


async def open_queue_link(cell: CellNode) -> ClusterLink:
    peer, address = Peer(CLUSTER, "c2", SECRET), (cell.host, cell.cluster_port)
    return await open_link(address, peer, QUEUES, vhost="/", purpose="consuming")


async def declare_and_consume(link: ClusterLink) -> int:
    """An exclusive consumer on the link; the class of the answer."""
    for method in (ChannelOpen(), BasicConsume("q", exclusive=True)):
        await link.send_bytes(method_frame(1, method))
    await link.receive_bytes(len(method_frame(1, ChannelOpenOk())))
    return int.from_bytes((await link.receive_bytes(11))[7:9], "big")


def test_a_link_replaces_the_former_one_of_the_same_cell(cell: CellNode) -> None:
    """The other cell has noticed the loss first: its exclusive consumers subscribe again, and must not be refused."""

    async def run() -> None:
        async with await Link.open(cell.url) as client:
            await client.call(QueueDeclare("q", durable=True), QueueDeclareOk)
        former = await open_queue_link(cell)
        assert await declare_and_consume(former) == BASIC_CLASS
        new = await open_queue_link(cell)
        assert await declare_and_consume(new) == BASIC_CLASS
        with pytest.raises(LinkLost):
            await former.receive_bytes(1 << 20)
        former.close()
        new.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_link_needs_heartbeats_from_the_other_side(cell: CellNode, is_silent: bool) -> None:
    async def run() -> int:
        link, received = await open_queue_link(cell), 0
        with suppress(LinkLost):
            while received < 2 * MOST_SILENT:
                assert await link.receive_bytes(len(HEARTBEAT_FRAME)) == HEARTBEAT_FRAME
                received += 1
                if not is_silent:
                    await link.send_bytes(HEARTBEAT_FRAME)
        link.close()
        return received

    received = asyncio.run(run())
    assert (MOST_SILENT - 2 <= received <= MOST_SILENT) if is_silent else received == 2 * MOST_SILENT


def test_the_check_finds_cells_that_break_their_promises(machines: Machines, tmp_path: Path) -> None:
    """Confirms before the home cell has answered, no redelivered flags, and waiting publishes in the wrong order."""
    cells = LinkedCells(tmp_path, 3, "--broken", machines=list(machines), interval=INTERVAL, patience=3 * PATIENCE)
    try:
        cells.start()
        run = FaultedLinks(machines, cells, Random(1))
        report = asyncio.run(run.run(FAULTS[:1], FAULT_SECONDS, drain_seconds=2))
        print(report)
        assert {Kind.LOST, Kind.UNMARKED, Kind.REORDERED} <= set(report.counts), str(report)
    finally:
        cells.end()
