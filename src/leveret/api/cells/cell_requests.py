"""Requests of the management API to one cell or to all, for the first cell, which serves HTTP for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from leveret.api.context import ApiContext
from leveret.cells.api_request import ApiReply, ApiRequest, CellUnreachable
from leveret.http.errors import BadRequest, HttpError
from leveret.http.internal_requests import InternalReply, Perform, scope_of
from leveret.http.other_cells import OtherCells, RequestBody
from leveret.queues.declared_queue import HERE

NODES_HEADER, MISSING_HEADER = "X-Leveret-Nodes", "X-Leveret-Missing-Nodes"
SECONDS = 5.0  # within which a cell answers, or counts as missing
SECONDS_IF_MISSING = 1.0  # the same, after it has been missing
PROBE = "/api/auth"  # the cheapest request, whatever the status
LARGEST_REPLY = 256 << 20  # bytes of one cell's part of a list


class NodeDown(HttpError):
    """The node where the object of the request lives does not answer."""

    status, error = 503, "node_down"
    headers = {"Retry-After": "1"}


class Collected(NamedTuple):
    """A whole reply."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.body)

    def response(self) -> Response:
        response = Response(self.body, self.status)
        for name, value in self.headers:
            response.headers[name] = value
        return response


class Answers(NamedTuple):
    """The replies by cell, that of the first cell first; and the cells that did not answer."""

    by_cell: dict[str, Collected]
    missing: Sequence[str]

    @property
    def own(self) -> Collected:
        return next(iter(self.by_cell.values()))

    @property
    def values(self) -> list[Any]:
        return [each.value for each in self.by_cell.values()]


def _header(nodes: Iterable[str]) -> str:
    return ",".join([quote(node, safe="@:") for node in nodes])


