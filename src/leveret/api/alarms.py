"""The alarms in effect, which the management UI shows on every page.

Every management user may see them, as ``connection.blocked`` gives publishers the reason. The numbers are those of the
node, for users who may monitor it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.http.responses import json_response
from leveret.http.roles import MANAGEMENT, MONITORING, has_role, refuse_unless_role
from leveret.http.rows import Row


def routes(context: ApiContext) -> list[Route]:
    async def list_all(request: Request) -> Response:
        user = refuse_unless_role(request, MANAGEMENT)
        return json_response(_rows(context, has_role(user, MONITORING)))

    return [Route("/api/alarms", list_all)]


def _rows(context: ApiContext, has_numbers: bool) -> list[Row]:
    broker, numbers = context.broker, _numbers(context) if has_numbers else {}
    return [
        {"node": broker.node_name, "resource": name, "reason": reason, **numbers.get(name, {})}
        for name, reason in sorted(broker.alarms.items())
    ]


def _numbers(context: ApiContext) -> dict[str, Row]:
    reading, memory = context.measures.latest, context.broker.memory
    return {
        "memory": {"used": reading.memory or memory.used(), "limit": memory.high_watermark},
        "disk": {"free": reading.disk_free, "limit": reading.disk_free_limit},
    }
