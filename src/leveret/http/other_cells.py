"""Requests that are passed to another cell, and its replies, which are sent on while they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol
from urllib.parse import urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leveret.cells.api_request import ApiReply, ApiRequest, CellUnreachable
from leveret.http.login import USER
from leveret.logs import get_log

SECONDS = 120.0  # within which the next part of a response arrives: some requests wait for messages
OWN_HEADERS = {"authorization", "cookie", "host", "connection", "transfer-encoding", "expect", "upgrade", "keep-alive"}


class RequestBody(Protocol):
    def pieces(self) -> AsyncIterator[bytes]: ...

    async def abandoned(self) -> None: ...


class OtherCells(Protocol):
    """See cluster/api_links.py."""

    async def request(self, cell: str, request: ApiRequest, body: RequestBody | None = None) -> ApiReply: ...


class ReceivedBody:
    """The body of a client's request, as it arrives."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    async def pieces(self) -> AsyncIterator[bytes]:
        goes_on = True
        while goes_on:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if message.get("body"):
                yield message["body"]
            goes_on = message.get("more_body", False)

    async def abandoned(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


class FixedBody:
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._body:
            yield self._body

    async def abandoned(self) -> None:
        await asyncio.Event().wait()


def request_of(request: Request, *, query: Sequence[tuple[str, str]] | None = None, method: str = "") -> ApiRequest:
    """The same request for another cell; ``query`` replaces the parameters."""
    asked = request.url.query if query is None else urlencode(query)
    headers = [(name, value) for name, value in request.headers.items() if name not in OWN_HEADERS]
    user = request.scope[USER].name if USER in request.scope else None
    return ApiRequest(method or request.method, request.scope["path"], asked, headers, user)


class RelayedResponse(Response):
    """The reply of another cell, sent while it arrives."""

    def __init__(self, reply: ApiReply) -> None:
        super().__init__(status_code=reply.status)
        del self.headers["content-length"]
        for name, value in reply.headers:
            self.headers[name] = value
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pieces = aiter(self._reply.pieces())
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while (piece := await _next(pieces)) is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (CellUnreachable, TimeoutError) as problem:
            get_log("http").warning("response of another cell cut off", reason=str(problem), path=scope["path"])
            raise ClientDisconnect from None  # without an end, the client detects that it is truncated
        finally:
            await self._reply.close()


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    async with asyncio.timeout(SECONDS):
        return await anext(pieces, None)
