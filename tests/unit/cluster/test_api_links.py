"""Requests of the HTTP API over links: bodies in pieces, links that are used again, and cells that vanish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from leveret.cells.api_request import ApiRequest, CellUnreachable
from leveret.cluster.api_links import API, ApiLinks
from leveret.cluster.api_pieces import LARGEST_PIECE
from leveret.cluster.api_service import ApiService, Receive, Send
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.definition_marks import DefinitionMarks
from leveret.cluster.link import Link, Peer

SECRET = b"s" * 32
GET = ApiRequest("GET", "/api/queues", "page=1", [("accept", "*/*")], "anna")
POST = GET._replace(method="POST")
Endpoint = Callable[[ApiRequest, Receive, Send], Awaitable[None]]


class Body:
    """A request body. It is abandoned when ``leaving`` is set."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.leaving = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def abandoned(self) -> None:
        await self.leaving.wait()


class Cells:
    """Two cells: the first sends requests, which ``endpoint`` answers in the other."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.address: tuple[str, int] | None = None
        self.accepted = 0
        self.marks_of_first, self.marks_of_other = DefinitionMarks(), DefinitionMarks()
        self.holds_marks = False
        self.service = ApiService(self.marks_of_other, lambda cell: self._mark(self.marks_of_first, "c2"))
        self.service.perform = endpoint
        self.port = ClusterPort(Peer("cells", "c2", SECRET), {API: self._serve})
        self.links = ApiLinks(
            Peer("cells", "c1", SECRET),
            self.marks_of_first,
            lambda cell: self.address,
            lambda cell: self._mark(self.marks_of_other, "c1"),
        )

    async def _serve(self, link: Link, request: dict[str, object]) -> None:
        self.accepted += 1
        await self.service.serve(link, request)

    def _mark(self, other: DefinitionMarks, cell: str) -> int:
        mark = other.make()
        if not self.holds_marks:
            other.arrived(cell, mark)
        return mark

    async def whole(self, request: ApiRequest = GET, body: Body | None = None) -> tuple[int, bytes]:
        reply = await self.links.request("c2", request, body)
        try:
            return reply.status, b"".join([piece async for piece in reply.pieces()])
        finally:
            await reply.close()


@asynccontextmanager
async def cells_with(endpoint: Endpoint) -> AsyncIterator[Cells]:
    cells = Cells(endpoint)
    cells.address = "127.0.0.1", await cells.port.listen(("127.0.0.1",), 0)
    try:
        async with asyncio.timeout(20):
            yield cells
    finally:
        cells.links.close()
        cells.port.close()


async def respond(send: Send, *pieces: bytes, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-cell", b"c2")]})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def received(receive: Receive) -> Iterator[bytes]:
    pieces, goes_on = [], True
    while goes_on:
        message = await receive()
        pieces.append(message["body"])
        goes_on = message["more_body"]
    return iter(pieces)


async def echo(request: ApiRequest, receive: Receive, send: Send) -> None:
    await respond(send, repr((*tuple(request)[:3], request.user)).encode(), *await received(receive))


def test_request_and_reply_arrive_whole_and_the_link_is_used_again() -> None:
    async def run() -> None:
        async with cells_with(echo) as cells:
            head = b"('GET', '/api/queues', 'page=1', 'anna')"
            assert await cells.whole() == (200, head)
            large = b"x" * (2 * LARGEST_PIECE + 5)
            posted = await cells.whole(POST, Body(b"one", large))
            assert posted == (200, head.replace(b"GET", b"POST") + b"one" + large)
            assert await cells.whole() == (200, head)
            assert cells.accepted == 1

    asyncio.run(run())


def test_a_response_before_the_body_is_read_costs_the_link_and_nothing_else() -> None:
    async def refuse(request: ApiRequest, receive: Receive, send: Send) -> None:
        await respond(send, b"too large", status=413)

    class Endless(Body):
        async def pieces(self) -> AsyncIterator[bytes]:
            while True:
                yield b"x" * LARGEST_PIECE

    async def run() -> None:
        async with cells_with(refuse) as cells:
            assert await cells.whole(POST, Endless()) == (413, b"too large")
            assert await cells.whole() == (413, b"too large")
            assert cells.accepted == 2

    asyncio.run(run())


def test_requests_at_the_same_time_have_links_of_their_own() -> None:
    both = asyncio.Barrier(2)

    async def wait(request: ApiRequest, receive: Receive, send: Send) -> None:
        await both.wait()
        await respond(send, b"done")

    async def run() -> None:
        async with cells_with(wait) as cells:
            assert await asyncio.gather(cells.whole(), cells.whole()) == [(200, b"done")] * 2
            assert cells.accepted == 2

    asyncio.run(run())


def test_the_endpoint_is_told_that_the_client_has_gone() -> None:
    seen: list[str] = []
    gone = asyncio.Event()

    async def wait(request: ApiRequest, receive: Receive, send: Send) -> None:
        await received(receive)
        seen.append((await receive())["type"])
        gone.set()

    async def run() -> None:
        async with cells_with(wait) as cells:
            body = Body(b"hello")
            asking = asyncio.create_task(cells.links.request("c2", POST, body))
            body.leaving.set()
            with pytest.raises(CellUnreachable):
                await asking
            await gone.wait()
            assert seen == ["http.disconnect"]

    asyncio.run(run())


def test_a_response_that_ends_early_is_an_error() -> None:
    async def stop(request: ApiRequest, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"[1,", "more_body": True})

    async def run() -> None:
        async with cells_with(stop) as cells:
            with pytest.raises(CellUnreachable, match="cut off"):
                await cells.whole()

    asyncio.run(run())


def test_a_link_of_a_cell_that_has_restarted_is_replaced() -> None:
    async def run() -> None:
        async with cells_with(echo) as cells:
            await cells.whole()
            (idle,) = cells.links._idle["c2"]
            idle.abort()
            assert (await cells.whole())[0] == 200
            assert cells.accepted == 2

    asyncio.run(run())


def test_a_cell_that_is_away_or_starting_is_unreachable() -> None:
    async def run() -> None:
        async with cells_with(echo) as cells:
            cells.service.perform = None
            with pytest.raises(CellUnreachable, match="starting"):
                await cells.whole()
            cells.address = None
            with pytest.raises(CellUnreachable, match="not connected"):
                await cells.whole()

    asyncio.run(run())


def test_a_request_waits_for_the_definitions_before_it() -> None:
    async def run() -> None:
        async with cells_with(echo) as cells:
            cells.holds_marks = True
            asking = asyncio.create_task(cells.whole())
            done, _ = await asyncio.wait((asking,), timeout=0.2)
            assert not done
            cells.marks_of_other.arrived("c1", 1)
            assert (await asking)[0] == 200

    asyncio.run(run())


def test_the_reply_to_a_change_waits_for_the_definitions_that_it_has_changed() -> None:
    async def run() -> None:
        async with cells_with(echo) as cells:
            cells.holds_marks = True
            cells.marks_of_other.arrived("c1", 1)
            asking = asyncio.create_task(cells.whole(POST))
            done, _ = await asyncio.wait((asking,), timeout=0.2)
            assert not done
            cells.marks_of_first.arrived("c2", 1)
            assert (await asking)[0] == 200

    asyncio.run(run())
