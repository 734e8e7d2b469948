"""Probes for Kubernetes and load balancers, without a login. They respond with the status and nothing else.

    /health/live   200 as long as the event loop responds
    /health/ready  503 while the broker stops, its store has failed, or the engine of its cell does not answer

While the broker recovers, server/startup_probes.py responds to both; a standby of a cell has its own (cluster/
standby_http.py). The reasons are in the log, and in the health checks for management users (api/health.py).
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints
from leveret.api.health import why_not_ready
from leveret.http.login import LIVE, READY
from leveret.http.responses import json_response


def routes(context: ApiContext) -> list[Route]:
    probes = Probes(context)
    return [Route(LIVE, probes.live), Route(READY, probes.ready)]


class Probes(Endpoints):
    async def live(self, request: Request) -> Response:
        return _response(True)

    async def ready(self, request: Request) -> Response:
        return _response(why_not_ready(self._context) is None)


def _response(is_well: bool) -> Response:
    response = json_response({"status": "ok" if is_well else "failed"}, 200 if is_well else 503)
    response.headers["Cache-Control"] = "no-store"
    return response
