"""Frames between cells."""

from __future__ import annotations

import asyncio
import socket

import pytest

from leveret.cells.definition_copy import DefinitionCopy
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.definition_requests import FirstCell
from leveret.cells.definition_service import DefinitionService
from leveret.cells.home_cells import HomeCells
from leveret.cluster import cell_links
from leveret.cluster.cell_addresses import ReportedAddresses
from leveret.cluster.cell_links import DEFINITIONS, QUEUES, CellLinks, FrameSender
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.server.link_protocol import MOST_SILENT
from leveret.sharding.sharding import Sharding
from tests.support.cell_log import until
from tests.support.peer_pair import Harness

PEER = Peer("cells", "c1", b"the secret")


def links() -> tuple[Link, Link]:
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return Link(ends[0]), Link(ends[1])


def test_frames_arrive_in_their_order() -> None:
    async def run() -> None:
        here, there = links()
        sender = FrameSender(here, "link")
        sending = asyncio.create_task(sender.run())
        for number in range(10):
            sender.send({"number": number})
        assert [(await there.receive())["number"] for _ in range(10)] == list(range(10))
        sending.cancel()
        here.close()
        there.close()

    asyncio.run(run())


def test_a_cell_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_links, "MOST_UNSENT", 3)

    async def run() -> None:
        here, there = links()
        sender = FrameSender(here, "link")
        for _ in range(3):
            sender.send({})
        reading = asyncio.create_task(here.receive())
        await asyncio.sleep(0)
        sender.send({})
        with pytest.raises(LinkLost):
            await asyncio.wait_for(reading, 5)
        await asyncio.wait_for(sender.run(), 5)  # ends by itself
        here.close()
        there.close()

    asyncio.run(run())


def test_a_cell_that_has_left_is_told_nothing_more() -> None:
    class Cell:
        def __init__(self) -> None:
            self.frames: list[object] = []

        def send(self, frame: object) -> None:
            self.frames.append(frame)

    harness, cell = Harness(), Cell()
    feed = DefinitionFeed(harness.broker, "c1")
    feed.join("c2", cell.send)
    feed.leave("c2", cell.send)
    told = len(cell.frames)
    harness.vhost.declare_exchange("e")
    assert len(cell.frames) == told


def test_a_former_leader_does_not_take_the_place_of_the_present_one() -> None:
    """As one that is cut off from the engine, and not from the first cell."""

    async def run() -> None:
        here = Harness()
        feed, service = DefinitionFeed(here.broker, "c1"), DefinitionService(here.broker, "c1")
        first = CellLinks(
            here.broker,
            PEER,
            HomeCells(here.broker),
            here.limits,
            Sharding(here.broker).membership,
            ReportedAddresses(),
            feed=feed,
            service=service,
        )
        port = ClusterPort(PEER, first.services)
        address = "127.0.0.1", await port.listen(("127.0.0.1",), 0)

        async def read_all(link: Link) -> None:
            while True:
                await link.receive()

        async def connect(epoch: int) -> Link:
            c2 = PEER._replace(node="c2")
            return await open_link(address, c2, DEFINITIONS, host="127.0.0.1", port=1, epoch=epoch)

        former = await connect(3)
        assert "definitions" in await former.receive()
        present = await connect(4)
        assert "definitions" in await present.receive()
        with pytest.raises(LinkLost):
            await read_all(former)
        with pytest.raises(LinkRefused, match="cell c2 has a later leader"):
            await connect(3)
        here.vhost.declare_exchange("e")
        while "put" not in await present.receive():
            pass
        for link in (former, present):
            link.close()
        port.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_former_leader_does_not_replace_the_links_of_the_present_one() -> None:
    async def run() -> None:
        home = Harness()
        links = CellLinks(home.broker, PEER, HomeCells(home.broker), home.limits, lambda _: None, ReportedAddresses())
        port = ClusterPort(PEER, links.services)
        address = "127.0.0.1", await port.listen(("127.0.0.1",), 0)
        with pytest.raises(LinkRefused, match="cell c1 is starting"):
            await open_link(address, PEER._replace(node="c2"), QUEUES, vhost="/", purpose="consuming", epoch=3)
        links.start(address)

        async def connect(epoch: int) -> Link:
            c2 = PEER._replace(node="c2")
            return await open_link(address, c2, QUEUES, vhost="/", purpose="consuming", epoch=epoch)

        former = await connect(3)
        present = await connect(4)
        with pytest.raises(LinkLost):
            await former.receive_bytes(1)
        with pytest.raises(LinkRefused, match="cell c2 has a later leader"):
            await connect(3)
        again = await connect(4)  # its loss was not noticed here
        with pytest.raises(LinkLost):
            await present.receive_bytes(1)
        for link in (former, present, again):
            link.close()
        await links.stop()
        port.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_links_move_with_their_cell_even_if_the_former_place_stays_open() -> None:
    """As when a leader is cut off from the engine, and another one has taken over."""

    class Place:
        """Where the cell is, or was. It accepts links and never closes them."""

        def __init__(self) -> None:
            self.open: list[str] = []
            self._port = ClusterPort(PEER._replace(node="c2"), {QUEUES: self._serve})

        async def listen(self) -> tuple[str, int]:
            return "127.0.0.1", await self._port.listen(("127.0.0.1",), 0)

        async def _serve(self, link: Link, request: Frame) -> None:
            await link.send({})
            purpose = str(request["purpose"])
            self.open.append(purpose)
            try:
                await link.receive_bytes(1 << 30)
            finally:
                self.open.remove(purpose)

        def close(self) -> None:
            self._port.close()

    async def run() -> None:
        here, former, present = Harness(), Place(), Place()
        homes = HomeCells(here.broker)
        addresses = ReportedAddresses(c2=await former.listen())
        joined = CellLinks(here.broker, PEER, homes, here.limits, Sharding(here.broker).membership, addresses)
        homes.of("/", "c2")
        joined.start(("127.0.0.1", 1))
        await until(lambda: sorted(former.open) == ["consuming", "publishing"])
        addresses.reported({"c2": await present.listen()})
        await until(lambda: sorted(present.open) == ["consuming", "publishing"] and not former.open)
        await joined.stop()
        await until(lambda: not present.open)
        for place in (former, present):
            place.close()

    asyncio.run(asyncio.wait_for(run(), 30))


