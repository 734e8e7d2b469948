"""Endpoints whose responses are made of the responses of all cells, by views of merged_views.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from leveret.api.cells.cell_requests import Answers, CellRequests
from leveret.api.cells.home_requests import PREFIX, HomeRequests, with_prefixes
from leveret.api.cells.merged_lists import ROWS, further
from leveret.api.cells.merged_views import (
    joined,
    merged_dead_letters,
    merged_exchange,
    merged_metrics,
    merged_nodes,
    merged_overview,
    merged_stream,
    merged_traces,
    merged_vhost,
    missing_node,
)
from leveret.http.errors import BadRequest
from leveret.http.listings import list_query, list_response, object_response
from leveret.http.other_cells import request_of
from leveret.http.responses import json_response
from leveret.http.rows import Row

NODES = "/api/nodes"
DONE = "-"  # the cursor of a cell that has no further pages


class MergedEndpoints:
    def __init__(self, cells: CellRequests, homes: HomeRequests) -> None:
        self._cells = cells
        self._homes = homes

    async def _gather(self, request: Request, *, stands_in: bool = False) -> Answers:
        asked = request_of(request, query=further(request), method="GET")
        return await self._cells.gather(asked, stands_in=stands_in)

    async def _object(self, request: Request, merge: Callable[[Sequence[Row]], Row]) -> Response:
        answers = await self._gather(request)
        if answers.own.status != 200:
            return answers.own.response()
        return self._cells.marked(object_response(request, merge(answers.values)), answers.missing)

    async def _list(
        self, request: Request, key: Callable[[Row], Any], merge: Callable[[Sequence[Row]], Row]
    ) -> Response:
        list_query(request)  # refuses an invalid one
        answers = await self._gather(request)
        if answers.own.status != 200:
            return answers.own.response()
        rows = joined(answers.values, key, merge)
        return self._cells.marked(await list_response(self._cells.context, request, rows, ROWS), answers.missing)

    # ---- sums

    async def overview(self, request: Request) -> Response:
        return await self._object(request, merged_overview)

    async def vhosts(self, request: Request) -> Response:
        return await self._list(request, lambda row: row["name"], merged_vhost)

    async def vhost(self, request: Request) -> Response:
        return await self._object(request, merged_vhost)

    async def exchanges(self, request: Request) -> Response:
        return await self._list(request, lambda row: (row["vhost"], row["name"]), merged_exchange)

    async def exchange(self, request: Request) -> Response:
        return await self._object(request, merged_exchange)

    async def traced_vhosts(self, request: Request) -> Response:
        return await self._list(request, lambda row: row["vhost"], merged_traces)

    # ---- nodes and alarms

    async def nodes(self, request: Request) -> Response:
        answers = await self._gather(request)
        if answers.own.status != 200:
            return answers.own.response()
        rows, wanted = self._nodes(answers), request.query_params.get("node")
        if wanted:
            names = {wanted, *self._cells.nodes_of(self._cells.cells_of(wanted))}
            rows = [row for row in rows if row["name"] in names]
        return self._cells.marked(await list_response(self._cells.context, request, rows, ROWS), answers.missing)

    async def node(self, request: Request) -> Response | None:
        """A node of replicated cells is a member of several: its row is that of the list."""
        name = unquote(request.path_params["name"])
        if not self._cells.are_replicated or name in self._cells.names:
            return await self._homes.of_node(request)
        asked = request_of(request, query=further(request), method="GET")._replace(path=NODES)
        answers = await self._cells.gather(asked)
        if answers.own.status != 200:
            return answers.own.response()
        row = next((row for row in self._nodes(answers) if row["name"] == name), None)
        return None if row is None else self._cells.marked(object_response(request, row), answers.missing)

    def _nodes(self, answers: Answers) -> list[Row]:
        rows = [row | {"cell": cell} for cell, reply in answers.by_cell.items() for row in reply.value]
        rows += [missing_node(self._cells.node_of(cell), cell) for cell in answers.missing]
        rows.sort(key=lambda row: self._cells.names.index(row["cell"]))
        return merged_nodes(rows)

    async def all_alarms(self, request: Request) -> Response:
        answers = await self._gather(request)
        if answers.own.status != 200:
            return answers.own.response()
        return self._cells.marked(json_response([row for rows in answers.values for row in rows]), answers.missing)

    async def check(self, request: Request) -> Response:
        """A health check of each cell: the first that fails. A cell that does not answer cannot be healthy. A cell
        responds with 404 if the node in the query is none of its members."""
        answers = await self._cells.gather_all(request_of(request))
        known = {cell: reply for cell, reply in answers.by_cell.items() if reply.status != 404}
        for cell, reply in known.items():
            if reply.status == 503:
                return self._cells.marked(json_response(reply.value | {"cell": cell}, 503), answers.missing)
            if reply.status != 200:
                return reply.response()
        if answers.missing:
            silent = ", ".join(f"{self._cells.node_of(cell)} (cell {cell})" for cell in answers.missing)
            reason = f"nodes that do not answer: {silent}"
            return self._cells.marked(json_response({"status": "failed", "reason": reason}, 503), answers.missing)
        return next(iter(known.values()), answers.own).response()

    async def check_node(self, request: Request) -> Response | None:
        """Each cell that the node is a member of checks it."""
        return await (self.check if self._cells.are_replicated else self._homes.of_node)(request)

    async def metrics(self, request: Request) -> Response:
        answers = await self._cells.gather(request_of(request, method="GET"))
        if answers.own.status != 200:
            return answers.own.response()
        texts = {cell: reply.body.decode() for cell, reply in answers.by_cell.items()}
        body = await self._cells.context.in_worker(lambda: merged_metrics(texts))
        kept = [(name, value) for name, value in answers.own.headers if name != "content-length"]
        return self._cells.marked(answers.own._replace(body=body, headers=kept).response(), answers.missing)

    # ---- queues and streams

    async def queue(self, request: Request) -> Response:
        """The home cell has the queue; each cell has the consumers that are connected to it."""
        home = self._cells.home_of(unquote(request.path_params["vhost"]), unquote(request.path_params["name"]))
        answers = await self._gather(request)
        found = answers.by_cell.get(home or self._cells.own, answers.own)
        if found.status != 200:
            return found.response()
        row = found.value
        row["consumer_details"] = [each for view in answers.values for each in view["consumer_details"]]
        return self._cells.marked(object_response(request, row), answers.missing)

    async def dead_letters(self, request: Request) -> Response:
        answers = await self._gather(request, stands_in=True)
        if answers.own.status != 200:
            return answers.own.response()
        return self._cells.marked(json_response(merged_dead_letters(answers.values)), answers.missing)

    async def streams(self, request: Request) -> Response:
        return await self._list(request, lambda row: (row["vhost"], row["name"]), merged_stream)

    async def stream(self, request: Request) -> Response:
        """A stream is in its home cell; the partitions of a super stream are in several."""
        response = await self._homes.of_queue(request)
        return await self._object(request, merged_stream) if response is None else response

    async def traces(self, request: Request) -> Response:
        """Newest first, unless the query has another order."""
        list_query(request)
        answers = await self._gather(request)
        if answers.own.status != 200:
            return answers.own.response()
        rows = self._prefixed({cell: reply.value for cell, reply in answers.by_cell.items()})
        rows.sort(key=lambda row: float(row["began"]), reverse=True)
        return self._cells.marked(await list_response(self._cells.context, request, rows, ROWS), answers.missing)

    async def schedules(self, request: Request) -> Response:
        """The next messages of each cell, at most ``limit`` of each. The cursor names the place in each cell."""
        cursors = self._cursors(request.query_params.get("after", ""))
        rest = [(name, value) for name, value in further(request) if name != "after"]
        views: dict[str, Any] = {}
        missing: list[str] = []
        for cell in self._cells.cells:
            if cursors.get(cell) == DONE and cell != self._cells.own:
                continue
            after = [("after", cursors[cell])] if cursors.get(cell, DONE) != DONE else []
            answers = await self._cells.gather(request_of(request, query=[*rest, *after], method="GET"), [cell])
            if cell == self._cells.own and answers.own.status != 200:
                return answers.own.response()
            missing += answers.missing
            views |= {each: reply.value for each, reply in answers.by_cell.items()}
        own = views[self._cells.own]
        if cursors.get(self._cells.own) == DONE:
            own["messages"] = []
        rows = self._prefixed({cell: view["messages"] for cell, view in views.items()})
        merged = {"messages": sorted(rows, key=lambda row: float(row["due"])), "now": own["now"]}
        merged["next"] = self._next(views)
        merged["count"] = sum(view["count"] for view in views.values())
        return self._cells.marked(json_response(merged), missing)

    def _cursors(self, text: str) -> dict[str, str]:
        pairs = [each.partition(PREFIX) for each in text.split(",") if each]
        cursors = {cell: place for cell, _, place in pairs}
        if not set(cursors) <= set(self._cells.names):
            raise BadRequest(f"'after' must be the 'next' value of a previous response, not '{text[:80]}'")
        return cursors

    def _next(self, views: dict[str, Any]) -> str | None:
        if not any(view["next"] for view in views.values()):
            return None
        places = {cell: views[cell]["next"] if cell in views else None for cell in self._cells.cells}
        return ",".join(f"{cell}{PREFIX}{place or DONE}" for cell, place in places.items())

    def _prefixed(self, by_cell: dict[str, list[Row]]) -> list[Row]:
        """Ids of this cell have no prefix."""
        for cell, rows in by_cell.items():
            if cell != self._cells.own:
                with_prefixes(cell, rows)
        return [row for rows in by_cell.values() for row in rows]
