"""Spark queries, by their last reports."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.http.amqp_values import path_name
from leveret.http.authorization import seen_vhost
from leveret.http.errors import ObjectNotFound
from leveret.http.listings import list_response, object_response, viewed
from leveret.http.roles import MANAGEMENT, refuse_unless_role
from leveret.http.rows import made_rows
from leveret.pipeline.spark_queries import SparkQuery
from leveret.pipeline.spark_query_view import is_shown, query_detail, query_row, vhosts_of

QUERY_ROWS = made_rows(
    *("id", "name", "run_id", "vhost", "user", "state", "error", "batch", "batch_ms", "rows", "rows_total", "counts"),
    *("state_rows", "input_rows_per_second", "rows_per_second", "lag", "sources", "sink", "at", "last_seen"),
    *("silent_for", "recent"),
)


def routes(context: ApiContext) -> list[Route]:
    queries = context.spark_queries

    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await listed(request, [each for each in queries.known() if is_shown(request, each)])

    async def list_of_vhost(request: Request) -> Response:
        name = seen_vhost(request).name
        return await listed(request, [each for each in queries.known() if name in vhosts_of(context.broker, each)])

    async def show(request: Request) -> Response:
        """The last report if several users reported this id: Spark takes the id from the checkpoint."""
        vhost, name = seen_vhost(request).name, path_name(request, "id")
        for query in reversed(queries.known()):
            if query.report["id"] == name and vhost in vhosts_of(context.broker, query):
                return object_response(request, query_detail(request, query))
        raise ObjectNotFound(f"no Spark query '{name}' in virtual host '{vhost}' has reported in the last hour")

    async def listed(request: Request, found: list[SparkQuery]) -> Response:
        rows = await viewed(found, lambda query: query_row(request, query))
        return await list_response(context, request, rows, QUERY_ROWS)

    return [
        Route("/api/spark-queries", list_all),
        Route("/api/spark-queries/{vhost}", list_of_vhost),
        Route("/api/spark-queries/{vhost}/{id}", show),
    ]