class LinkedCell:
    """A cell with its cluster port. The first one is ``c1``."""

    def __init__(self, cell: str, **known: tuple[str, int]) -> None:
        here, peer = Harness(node_name=cell), PEER._replace(node=cell)
        broker, homes = here.broker, HomeCells(here.broker)
        broker.cells.name = cell
        members, addresses = Sharding(broker).membership, ReportedAddresses(**known)
        if cell == "c1":
            feed, service = DefinitionFeed(broker, cell), DefinitionService(broker, cell)
            self.links = CellLinks(broker, peer, homes, here.limits, members, addresses, feed=feed, service=service)
        else:
            first = FirstCell(broker, cell, DefinitionCopy(broker, cell))
            self.links = CellLinks(broker, peer, homes, here.limits, members, addresses, first=first)
        self.port = ClusterPort(peer, self.links.services)
        self.address = "127.0.0.1", 0

    async def start(self) -> None:
        self.address = "127.0.0.1", await self.port.listen(("127.0.0.1",), 0)
        self.links.start(self.address)

    async def stop(self) -> None:
        await self.links.stop()
        self.port.close()


def test_a_mark_between_two_other_cells_arrives_behind_the_definitions_of_the_first() -> None:
    async def run() -> None:
        first = LinkedCell("c1")
        await first.start()
        second, third = LinkedCell("c2", c1=first.address), LinkedCell("c3", c1=first.address)
        assert second.links._mark("c3") == 0, "nothing changes while the first cell is away"
        for cell in (second, third):
            await cell.start()
        await until(lambda: {"c2", "c3"} <= {*second.links.cells, *third.links.cells})
        for here, there in ((second, third), (third, second)):
            name = "c2" if here is second else "c3"
            mark = here.links._mark("c3" if here is second else "c2")
            assert mark
            await there.links._marks.wait(name, mark)
        await second.stop()
        again = LinkedCell("c2", c1=first.address)
        await again.start()
        await until(lambda: third.links.cells["c2"] == again.address)
        assert "c2" not in third.links._marks._arrived, "the new process counts from the beginning"
        for cell in (again, third, first):
            await cell.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_link_is_lost_after_some_checks_without_a_byte() -> None:
    async def run() -> None:
        here, there = links()
        sender = FrameSender(here, "link")
        checks = [sender.is_alive() for _ in range(MOST_SILENT + 1)]
        assert checks == [True] * MOST_SILENT + [False]
        sender.abort()
        with pytest.raises(LinkLost):
            await there.receive()
        here.close()
        there.close()

    asyncio.run(run())


def test_idle_links_keep_each_other_alive() -> None:
    async def run() -> None:
        pair = links()
        senders = [FrameSender(each, "link") for each in pair]
        sending = [asyncio.create_task(each.run()) for each in senders]
        for _ in range(3 * MOST_SILENT):
            assert [each.is_alive() for each in senders] == [True, True]
            assert [await each.receive() for each in pair] == [{}, {}]
        for task in sending:
            task.cancel()
        for each in pair:
            each.close()

    asyncio.run(run())
