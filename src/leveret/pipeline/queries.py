"""Endpoints for progress reports of Spark queries (pipeline/spark_queries.py)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.http.bodies import parse_object, read_body
from leveret.http.errors import BadRequest
from leveret.http.login import user_of
from leveret.http.responses import json_response
from leveret.http.values import text_of
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.spark_queries import Report
from leveret.pipeline.spark_query_view import is_shown, shown_report

MOST_BYTES = 64 << 10
MOST_SOURCES = 100
MOST_PLACES = 500  # queues or partitions of one source
MOST_VALUES = 2_000  # values of a report: each takes far more memory than its bytes of JSON
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
    def __init__(self, context: PipelineContext) -> None:
        self._queries = context.queries

    async def note(self, request: Request) -> Response:
        report = parse_object(await read_body(request, MOST_BYTES), f"the body of {request.url.path}")
        strange = sorted(report.keys() - set(FIELDS))
        if strange:
            raise BadRequest(f"'{strange[0]}' is not a field of a report: use {', '.join(FIELDS)}")
        if not 0 < len(text_of(report, "id")) <= 255:
            raise BadRequest("'id' must be a string of 1 to 255 characters")
        _refuse_large(report)
        self._queries.note(user_of(request).name, report)
        return json_response({"id": report["id"]})

    async def list(self, request: Request) -> Response:
        shown = [each for each in self._queries.known() if is_shown(request, each)]
        return json_response({"queries": [{**shown_report(request, each), "user": each.user} for each in shown]})


def _refuse_large(report: Report) -> None:
    sources = report.get("sources")
    if isinstance(sources, list):
        if len(sources) > MOST_SOURCES:
            raise BadRequest(f"'sources' has more than {MOST_SOURCES} entries: report fewer")
        for source in sources:
            offset = source.get("offset") if isinstance(source, dict) else None
            if isinstance(offset, dict) and len(offset) > MOST_PLACES:
                raise BadRequest(f"an 'offset' in 'sources' has more than {MOST_PLACES} entries: report fewer")
    if _values_in(report) > MOST_VALUES:
        raise BadRequest(f"a report has more than {MOST_VALUES} values: report less")


def _values_in(report: Report) -> int:
    level: list[Any] = [report]
    number = 0
    while level:
        number += len(level)
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [value for values in inner for value in values]
    return number


def routes(context: PipelineContext) -> list[Route]:
    endpoints = QueriesEndpoints(context)
    at = "/api/pipeline/queries"
    return [Route(at, endpoints.note, methods=["POST"]), Route(at, endpoints.list, methods=["GET"])]
