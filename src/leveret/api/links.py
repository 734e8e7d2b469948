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

SHOVELS, LINKS = "/api/shovels", "/api/federation-links"


def routes(context: ApiContext) -> list[Route]:
    async def of_all(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        return await list_response(context, request, [])

    async def of_vhost(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        seen_vhost(request)
        return await list_response(context, request, [])

    return [
        Route(SHOVELS, of_all),
        Route(f"{SHOVELS}/{{vhost}}", of_vhost),
        Route(LINKS, of_all),
        Route(f"{LINKS}/state/{{state}}", of_all),
        Route(f"{LINKS}/{{vhost}}", of_vhost),
        Route(f"{LINKS}/{{vhost}}/state/{{state}}", of_vhost),
    ]
