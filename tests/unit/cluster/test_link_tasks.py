"""The tasks that keep links open: an internal error ends a connection, not the task, and a virtual host has one task
for each link, also after it was deleted and created again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from leveret.cells.definition_copy import DefinitionCopy
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.definition_requests import FirstCell
from leveret.cells.definition_service import DefinitionService
from leveret.cells.home_cells import HomeCells
from leveret.cluster import cell_links
from leveret.cluster.cell_addresses import Address, ReportedAddresses
from leveret.cluster.cell_links import QUEUES, CellLinks
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.link import Frame, Link, Peer
from leveret.sharding.sharding import Sharding
from tests.support.cell_log import until
from tests.support.peer_pair import Harness

PEER = Peer("cells", "c1", b"the secret")


class Bug(Exception):
    pass


def failing_once(call: Callable[..., Any]) -> Callable[..., Any]:
    has_failed = False

    def fail(*args: Any) -> Any:
        nonlocal has_failed
        if not has_failed:
            has_failed = True
            raise Bug
        return call(*args)

    return fail


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_links, "PAUSE", 0.01)


class Home:
    """Accepts links for queues, and counts them."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.accepted = 0
        self._port = ClusterPort(PEER._replace(node="c2"), {QUEUES: self._serve})

    async def listen(self) -> Address:
        return "127.0.0.1", await self._port.listen(("127.0.0.1",), 0)

    async def _serve(self, link: Link, request: Frame) -> None:
        await link.send({})
        purpose = str(request["purpose"])
        self.open.append(purpose)
        self.accepted += 1
        try:
            await link.receive_bytes(1 << 30)
        finally:
            self.open.remove(purpose)

    def close(self) -> None:
        self._port.close()


def links_of(here: Harness, homes: HomeCells, addresses: ReportedAddresses) -> CellLinks:
    return CellLinks(here.broker, PEER, homes, here.limits, Sharding(here.broker).membership, addresses)


def test_links_are_made_again_after_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        here, there = Harness(), Home()
        homes = HomeCells(here.broker)
        home = homes.of("/", "c2")
        home.link_is_up = failing_once(home.link_is_up)  # type: ignore[method-assign]
        links = links_of(here, homes, ReportedAddresses(c2=await there.listen()))
        links.start(("127.0.0.1", 1))
        await until(lambda: there.accepted == 3 and sorted(there.open) == ["consuming", "publishing"])
        assert home.is_up
        await links.stop()
        there.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [Bug]


def test_a_link_is_made_again_if_its_loss_causes_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        here, there = Harness(), Home()
        homes = HomeCells(here.broker)
        home = homes.of("/", "c2")
        home.publishing.lost = failing_once(home.publishing.lost)  # type: ignore[method-assign]
        links = links_of(here, homes, ReportedAddresses(c2=await there.listen()))
        links.start(("127.0.0.1", 1))
        await until(lambda: sorted(there.open) == ["consuming", "publishing"])
        (publishing,) = [each for each in links.ends if "publishing" in each.name]
        publishing.abort()
        await until(lambda: there.accepted == 3 and sorted(there.open) == ["consuming", "publishing"])
        await links.stop()
        there.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [Bug]


def test_the_definitions_are_followed_again_after_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        first, other = Harness(node_name="c1"), Harness(node_name="c2")
        feed, service = DefinitionFeed(first.broker, "c1"), DefinitionService(first.broker, "c1")
        members = Sharding(first.broker).membership
        serving = CellLinks(
            first.broker,
            PEER,
            HomeCells(first.broker),
            first.limits,
            members,
            ReportedAddresses(),
            feed=feed,
            service=service,
        )
        port = ClusterPort(PEER, serving.services)
        address = "127.0.0.1", await port.listen(("127.0.0.1",), 0)
        cell = FirstCell(other.broker, "c2", DefinitionCopy(other.broker, "c2"))
        cell.receive = failing_once(cell.receive)  # type: ignore[method-assign]
        following = CellLinks(
            other.broker,
            PEER._replace(node="c2"),
            HomeCells(other.broker),
            other.limits,
            Sharding(other.broker).membership,
            ReportedAddresses(c1=address),
            first=cell,
        )
        following.start(("127.0.0.1", 1))
        await following.compared.wait()
        first.vhost.declare_exchange("e")
        await until(lambda: "e" in other.vhost.exchanges)
        await following.stop()
        port.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [Bug]


def test_a_virtual_host_that_is_created_again_has_one_task_for_each_link() -> None:
    """One of the two tasks has noticed that it was deleted, the other one has not."""

    class Addresses(ReportedAddresses):
        """Wakes one waiting task after the other."""

        def __init__(self) -> None:
            super().__init__()
            self.waiting: list[asyncio.Event] = []

        async def changed(self, cell: str, known: Address | None, seconds: float | None = None) -> None:
            event = asyncio.Event()
            self.waiting.append(event)
            await event.wait()

    async def run() -> None:
        here, addresses = Harness(), Addresses()
        here.broker.add_vhost("v")
        homes = HomeCells(here.broker)
        links = links_of(here, homes, addresses)
        links.start(("127.0.0.1", 1))
        homes.of("v", "c2")
        await until(lambda: len(addresses.waiting) == 2)
        before = len(links._tasks)
        here.broker.delete_vhost("v")
        addresses.waiting[0].set()
        await until(lambda: len(links._tasks) == before - 1)
        here.broker.add_vhost("v")
        created = homes.of("v", "c2")
        await until(lambda: len(addresses.waiting) == 4)
        addresses.waiting[1].set()
        await until(lambda: len(links._tasks) == before)
        assert len(addresses.waiting) == 4, "the task of the deleted virtual host goes on"
        for event in addresses.waiting[2:]:
            event.set()
        await until(lambda: len(addresses.waiting) == 6)
        assert homes.of("v", "c2") is created
        assert len(links._tasks) == before
        await links.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
