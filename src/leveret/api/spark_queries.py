"""Spark queries, by their last reports."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.http.authorization import seen_vhost
from leveret.http.listings import list_response, viewed
from leveret.http.roles import MANAGEMENT, refuse_unless_role
from leveret.http.rows import made_rows
from leveret.pipeline.spark_queries import SparkQuery
from leveret.pipeline.spark_query_view import is_shown, query_row, vhosts_of

QUERY_ROWS = made_rows(
    *("id", "name", "run_id", "vhost", "user", "state", "batch", "batch_ms", "rows", "input_rows_per_second"),
    *("rows_per_second", "lag", "sources", "sink", "at", "last_seen", "silent_for", "recent"),
)


def routes(context: ApiContext) -> list[Route]:
    queries = context.spark_queries

    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await listed(request, [each for each in queries.known() if is_shown(request, each)])

    async def list_of_vhost(request: Request) -> Response:
        name = seen_vhost(request).name
        return await listed(request, [each for each in queries.known() if name in vhosts_of(context.broker, each)])

    async def listed(request: Request, found: list[SparkQuery]) -> Response:
        rows = await viewed(found, lambda query: query_row(request, query))
        return await list_response(context, request, rows, QUERY_ROWS)

    return [Route("/api/spark-queries", list_all), Route("/api/spark-queries/{vhost}", list_of_vhost)]
