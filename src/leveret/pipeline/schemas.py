"""The schemas that Spark decodes bodies with: by ID, as messages refer to them, or by name and version.

A cell that does not have a schema asks the first one: it may have been added a moment ago.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.broker.vhost import Vhost
from leveret.errors import NotFound
from leveret.http.authorization import vhost_of
from leveret.http.errors import BadRequest
from leveret.http.responses import json_response
from leveret.http.values import integer_of, query_parameter
from leveret.pipeline.context import PipelineContext
from leveret.schemas.schema import Schema


class SchemaEndpoint:
    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    async def show(self, request: Request) -> Response:
        vhost = vhost_of(request)
        try:
            schema = _found(request, vhost)
        except NotFound:
            answer = await self._context.answer_of_first(request)
            if answer is None:
                raise
            return answer
        row = {"id": schema.id, "type": schema.type, "schema": schema.text, "message": schema.message or None}
        return json_response(row)


def _found(request: Request, vhost: Vhost) -> Schema:
    query = request.query_params
    if ("id" in query) == ("name" in query):
        raise BadRequest("name one schema: with 'id', or with 'name' and optionally 'version'")
    if "id" in query:
        return vhost.schemas.by_id(query_parameter(request, "id"))
    number = integer_of(query, "version", 1) if "version" in query else None
    return vhost.schemas.version(query_parameter(request, "name"), number)[1]


def routes(context: PipelineContext) -> list[Route]:
    return [Route("/api/pipeline/{vhost}/schemas", SchemaEndpoint(context).show, methods=["GET"])]
