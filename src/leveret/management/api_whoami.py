"""Who asks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.management.answers import json_answer
from leveret.management.office import Office
from leveret.management.roles import MANAGEMENT, refuse_unless_role


def routes(office: Office) -> list[Route]:
    return [Route("/api/whoami", whoami)]


async def whoami(request: Request) -> Response:
    user = refuse_unless_role(request, MANAGEMENT)
    return json_answer({"name": user.name, "tags": list(user.tags), "is_internal_user": True})
