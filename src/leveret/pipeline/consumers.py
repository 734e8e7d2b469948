"""Stored offsets of named stream readers: list, set and delete. The stored offset is the next one to read."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.http.authorization import access_of, vhost_of
from leveret.http.bodies import read_json
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.responses import json_response
from leveret.http.values import boolean_of, integer_of, query_parameter, text_of
from leveret.pipeline.context import PipelineContext
from leveret.queues.stream_options import PINNED, READER_NAME

LONGEST_NAME = 255


class ConsumersEndpoints:
    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    async def list(self, request: Request) -> Response:
        vhost = vhost_of(request)
        queue, access = request.query_params.get("queue"), access_of(request, vhost)
        if queue is not None:
            access.check("browse", queue)
            if (answer := await self._context.answer_of_home(request, vhost.queue(queue))) is not None:
                return answer
        found = [each for each in vhost.stream_offsets.list(queue) if access.has("read", each[1])]
        views = [
            {"consumer": consumer, "queue": name, "offset": offset, "pinned": pinned}
            for consumer, name, offset, pinned in found
        ]
        for other in [] if queue is not None else await self._context.answers_of_others(request, vhost):
            views += other["consumers"]
        return json_response({"consumers": views})

    async def put(self, request: Request) -> Response:
        vhost = vhost_of(request)
        given = await read_json(request)
        name, consumer = text_of(given, "queue"), text_of(given, "consumer")
        offset, pinned = integer_of(given, "offset"), boolean_of(given, "pinned")
        access_of(request, vhost).check("consume", name, arguments={READER_NAME: consumer, PINNED: pinned})
        if not consumer or len(consumer) > LONGEST_NAME:
            raise BadRequest(f"'consumer' must be a name of 1 to {LONGEST_NAME} characters")
        if (answer := await self._context.answer_of_home(request, vhost.queue(name), given)) is not None:
            return answer
        if not vhost.queue(name).has_offsets:
            raise BadRequest(
                f"queue '{name}' in vhost '{vhost.name}' is not a stream: only streams have consumer offsets"
            )
        vhost.stream_offsets.put(name, consumer, offset, pinned)
        await wait_until_durable(self._context.broker)
        return json_response({"consumer": consumer, "queue": name, "offset": offset, "pinned": pinned})

    async def drop(self, request: Request) -> Response:
        vhost = vhost_of(request)
        name, consumer = query_parameter(request, "queue"), query_parameter(request, "consumer")
        access_of(request, vhost).check("consume", name, arguments={READER_NAME: consumer})
        queue = vhost.queues.get(name)
        if queue is not None and (answer := await self._context.answer_of_home(request, queue)) is not None:
            return answer
        if vhost.stream_offsets.get(name, consumer) is None:
            raise ObjectNotFound(f"no stored offset of consumer '{consumer}' in stream '{name}', vhost '{vhost.name}'")
        vhost.stream_offsets.drop(name, consumer)
        await wait_until_durable(self._context.broker)
        return json_response({"consumer": consumer, "queue": name})


def routes(context: PipelineContext) -> list[Route]:
    endpoints = ConsumersEndpoints(context)
    at = "/api/pipeline/{vhost}/consumers"
    return [
        Route(at, endpoints.list, methods=["GET"]),
        Route(at, endpoints.put, methods=["PUT"]),
        Route(at, endpoints.drop, methods=["DELETE"]),
    ]
