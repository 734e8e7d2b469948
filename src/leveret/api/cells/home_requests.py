"""Requests that one cell answers alone: that of the queue, of the node, or of the connection that they are about.

Other packages route their own endpoints to the home of a queue with ``HomeRequests.forward``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from leveret.api.cells.cell_requests import CellRequests, NodeDown
from leveret.cells.api_request import ApiRequest, CellUnreachable
from leveret.http.other_cells import SECONDS, ReceivedBody, RelayedResponse, RequestBody, request_of

IN_VHOST = frozenset(
    ("queues", "exchanges", "bindings", "streams", "consumers", "dead-letters", "schedules", "traces", "leases")
)  # /api/.../VHOST
ID = 4  # its place in /api/.../VHOST/ID
PREFIX = ":"  # between the name of a cell and an id that is unique only there


class TimedBody:
    """Calls ``on_progress`` for each piece."""

    def __init__(self, body: RequestBody, on_progress: Callable[[], None]) -> None:
        self._body = body
        self._on_progress = on_progress

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._body.pieces():
            self._on_progress()
            yield piece
        self._on_progress()

    async def abandoned(self) -> None:
        await self._body.abandoned()


class HomeRequests:
    """The methods return None for a request that this cell answers itself."""

    def __init__(self, cells: CellRequests) -> None:
        self._cells = cells

    # ---- one cell

    async def of_queue(self, request: Request) -> Response | None:
        """About the queue in the path."""
        home = self._cells.home_of(unquote(request.path_params["vhost"]), unquote(request.path_params["name"]))
        return None if home is None else await self.forward(request, home)

    async def of_vhost(self, request: Request) -> Response | None:
        """About something in a virtual host that is in another cell."""
        parts = request.scope["path"].split("/", 4)
        if len(parts) < 4 or parts[2] not in IN_VHOST:
            return None
        cell = self._cells.cell_of_vhost(unquote(parts[3]))
        return None if cell is None else await self.forward(request, cell)

    async def of_node(self, request: Request) -> Response | None:
        """About the node in the path. One that leads several cells answers as the leader of the first of them; the name
        of a cell in place of its node's chooses one."""
        name = unquote(request.path_params["name"])
        cell, *_ = self._cells.cells_of(name) or [self._cells.own]
        asked, node = request_of(request), self._cells.node_of(cell)
        if name == cell != node:
            before, _, behind = asked.path.rpartition(f"/{name}")
            asked = asked._replace(path=f"{before}/{quote(node, safe='')}{behind}")
        elif cell == self._cells.own:
            return None
        return await self._forward(asked, cell, ReceivedBody(request.receive))

    async def forward(self, request: Request, cell: str, body: RequestBody | None = None) -> Response:
        """The response of a cell, whole. The body is that of the request unless it was read already."""
        return await self._forward(request_of(request), cell, body or ReceivedBody(request.receive))

    async def _forward(self, request: ApiRequest, cell: str, body: RequestBody) -> Response:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(SECONDS) as limit:
                timed = TimedBody(body, lambda: limit.reschedule(loop.time() + SECONDS))
                await self._cells.refuse_missing(cell)
                return RelayedResponse(await self._cells.ask(cell, request, timed))
        except (CellUnreachable, TimeoutError):
            node = self._cells.node_of(cell)
            raise NodeDown(f"node '{node}', where the object of this request lives, does not answer: retry") from None

    # ---- any cell

    async def anywhere(self, request: Request) -> Response:
        """About an object whose cell is unknown: the response of the cell that has it, or the 404 of this one."""
        answers = await self._cells.gather_all(request_of(request))
        found = next((each for each in answers.by_cell.values() if each.status != 404), answers.own)
        return self._cells.marked(found.response(), answers.missing)

    async def everywhere(self, request: Request) -> Response:
        """A change in each cell. The response is that of this one, or that of a cell that has refused it."""
        answers = await self._cells.gather_all(request_of(request))
        refused = next((each for each in answers.by_cell.values() if each.status >= 400), answers.own)
        if answers.missing and refused.status < 400:
            nodes = ", ".join(self._cells.nodes_of(answers.missing))
            raise NodeDown(f"done, except on nodes that do not answer: {nodes}; repeat it later")
        return refused.response()

    # ---- ids that are unique only in their cell

    async def of_prefixed_id(self, request: Request) -> Response | None:
        """``c2:7-0-12`` is the object 7-0-12 of cell c2; without a prefix, this cell is meant."""
        cell, colon, own_id = unquote(request.path_params["id"]).partition(PREFIX)
        if not colon or cell not in self._cells.cells:
            return None
        asked = request_of(request)
        parts = asked.path.split("/")
        parts[ID] = quote(own_id, safe="")
        return await self._forward(asked._replace(path="/".join(parts)), cell, ReceivedBody(request.receive))


def with_prefixes(cell: str, rows: Sequence[dict[str, object]]) -> None:
    for row in rows:
        row["id"] = f"{cell}{PREFIX}{row['id']}"
