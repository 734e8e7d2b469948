"""Transfers of committed messages between cells: a cell that never answers is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from leveret.cluster import cell_transfers
from leveret.cluster.cell_addresses import ReportedAddresses
from leveret.cluster.cell_transfers import TRANSFERS, CellTransfers
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.link import Frame, Peer

PEER = Peer("cells", "c1", b"the secret")
HEAD: Frame = {"sizes": [3, 2]}


class Home:
    """A cell that gets transfers. ``answers``: whether its journal stores anything, which that of a former leader does
    not."""

    def __init__(self, *, answers: bool = True) -> None:
        self.received: list[bytes] = []
        self.arrived = asyncio.Event()
        self.answers = answers
        self.transfers = CellTransfers(
            PEER._replace(node="c2"), ReportedAddresses(), lambda _: [], self._receive, self._keep_only
        )
        self.transfers.is_ready = True
        self._port = ClusterPort(PEER._replace(node="c2"), {TRANSFERS: self.transfers.serve})

    async def _receive(self, cell: str, head: Frame, contents: bytes) -> None:
        self.received.append(contents)
        self.arrived.set()
        if not self.answers:
            await asyncio.Event().wait()

    def _keep_only(self, cell: str, outboxes: Collection[str]) -> None: ...

    async def listen(self) -> tuple[str, int]:
        return "127.0.0.1", await self._port.listen(("127.0.0.1",), 0)

    def close(self) -> None:
        self._port.close()


class Outboxes:
    def __init__(self, addresses: ReportedAddresses) -> None:
        self.transfers = CellTransfers(PEER, addresses, lambda _: ["o"], self._refuse, lambda *_: None)

    async def _refuse(self, cell: str, head: Frame, contents: bytes) -> None:
        raise AssertionError("nothing is sent here")

    def send(self) -> asyncio.Future[str | None]:
        """The problem, if there is one, or None."""
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.transfers.send("c2", HEAD, b"abcde", answer.set_result)
        return answer


@asynccontextmanager
async def waiting_for_silent_home() -> AsyncIterator[
    tuple[ReportedAddresses, Outboxes, Home, asyncio.Future[str | None]]
]:
    """A transfer has arrived, and is not answered."""
    home, addresses = Home(answers=False), ReportedAddresses()
    addresses.reported({"c2": await home.listen()})
    outboxes = Outboxes(addresses)
    try:
        async with asyncio.timeout(20):
            answer = outboxes.send()
            await home.arrived.wait()
            assert not answer.done()
            yield addresses, outboxes, home, answer
    finally:
        await outboxes.transfers.stop()
        home.close()


def test_a_transfer_to_a_former_leader_is_given_up_when_another_one_leads() -> None:
    """Its process and its cluster port stay, as after a planned hand-over or while it is hung."""

    async def run() -> None:
        async with waiting_for_silent_home() as (addresses, outboxes, _, answer):
            present = Home()
            addresses.reported({"c2": await present.listen()})
            assert await answer is not None
            assert await outboxes.send() is None
            assert present.received == [b"abcde"]
            present.close()

    asyncio.run(run())


def test_a_cell_that_stops_leading_ends_the_transfers_to_it() -> None:
    async def run() -> None:
        async with waiting_for_silent_home() as (_, _, home, answer):
            await home.transfers.stop()
            assert await answer is not None

    asyncio.run(run())


def test_a_transfer_is_repeated_if_the_answer_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_transfers, "ANSWER_SECONDS", 0.05)

    async def run() -> None:
        async with waiting_for_silent_home() as (_, outboxes, home, answer):
            assert await answer == "cell c2 does not answer"
            monkeypatch.undo()  # the second one has its time
            home.answers = True
            assert await outboxes.send() is None
            assert home.received == [b"abcde", b"abcde"]

    asyncio.run(run())


def test_transfers_continue_after_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        home, addresses = Home(), ReportedAddresses()
        addresses.reported({"c2": await home.listen()})
        outboxes, ids = Outboxes(addresses), iter([RuntimeError("a bug")])

        def known(_: str) -> list[str]:
            for problem in ids:
                raise problem
            return ["o"]

        outboxes.transfers._ids = known
        try:
            async with asyncio.timeout(20):
                assert await outboxes.send() == "internal error"
                outboxes.transfers.send("c2", HEAD, b"abcde", lambda _: 1 / 0)
                assert await outboxes.send() is None
                assert home.received == [b"abcde", b"abcde"]
        finally:
            await outboxes.transfers.stop()
            home.close()

    asyncio.run(run())
    problems = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [type(problem) for problem in problems] == [RuntimeError, ZeroDivisionError]
