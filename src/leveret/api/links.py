"""Shovels and federation links: empty lists.

Exporters and monitoring checks request these lists together with all others, and some treat 404 as a failure. The
required tags are RabbitMQ's.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.http.authorization import seen_vhost
from leveret.http.listings import list_response
from leveret.http.roles import MONITORING, refuse_unless_role
from leveret.http.rows import made_rows

LINKS = "/api/federation-links"
PATHS = (
    *("/api/shovels", "/api/shovels/{vhost}"),
    *(LINKS, f"{LINKS}/state/{{state}}", f"{LINKS}/{{vhost}}", f"{LINKS}/{{vhost}}/state/{{state}}"),
)

LINK_ROWS = made_rows("name", "vhost")


def routes(context: ApiContext) -> list[Route]:
    async def no_rows(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        if "vhost" in request.path_params:
            seen_vhost(request)
        return await list_response(context, request, [], LINK_ROWS)

    return [Route(path, no_rows) for path in PATHS]
