"""Endpoints for progress reports of Spark queries (pipeline/spark_queries.py)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.http.bodies import parse_object, read_body
from leveret.http.login import user_of
from leveret.http.responses import json_response
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.first_cell import in_first_cell
from leveret.pipeline.query_report import refuse_invalid
from leveret.pipeline.spark_query_view import is_shown, shown_report

MOST_BYTES = 64 << 10


class QueriesEndpoints:
    def __init__(self, context: PipelineContext) -> None:
        self.context = context
        self._queries = context.queries

    @in_first_cell
    async def note(self, request: Request) -> Response:
        report = parse_object(await read_body(request, MOST_BYTES), f"the body of {request.url.path}")
        refuse_invalid(report)
        self._queries.note(user_of(request).name, report)
        return json_response({"id": report["id"]})

    @in_first_cell
    async def list(self, request: Request) -> Response:
        shown = [each for each in self._queries.known() if is_shown(request, each)]
        return json_response({"queries": [{**shown_report(request, each), "user": each.user} for each in shown]})


def routes(context: PipelineContext) -> list[Route]:
    endpoints = QueriesEndpoints(context)
    at = "/api/pipeline/queries"
    return [Route(at, endpoints.note, methods=["POST"]), Route(at, endpoints.list, methods=["GET"])]
