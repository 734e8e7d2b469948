"""The user of the request."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.http.responses import json_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role


def routes(context: ApiContext) -> list[Route]:
    return [Route("/api/whoami", whoami)]


async def whoami(request: Request) -> Response:
    user = refuse_unless_role(request, MANAGEMENT)
    return json_response({"name": user.name, "tags": list(user.tags), "is_internal_user": True})
