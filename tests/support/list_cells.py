"""Cells that only have lists: each answers GET with its rows, as a real one does; some do not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leveret.api.cells.cell_requests import CellRequests, RequestBody
from leveret.cells.api_request import ApiReply, ApiRequest, CellUnreachable
from leveret.cluster.status import STANDBY, ClusterStatus, MemberStatus
from leveret.http.errors import HttpError, error_response
from leveret.http.internal_requests import InternalReply, scope_of
from leveret.http.listings import list_response
from leveret.http.login import USER
from leveret.http.responses import json_response
from leveret.http.rows import Row, made_rows
from tests.support.peer_pair import Harness

T = TypeVar("T")


class ListCells:
    """``rows`` by cell; ``replies`` replace them. A cell in ``away`` refuses connections, one in ``stopped`` never
    answers, and one in ``cut_off`` stops in the middle of its reply."""

    def __init__(self, **rows: list[Row]) -> None:
        self.rows = rows
        self.replies: dict[str, tuple[int, object]] = {}  # status and value
        self.away: set[str] = set()
        self.stopped: set[str] = set()
        self.cut_off: set[str] = set()
        self.asked: list[tuple[str, str]] = []  # cell and query
        self.paths: list[str] = []
        self.harness = Harness()
        broker = self.harness.broker
        broker.cells.nodes = {cell: f"node-{cell}" for cell in rows}
        self.user = broker.users.list()[0]
        self.context: Any = SimpleNamespace(broker=broker, in_worker=self._at_once, cluster=None)
        own = next(iter(rows))
        self.requests = CellRequests(self.context, self._performer(own), own, self)

    def replicate(self, members: Sequence[str], **leaders: str) -> None:
        """Make these cells replicated ones: the leaders by cell."""
        self.harness.broker.cells.nodes = leaders
        listed = tuple(MemberStatus(node, STANDBY, "", 0, {}, "", True) for node in members)
        status = ClusterStatus("c1", leaders["c1"], 1, 0.0, True, listed)
        self.context.cluster = SimpleNamespace(status=lambda: status)

    async def _at_once(self, work: Callable[[], T]) -> T:
        return work()

    async def request(self, cell: str, request: ApiRequest, body: RequestBody | None = None) -> ApiReply:
        if cell in self.away:
            raise CellUnreachable(cell)
        if cell in self.stopped:
            await asyncio.Event().wait()
        return await InternalReply.begin(self._performer(cell), scope_of(self.harness.broker, request))

    def _performer(self, cell: str) -> Any:
        async def perform(scope: Scope, receive: Receive, send: Send) -> None:
            self.asked.append((cell, scope["query_string"].decode()))
            self.paths.append(scope["path"])
            if cell in self.cut_off:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b'[{"na', "more_body": True})
                return
            if cell in self.replies:
                status, value = self.replies[cell]
                await json_response(value, status)(scope, receive, send)
                return
            request = Request(scope, receive, send)
            await (await list_response(self.context, request, self.rows[cell], made_rows()))(scope, receive, send)

        return perform

    def asking(self, query: str = "", path: str = "/api/queues") -> Request:
        scope = scope_of(self.harness.broker, ApiRequest("GET", path, query, (), self.user.name))
        assert scope[USER] is self.user

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            return {}

        return Request(scope, receive)

    async def answer(
        self, endpoint: Callable[[Request], Any], query: str = "", path: str = "/api/queues", **parts: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, value and headers; the value is the text of a body that is cut off. ``parts`` of the path."""
        request = self.asking(query, path)
        request.scope["path_params"] = parts
        parts: list[bytes] = []
        start: dict[str, Any] = {}

        async def send(message: Any) -> None:
            start.update(message) if "status" in message else parts.append(message["body"])

        try:
            response: Response = await endpoint(request)
        except HttpError as error:
            response = error_response(error, "GET", "/")
        await response(request.scope, request.receive, send)
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], json.loads(b"".join(parts)), headers
