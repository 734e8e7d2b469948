"""Answers requests of the HTTP API that other cells send to this one, on links of the cluster port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from leveret.cells.api_request import ApiRequest
from leveret.cluster.api_pieces import END, receive_piece, send_end, send_piece
from leveret.cluster.definition_marks import DefinitionMarks
from leveret.cluster.link import Frame, Link, LinkLost
from leveret.errors import ClusterError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Perform = Callable[[ApiRequest, Receive, Send], Awaitable[None]]
Incoming = asyncio.Queue[Frame | bytes | None]  # None: the link is closed

UNREAD = 4  # pieces of a request that wait to be read
MARK_SECONDS = 5.0  # within which the definitions before a request must have arrived
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class ApiService:
    """``mark``: puts a mark behind the definitions that were sent to a cell; None without a connection to it."""

    def __init__(self, marks: DefinitionMarks, mark: Callable[[str], int | None]) -> None:
        self.perform: Perform | None = None  # when the API is ready
        self._marks = marks
        self._mark = mark

    async def serve(self, link: Link, request: Frame) -> None:
        if self.perform is None:
            raise ClusterError("the API of this cell is not ready yet: it is starting")
        await link.send({})
        incoming: Incoming = asyncio.Queue(UNREAD)
        reading = asyncio.create_task(_read(link, incoming))
        try:
            while (head := await incoming.get()) is not None:
                assert isinstance(head, dict)
                await self._answer(str(request["node"]), link, head, incoming)
        finally:
            reading.cancel()

    async def _answer(self, cell: str, link: Link, head: Frame, incoming: Incoming) -> None:
        request = msgspec.convert(head["request"], ApiRequest)
        assert self.perform is not None
        try:
            async with asyncio.timeout(MARK_SECONDS):
                await self._marks.wait(cell, int(head["mark"]))
        except TimeoutError:
            raise LinkLost("the definitions before the request have not arrived") from None
        marked = None if request.method in SAFE_METHODS else cell
        exchange = _Exchange(link, incoming, lambda: None if marked is None else self._mark(marked))
        await self.perform(request, exchange.receive, exchange.send)
        if not exchange.is_sent:
            raise LinkLost("the endpoint has not finished its response")
        await exchange.skip_body()


async def _read(link: Link, incoming: Incoming) -> None:
    try:
        while True:
            await incoming.put(await link.receive())
            while piece := await receive_piece(link):
                await incoming.put(piece)
            await incoming.put(END)
    except (LinkLost, OSError):
        await incoming.put(None)


class _Exchange:
    """One request and its response, as an ASGI application receives and sends them."""

    def __init__(self, link: Link, incoming: Incoming, mark: Callable[[], int | None]) -> None:
        self._link = link
        self._incoming = incoming
        self._mark = mark
        self._is_received = False
        self.is_sent = False

    async def receive(self) -> Message:
        """After the body, only the end of the link can arrive: the next request comes when this one is answered."""
        item = await self._incoming.get()
        if item is None:
            self._is_received = True
            self._incoming.put_nowait(None)  # for the next call
            return {"type": "http.disconnect"}
        assert isinstance(item, bytes)
        self._is_received = item == END
        return {"type": "http.request", "body": item, "more_body": not self._is_received}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            await self._link.send({"status": message["status"], "headers": headers, "mark": self._mark()})
            return
        if message.get("body"):
            await send_piece(self._link, message["body"])
        if not message.get("more_body"):
            self.is_sent = True
            await send_end(self._link)

    async def skip_body(self) -> None:
        while not self._is_received:
            await self.receive()
