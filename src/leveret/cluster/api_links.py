"""Sends requests of the HTTP API to other cells. Links are kept and used again, each for one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol

import msgspec

from leveret.cells.api_request import ApiRequest, CellUnreachable, Headers
from leveret.cluster.api_pieces import receive_piece, send_end, send_piece
from leveret.cluster.definition_marks import DefinitionMarks
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.logs import get_log

API = "api"  # the request on the cluster port
MOST_IDLE = 8  # links per cell
MARK_SECONDS = 5.0  # that a reply waits for the definitions that the other cell has changed
LOST = (OSError, LinkLost, LinkRefused)


class RequestBody(Protocol):
    def pieces(self) -> AsyncIterator[bytes]: ...

    async def abandoned(self) -> None:
        """Returns when the client waits for the response no more."""


class ApiLinks:
    """``address_of`` returns the address of a cell, ``mark`` is that of ApiService; both None while it is away."""

    def __init__(
        self,
        peer: Peer,
        marks: DefinitionMarks,
        address_of: Callable[[str], tuple[str, int] | None],
        mark: Callable[[str], int | None],
    ) -> None:
        self._peer = peer
        self._marks = marks
        self._address_of = address_of
        self._mark = mark
        self._idle: dict[str, list[Link]] = {}
        self._log = get_log("cells").bind(cell=peer.node)

    async def request(self, cell: str, request: ApiRequest, body: RequestBody | None = None) -> RemoteReply:
        """Returns when the status has arrived. Raises CellUnreachable; the caller limits the time."""
        idle = self._idle.get(cell)
        if idle and request.method == "GET":
            with suppress(*LOST):  # the cell may have restarted since
                return await self._exchange(cell, idle.pop(), request, body)
        try:
            return await self._exchange(cell, await self._open(cell), request, body)
        except LOST as problem:
            raise CellUnreachable(f"cell {cell} does not answer: {problem}") from problem

    async def _open(self, cell: str) -> Link:
        idle, address = self._idle.get(cell), self._address_of(cell)
        if idle:
            return idle.pop()
        if address is None:
            raise LinkLost("it is not connected")
        return await open_link(address, self._peer, API)

    async def _exchange(self, cell: str, link: Link, request: ApiRequest, body: RequestBody | None) -> RemoteReply:
        reply = RemoteReply(link, lambda: self._release(cell, link))
        try:
            mark = self._mark(cell)
            if mark is None:
                raise LinkLost("it is not connected")
            await reply.begin({"request": msgspec.to_builtins(request), "mark": mark}, body)
            if reply.mark is not None:
                with suppress(TimeoutError):  # the change is made, and arrives when the cell is connected again
                    await asyncio.wait_for(self._marks.wait(cell, reply.mark), MARK_SECONDS)
        except BaseException:
            await reply.close()
            raise
        return reply

    def _release(self, cell: str, link: Link) -> None:
        idle = self._idle.setdefault(cell, [])
        if len(idle) < MOST_IDLE and self._address_of(cell) is not None:
            idle.append(link)
        else:
            link.close()

    def forget(self, cell: str) -> None:
        """The cell has disconnected."""
        for link in self._idle.pop(cell, []):
            link.close()

    def close(self) -> None:
        for cell in list(self._idle):
            self.forget(cell)


class RemoteReply:
    """An ApiReply of another cell."""

    def __init__(self, link: Link, release: Callable[[], None]) -> None:
        self.status = 0
        self.headers: Headers = ()
        self.mark: int | None = None
        self._link = link
        self._release = release
        self._sending: asyncio.Task[None] | None = None
        self._is_sent = self._is_received = self._is_closed = False

    async def begin(self, request: Frame, body: RequestBody | None) -> None:
        await self._link.send(request)
        if body is None:
            await self._end_request()
        else:
            self._sending = asyncio.create_task(self._send(body))
        head = await self._link.receive()
        self.status, self.mark = int(head["status"]), head["mark"]
        self.headers = [(str(name), str(value)) for name, value in head["headers"]]

    async def _end_request(self) -> None:
        await send_end(self._link)
        self._is_sent = True

    async def _send(self, body: RequestBody) -> None:
        """An endpoint may respond before it has read the whole body."""
        try:
            async for piece in body.pieces():
                await send_piece(self._link, piece)
            await self._end_request()
            await body.abandoned()
        except LinkLost:
            return  # the reader of the reply finds out
        except Exception as problem:  # noqa: BLE001 - the client has disconnected, or sends its body too slowly
            get_log("cells").debug("request to another cell given up", reason=str(problem))
        self._link.abort()

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            while piece := await receive_piece(self._link):
                yield piece
        except LOST as problem:
            raise CellUnreachable(f"the response was cut off: {problem}") from problem
        self._is_received = True

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait((self._sending,))
        if self._is_sent and self._is_received:
            self._release()
        else:
            self._link.close()
