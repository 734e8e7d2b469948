"""Leases over HTTP: messages of a classic queue for readers that may ask again."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.broker.leases import Lease, Standing
from leveret.http.authorization import access_of, vhost_of
from leveret.http.bodies import read_json
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.responses import json_response
from leveret.http.values import integer_of, query_parameter, text_of
from leveret.pipeline.arrow_batches import arrow_response
from leveret.pipeline.arrow_schema import chosen_columns
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.lease_messages import jobs_of_lease, slice_of
from leveret.pipeline.leases import Leases
from leveret.queues.declared_queue import DeclaredQueue

LONGEST_CONSUMER = 255  # characters
MOST_MESSAGES = 10_000_000  # of one lease
MOST_BYTES = 1 << 40
MOST_SLICES = 1_000_000
LARGEST_PARTITION = (1 << 31) - 1


class LeasesEndpoints:
    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._book = context.broker.leases
        self._leases = Leases(context)

    async def take(self, request: Request) -> Response:
        given = await read_json(request)
        queue, consumer = _queue_of(request, text_of(given, "queue")), _consumer_of(text_of(given, "consumer"))
        after = integer_of(given, "after", default=0)
        most = integer_of(given, "max_messages", 1, MOST_MESSAGES)
        most_bytes = integer_of(given, "max_bytes", 1, MOST_BYTES, default=MOST_BYTES)
        lease = await self._leases.take(queue, consumer, after, most, most_bytes)
        if lease is None:
            return json_response({"lease": after, "messages": 0, "bytes": 0})
        return json_response({"lease": lease.number, "messages": lease.messages, "bytes": lease.bytes})

    async def show(self, request: Request) -> Response:
        vhost = vhost_of(request)
        access = access_of(request, vhost)
        queue, consumer = query_parameter(request, "queue", ""), query_parameter(request, "consumer", "")
        if queue:
            _queue_of(request, queue)

        def is_shown(each: Lease | Standing) -> bool:
            if queue not in ("", each.queue.name) or consumer not in ("", each.consumer):
                return False
            return access.has("read", each.queue.name)

        return json_response(
            {
                "leases": [_lease_view(each) for each in self._book.leases(vhost.name) if is_shown(each)],
                "consumers": [_standing_view(each) for each in self._book.standings(vhost.name) if is_shown(each)],
            }
        )

    async def messages(self, request: Request) -> Response:
        queue, consumer = (
            _queue_of(request, query_parameter(request, "queue")),
            _consumer_of(query_parameter(request, "consumer")),
        )
        given = request.query_params
        number = integer_of(given, "lease", 1)
        of = integer_of(given, "of", 1, MOST_SLICES, default=1)
        index = integer_of(given, "slice", 0, of - 1, default=0)
        partition = integer_of(given, "partition", 0, LARGEST_PARTITION, default=0)
        columns = chosen_columns(given.get("columns"))
        lease = self._book.find(queue, consumer, number)
        if lease is None:
            raise ObjectNotFound(
                f"no lease {number} of consumer '{consumer}' on queue '{queue.name}' in vhost '{queue.vhost}': it was "
                "never given, or is committed or released; take one first"
            )
        runs = slice_of(lease.runs, lease.messages, index, of)
        return await arrow_response(self._context, jobs_of_lease(lease, runs, partition, columns), columns)

    async def commit(self, request: Request) -> Response:
        given = await read_json(request)
        queue, consumer = _queue_of(request, text_of(given, "queue")), _consumer_of(text_of(given, "consumer"))
        committed = await self._leases.commit(queue, consumer, integer_of(given, "through"))
        return json_response({"committed": committed.number, "messages": committed.messages})

    async def release(self, request: Request) -> Response:
        queue, consumer = (
            _queue_of(request, query_parameter(request, "queue")),
            _consumer_of(query_parameter(request, "consumer")),
        )
        given = request.query_params
        number = integer_of(given, "lease", 1) if "lease" in given else None
        return json_response({"released": await self._leases.release(queue, consumer, number)})


def _queue_of(request: Request, name: str) -> DeclaredQueue:
    vhost = vhost_of(request)
    access_of(request, vhost).check("consume", name)
    return vhost.queue(name)


def _consumer_of(name: str) -> str:
    if not 0 < len(name) <= LONGEST_CONSUMER:
        raise BadRequest(f"'consumer' must have 1 to {LONGEST_CONSUMER} characters: it has {len(name)}")
    return name


def _lease_view(lease: Lease) -> dict[str, object]:
    return {
        "consumer": lease.consumer,
        "queue": lease.queue.name,
        "lease": lease.number,
        "messages": lease.messages,
        "bytes": lease.bytes,
        "since": lease.since,
    }


def _standing_view(standing: Standing) -> dict[str, object]:
    return {"consumer": standing.consumer, "queue": standing.queue.name, "committed": standing.committed}


def routes(context: PipelineContext) -> list[Route]:
    leases, path = LeasesEndpoints(context), "/api/pipeline/{vhost}/leases"
    return [
        Route(path, leases.take, methods=["POST"]),
        Route(path, leases.show, methods=["GET"]),
        Route(path, leases.release, methods=["DELETE"]),
        Route(f"{path}/messages", leases.messages, methods=["GET"]),
        Route(f"{path}/commit", leases.commit, methods=["POST"]),
    ]
