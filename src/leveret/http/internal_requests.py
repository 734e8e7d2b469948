"""Requests to the HTTP API without a connection of HTTP: from another cell, or from this one for a part of a response.

The user is authenticated already, and is looked up by its name; permissions are checked as for any request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from leveret.broker.broker import Broker
from leveret.cells.api_request import ApiRequest, CellUnreachable, Headers
from leveret.http.login import BROKER, METRICS, USER
from leveret.logs import get_log

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Perform = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

HOMES = "leveret.homes"  # key of a request's scope: the cells whose queues are listed; missing: all
UNREAD = 2  # pieces of a body that wait to be read
GONE: Message = {"type": "http.disconnect"}


def scope_of(broker: Broker, request: ApiRequest) -> dict[str, Any]:
    """Without a user, only metrics can be read: a request of an unknown user gets ``USER`` None, and is refused."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode("latin-1"),
        "query_string": request.query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers],
        "client": None,
        "server": None,
        "state": {},
        BROKER: broker,
        HOMES: frozenset(request.homes),
    }
    if request.user is not None:
        scope[USER] = broker.users.get(request.user)
    elif request.path not in METRICS:
        scope[USER] = None
    return scope


class InternalReply:
    """An ApiReply of this cell: the endpoint runs in a task, at most a few pieces ahead of the reader."""

    def __init__(self, perform: Perform, scope: dict[str, Any], body: bytes) -> None:
        self.status = 0
        self.headers: Headers = ()
        self._body: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue(UNREAD)
        self._started = asyncio.Event()
        self._closed = asyncio.Event()
        self._task = asyncio.create_task(self._run(perform, scope))

    @classmethod
    async def begin(cls, perform: Perform, scope: dict[str, Any], body: bytes = b"") -> InternalReply:
        reply = cls(perform, scope, body)
        try:
            await reply._started.wait()
        except BaseException:
            await reply.close()
            raise
        return reply

    async def _run(self, perform: Perform, scope: dict[str, Any]) -> None:
        try:
            await perform(scope, self._receive, self._send)
        except Exception:  # noqa: BLE001 - the reader finds out that the body is cut off
            get_log("http").exception("internal error while sending a response", path=scope["path"])
        finally:
            self._started.set()
            self._closed.set()

    async def _receive(self) -> Message:
        if self._body:
            return self._body.pop()
        await self._closed.wait()
        return GONE

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self._started.set()
            return
        if message.get("body"):
            await self._sent.put(message["body"])
        if not message.get("more_body"):
            await self._sent.put(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            getting = asyncio.ensure_future(self._sent.get())
            await asyncio.wait((getting, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not getting.done() and self._sent.empty():
                getting.cancel()
                raise CellUnreachable("the response was cut off: see the log")
            piece = await getting
            if piece is None:
                return
            yield piece

    async def close(self) -> None:
        self._closed.set()
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
