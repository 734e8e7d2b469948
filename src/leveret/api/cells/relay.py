"""Makes several cells one broker for clients of the HTTP API (docs/decisions/0058).

A request is matched here before the own routes: to be passed to the cell that its object is in, or to be answered by
all cells together. Definitions are the same in all cells, and changed in the first one: requests about them are not
matched. Requests of Spark are passed on by the pipeline itself (pipeline/cell_requests.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from leveret.api.cells.cell_requests import CellRequests
from leveret.api.cells.home_requests import HomeRequests
from leveret.api.cells.merged_endpoints import MergedEndpoints
from leveret.api.cells.merged_lists import MergedLists

Endpoint = Callable[[Request], Awaitable[Response | None]]
QUEUE, STREAM, TRACES = "/api/queues/{vhost}/{name}", "/api/streams/{vhost}/{name}", "/api/traces/{vhost}"
CHECKS = ("alarms", "virtual-hosts", "node-is-quorum-critical", "ready-to-serve-clients")  # of all cells
NODE_VIEWS = ("/memory", "/memory/relative", "/log")


class CellRelay:
    """An http.app.Relay."""

    def __init__(self, cells: CellRequests) -> None:
        self.homes = HomeRequests(cells)
        self._lists = MergedLists(cells)
        self._merged = MergedEndpoints(cells, self.homes)
        table = [*self._list_table(), *self._home_table(), *self._merged_table()]
        self._routes = [_CellRoute(method, path, endpoint) for method, path, endpoint in table]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> bool:
        response = await self.homes.of_vhost(Request(scope, receive, send))
        if response is not None:
            await response(scope, receive, send)
            return True
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                response = await route.answer(Request({**scope, **child}, receive, send))
                if response is not None:
                    await response(scope, receive, send)
                return response is not None
        return False

    def _list_table(self) -> list[tuple[str, str, Endpoint]]:
        paths = (
            *("/api/connections", "/api/connections/username/{user}", "/api/vhosts/{vhost}/connections"),
            *("/api/channels", "/api/vhosts/{vhost}/channels", "/api/consumers", "/api/consumers/{vhost}"),
            *("/api/queue-jobs", "/api/leases", "/api/leases/{vhost}"),
        )
        lists = [("GET", path, self._lists.rows) for path in paths]
        return [*lists, *[("GET", path, self._lists.queues) for path in ("/api/queues", "/api/queues/{vhost}")]]

    def _home_table(self) -> list[tuple[str, str, Endpoint]]:
        homes = self.homes
        found: list[tuple[str, str, Endpoint]] = [
            ("DELETE", QUEUE, homes.of_queue),
            ("DELETE", f"{QUEUE}/contents", homes.of_queue),
            *(("POST", f"{QUEUE}/{what}", homes.of_queue) for what in ("get", "jobs", "pause", "resume", "actions")),
            ("GET", f"{QUEUE}/messages", homes.of_queue),
            ("GET", f"{QUEUE}/messages/{{id}}/body", homes.of_queue),
            ("GET", f"{QUEUE}/unacked", homes.of_queue),
            ("DELETE", "/api/consumers/{vhost}/{channel}/{tag}", homes.anywhere),
            ("GET", f"{STREAM}/messages", homes.of_queue),
            *(("GET", f"/api/nodes/{{name}}{rest}", homes.of_node) for rest in NODE_VIEWS),
            ("POST", "/api/vhosts/{vhost}/start/{name}", homes.of_node),
            ("DELETE", "/api/connections/username/{user}", homes.everywhere),
            ("GET", "/api/connections/{name}/channels", homes.anywhere),
            ("GET", "/api/channels/{name}", homes.anywhere),
            ("DELETE", TRACES, homes.everywhere),
            ("DELETE", "/api/schedules/{vhost}/{id}", homes.of_prefixed_id),
            ("GET", "/api/schedules/{vhost}/{id}/body", homes.of_prefixed_id),
        ]
        for path in ("/api/connections/{name}", "/api/queue-jobs/{id}"):
            found += [("GET", path, homes.anywhere), ("DELETE", path, homes.anywhere)]
        for method in ("GET", "DELETE"):
            found.append((method, f"{TRACES}/{{id}}", homes.of_prefixed_id))
        return found

    def _merged_table(self) -> list[tuple[str, str, Endpoint]]:
        merged = self._merged
        gets: dict[str, Endpoint] = {
            "/api/overview": merged.overview,
            "/api/nodes": merged.nodes,
            "/api/nodes/{name}": merged.node,
            "/api/healthchecks/node/{name}": merged.check_node,
            "/api/alarms": merged.all_alarms,
            "/api/vhosts": merged.vhosts,
            "/api/vhosts/{vhost}": merged.vhost,
            "/api/exchanges": merged.exchanges,
            "/api/exchanges/{vhost}": merged.exchanges,
            "/api/exchanges/{vhost}/{name}": merged.exchange,
            QUEUE: merged.queue,
            "/api/streams": merged.streams,
            "/api/streams/{vhost}": merged.streams,
            STREAM: merged.stream,
            "/api/dead-letters": merged.dead_letters,
            "/api/dead-letters/{vhost}": merged.dead_letters,
            "/api/traces": merged.traced_vhosts,
            TRACES: merged.traces,
            "/api/schedules/{vhost}": merged.schedules,
            **{f"/api/health/checks/{name}": merged.check for name in CHECKS},
            **dict.fromkeys(("/metrics", "/metrics/per-object", "/metrics/detailed"), merged.metrics),
        }
        return [("GET", path, endpoint) for path, endpoint in gets.items()]


class PipelineOnly:
    """An http.app.Relay of other cells than the first: they serve Spark, health checks and metrics."""

    def __init__(self, first: str) -> None:
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> bool:
        path = scope["path"]
        if not path.startswith("/api/") or path.startswith(("/api/pipeline/", "/api/health/")):
            return False
        raise HTTPException(421, f"the management API is served by the cell {self._first}: use its port")


class _CellRoute(Route):
    """Matches a request; the response may be None."""

    def __init__(self, method: str, path: str, answer: Endpoint) -> None:
        super().__init__(path, _unused, methods=[method])
        self.answer = answer


async def _unused(request: Request) -> Response:
    raise AssertionError("the relay calls the endpoint itself")