class CellRequests:
    """``own`` is the name of this cell; ``perform`` answers a request in this one."""

    def __init__(self, context: ApiContext, perform: Perform, own: str, links: OtherCells) -> None:
        self.context = context
        self.own = own
        self._perform = perform
        self._links = links
        self._missed: set[str] = set()  # cells that did not answer the last request

    # ---- cells and nodes

    @property
    def names(self) -> tuple[str, ...]:
        """Of all cells, that of this one first; cells may be added."""
        return (self.own, *[name for name in self.context.broker.cells.names if name != self.own])

    @property
    def cells(self) -> tuple[str, ...]:
        """All but those that were removed."""
        removals = self.context.broker.cells.removals
        return self.names if removals is None else tuple(name for name in self.names if name not in removals.removed)

    @property
    def are_replicated(self) -> bool:
        """A node can then be a member of several cells, and lead any number of them."""
        return self.context.cluster is not None

    def node_of(self, cell: str) -> str:
        return self.context.broker.cells.nodes[cell]

    def nodes_of(self, cells: Iterable[str]) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(map(self.node_of, cells)))

    def cells_of(self, node: str) -> list[str]:
        """Those that this node leads, the first cell first; or the one with this name."""
        led = [cell for cell in self.names if self.node_of(cell) == node]
        return led or [cell for cell in self.names if cell == node]

    def chosen(self, request: Request) -> Sequence[str]:
        """All cells, or those of the node in the query: none, if it is a member that leads no cell."""
        node = request.query_params.get("node")
        if not node:
            return self.cells
        cells, members = self.cells_of(node), self._members()
        if not cells and node not in members:
            known = ", ".join(dict.fromkeys([*self.nodes_of(self.cells), *members]))
            raise BadRequest(f"no node '{node}': nodes are {known}")
        return cells

    def _members(self) -> list[str]:
        cluster = self.context.cluster
        return [] if cluster is None else [each.node for each in cluster.status().members]

    def cell_of_vhost(self, vhost: str) -> str | None:
        """The other cell in which this virtual host is alone."""
        found = self.context.broker.vhosts.get(vhost)
        return None if found is None or found.is_here else found.cell

    def home_of(self, vhost: str, queue: str) -> str | None:
        """The cell where a queue is; None for a queue of this one, or an unknown one."""
        known = self.context.broker.vhosts.get(vhost)
        found = None if known is None else known.queues.get(queue)
        return None if found is None or found.home is None else found.home.cell_name

    def marked(self, response: Response, missing: Sequence[str]) -> Response:
        """With the names of all nodes, and of those of missing cells, percent-encoded."""
        response.headers[NODES_HEADER] = _header(self.nodes_of(self.cells))
        if missing:
            response.headers[MISSING_HEADER] = _header(self.nodes_of(missing))
        return response

    # ---- requests

    async def ask(self, cell: str, request: ApiRequest, body: RequestBody | None = None) -> ApiReply:
        """Returns when the status has arrived. Raises CellUnreachable; the caller limits the time."""
        if cell != self.own:
            return await self._links.request(cell, request, body)
        given = b"" if body is None else b"".join([piece async for piece in body.pieces()])
        return await InternalReply.begin(self._perform, scope_of(self.context.broker, request), given)

    async def ask_in_time(self, cell: str, request: ApiRequest) -> ApiReply:
        try:
            async with asyncio.timeout(self.limit_of(cell)):
                reply = await self.ask(cell, request)
        except TimeoutError:
            self._missed.add(cell)
            raise CellUnreachable(f"cell {cell} does not answer in time") from None
        except CellUnreachable:
            self._missed.add(cell)
            raise
        self._missed.discard(cell)
        return reply

    async def refuse_missing(self, cell: str) -> None:
        """Raises CellUnreachable for a cell that did not answer the last request, and still does not."""
        if cell in self._missed:
            await self.collect(cell, ApiRequest("GET", PROBE))

    def limit_of(self, cell: str) -> float | None:
        """This cell answers, or its client waits."""
        if cell == self.own:
            return None
        return SECONDS_IF_MISSING if cell in self._missed else SECONDS

    async def collect(self, cell: str, request: ApiRequest) -> Collected:
        reply = await self.ask_in_time(cell, request)
        body = bytearray()
        try:
            async with asyncio.timeout(None if cell == self.own else SECONDS):
                async for piece in reply.pieces():
                    body += piece
                    if len(body) > LARGEST_REPLY:
                        raise CellUnreachable(f"the reply of cell {cell} is larger than {LARGEST_REPLY} bytes")
        except TimeoutError:
            raise CellUnreachable(f"cell {cell} has not sent all of its reply in time") from None
        finally:
            await reply.close()
        return Collected(reply.status, reply.headers, bytes(body))

    async def gather(
        self, request: ApiRequest, cells: Sequence[str] | None = None, *, stands_in: bool = False
    ) -> Answers:
        """The replies of these cells, by default of all. This cell is asked last: with ``stands_in``, it lists the
        queues of missing cells too. A cell that is stopping, or refuses what this one allows, counts as missing."""
        asked = self.cells if cells is None else cells
        others = [cell for cell in asked if cell != self.own]
        found = await asyncio.gather(*(self.collect(cell, request) for cell in others), return_exceptions=True)
        replies: dict[str, Collected] = {}
        missing = []
        for cell, reply in zip(others, found, strict=True):
            if isinstance(reply, Collected) and (reply.status < 500 or self.own not in asked):
                replies[cell] = reply
            elif isinstance(reply, Collected | CellUnreachable):
                missing.append(cell)
            else:
                raise reply
        if self.own in asked or (missing and stands_in):
            own = await self.collect(self.own, request._replace(homes=self.homes(asked, missing)))
            missing += [cell for cell, reply in replies.items() if (reply.status == 200) != (own.status == 200)]
            replies = {self.own: own} | {cell: reply for cell, reply in replies.items() if cell not in missing}
        return Answers(replies, missing)

    async def gather_all(self, request: ApiRequest) -> Answers:
        """The replies of all cells, whatever their status."""
        cells = self.cells
        found = await asyncio.gather(*(self.collect(cell, request) for cell in cells), return_exceptions=True)
        replies: dict[str, Collected] = {}
        missing = []
        for cell, reply in zip(cells, found, strict=True):
            if isinstance(reply, Collected):
                replies[cell] = reply
            elif isinstance(reply, CellUnreachable):
                missing.append(cell)
            else:
                raise reply
        return Answers(replies, missing)

    def homes(self, asked: Sequence[str], missing: Sequence[str]) -> tuple[str, ...]:
        return (*([HERE] if self.own in asked else []), *missing)
