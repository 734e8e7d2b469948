"""Every endpoint of the pipeline. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.pipeline import consumers, leases, publish_endpoint, queries, schemas, sources, stages_endpoints
from leveret.pipeline.cell_requests import IDENTITY, Misdirected
from leveret.pipeline.context import PipelineContext

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(context: PipelineContext) -> list[Route]:
    modules = (sources, schemas, consumers, queries, leases, stages_endpoints, publish_endpoint)
    found = [route for module in modules for route in module.routes(context)]
    return [
        Route(route.path, for_this_cell(context, route.endpoint), methods=list(route.methods or ())) for route in found
    ]


def for_this_cell(context: PipelineContext, endpoint: Endpoint) -> Endpoint:
    """Refuse requests that are meant for another cell, or for a cell of another cluster."""

    @wraps(endpoint)
    async def answer(request: Request) -> Response:
        if context.cells is not None:
            context.cells.refuse_misdirected(request.headers)
        elif IDENTITY in request.headers:
            raise Misdirected("the request is for a cell of a cluster, and this is a single broker: list it again")
        response = await endpoint(request)
        if context.cells is not None and IDENTITY in request.headers:
            response.headers[IDENTITY] = context.cells.identity
        return response

    return answer
