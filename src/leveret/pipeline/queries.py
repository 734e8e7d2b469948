"""What running queries say of themselves, told to the broker: management/spark_queries.py keeps it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.management.answers import json_answer
from leveret.management.bodies import body_of, parsed, text_of
from leveret.management.errors import BadRequest
from leveret.management.login import user_of
from leveret.pipeline.house import House

MOST_BYTES = 64 << 10
FIELDS = (
    "id",
    "name",
    "run_id",
    "vhost",
    "batch",
    "rows",
    "rows_per_second",
    "input_rows_per_second",
    "lag",
    "batch_ms",
    "sources",
    "sink",
    "state",
    "at",
)


class QueriesEndpoints:
    def __init__(self, house: House) -> None:
        self._queries = house.queries

    async def note(self, request: Request) -> Response:
        report = parsed(await body_of(request, MOST_BYTES), f"the body of {request.url.path}")
        strange = sorted(report.keys() - set(FIELDS))
        if strange:
            raise BadRequest(f"'{strange[0]}' is unknown in a report: name {', '.join(FIELDS)}")
        if not 0 < len(text_of(report, "id")) <= 255:
            raise BadRequest("'id' must be a text of 1 to 255 characters")
        self._queries.note(user_of(request).name, report)
        return json_answer({"id": report["id"]})

    async def list(self, request: Request) -> Response:
        return json_answer({"queries": [{**each.report, "user": each.user} for each in self._queries.known()]})


def routes(house: House) -> list[Route]:
    endpoints = QueriesEndpoints(house)
    at = "/api/pipeline/queries"
    return [Route(at, endpoints.note, methods=["POST"]), Route(at, endpoints.list, methods=["GET"])]
