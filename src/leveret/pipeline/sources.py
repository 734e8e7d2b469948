"""Endpoints that read queues: sources, offsets, and messages as Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.auth.permissions import compile_pattern
from leveret.broker.access import UserAccess
from leveret.broker.super_streams import all_partitions_of
from leveret.errors import AmqpError
from leveret.http.authorization import access_of, vhost_of
from leveret.http.awaited import future_with_callback
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.responses import json_response
from leveret.http.time_slice import TimeSlice
from leveret.http.values import LARGEST, integer_of, query_parameter, text_of
from leveret.logs import get_log
from leveret.pipeline.arrow_batches import Job, arrow_response, jobs_of
from leveret.pipeline.arrow_schema import columns_of, need_arrow
from leveret.pipeline.cell_requests import SCHEME
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.queue_browser import OffsetRange, rows_of
from leveret.pipeline.topics import TopicFilter
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.stream import StreamQueue

if TYPE_CHECKING:
    from leveret.pipeline.arrow_streams import Wanted

VISIBLE_WITHIN = 10.0  # seconds
SECONDS = 1.0  # time limit of a pattern, over all names
LARGEST_PARTITION = (1 << 31) - 1

log = get_log("pipeline")


class SourcesEndpoints:
    def __init__(self, context: PipelineContext) -> None:
        self._context = context

    async def sources(self, request: Request) -> Response:
        vhost = vhost_of(request)
        given = [name for name in ("queue", "super_stream", "pattern") if name in request.query_params]
        if len(given) != 1:
            raise BadRequest("exactly one of 'queue', 'super_stream' and 'pattern' is required")
        text, access = query_parameter(request, given[0]), access_of(request, vhost)
        if given[0] == "queue":
            queues = _named(access, request.query_params.getlist("queue"))
        elif given[0] == "super_stream":
            queues = _partitions(access, text)
        else:
            queues = await self._matching(access, text)
        for queue in queues:
            access.check("consume", queue.name)
        if not queues:
            raise ObjectNotFound(
                f"no queue in vhost '{vhost.name}' matches '{text}', or the user has no read permission on it"
            )
        located = {} if self._context.cells is None else self._context.cells.location(request)
        views = await self._views(request, "sources", queues, lambda queue: source_view(queue) | located)
        return json_response({"sources": [view | {"partition": place} for place, view in enumerate(views)]})

    async def _views(
        self,
        request: Request,
        resource: str,
        queues: Sequence[DeclaredQueue],
        view_of: Callable[[DeclaredQueue], dict[str, object]],
    ) -> list[dict[str, object]]:
        """The views of queues, each made by the cell where it lives. A queue can be named several times."""
        every = dict.fromkeys(queues)
        local = [queue for queue in every if queue.home is None]
        cells: dict[str, list[DeclaredQueue]] = {}
        for queue in every:
            if queue.home is not None:
                cells.setdefault(queue.home.cell_name, []).append(queue)
        asked = [self._remote_views(request, resource, cell, each) for cell, each in cells.items()]
        answers = await asyncio.gather(*asked)
        await all_visible(local)
        views = {str(view["queue"]): view for each in answers for view in each}
        views |= {queue.name: view_of(queue) for queue in local}
        return [views[queue.name] for queue in queues]

    async def _remote_views(
        self, request: Request, resource: str, cell: str, queues: Sequence[DeclaredQueue]
    ) -> list[dict[str, object]]:
        cells = self._context.cells
        assert cells is not None
        names = [("queue", queue.name) for queue in queues]
        moment = [("timestamp", value) for value in request.query_params.getlist("timestamp")]
        answer = await cells.ask(request, cell, [*names, *moment])
        found: list[dict[str, object]] = answer[resource]
        return found

    async def _matching(self, access: UserAccess, pattern: str) -> list[DeclaredQueue]:
        """Queues whose whole name matches, sorted. Queues that the user may not read are not matched: the response time
        would reveal them."""
        vhost = access.vhost
        compiled = compile_pattern(f"(?:{pattern})\\Z") if pattern else compile_pattern("")
        candidates: list[str] = []
        time_slice = TimeSlice()
        for name, queue in sorted(vhost.queues.items()):
            if queue.owner is None and access.has("read", name):
                candidates.append(name)
            await time_slice.pause_if_over()
        found = await self._context.in_worker(lambda: named(candidates, compiled, pattern))
        return [vhost.queues[name] for name in found if name in vhost.queues]

    async def offsets(self, request: Request) -> Response:
        vhost = vhost_of(request)
        names = request.query_params.getlist("queue")
        if not names:
            raise BadRequest("'queue' is missing: add one or more to the query")
        queues = _named(access_of(request, vhost), names)
        has_time = "timestamp" in request.query_params
        moment = integer_of(request.query_params, "timestamp", largest=LARGEST // 1000) * 1000 if has_time else 0
        views = await self._views(request, "offsets", queues, offsets_view)
        for queue, view in zip(queues, views, strict=True):
            if has_time and queue.home is None and "at" not in view:
                view["at"] = await self._at(queue, moment)
        return json_response({"offsets": views})

    async def _at(self, queue: DeclaredQueue, moment: int) -> int:
        stream = queue.stream
        if stream is None:
            raise BadRequest(f"queue '{queue.name}' is not a stream: only streams can be searched by time")
        files, first, stop = stream.files, stream.first_offset, stream.next_offset
        found = await self._context.in_worker(lambda: files.offset_at(moment))
        return max(first, min(found, stop))

    async def messages(self, request: Request) -> Response:
        vhost, given = vhost_of(request), request.query_params
        name = query_parameter(request, "queue")
        access_of(request, vhost).check("browse", name)
        queue = vhost.queue(name)
        if (answer := await self._context.answer_of_home(request, queue)) is not None:
            return answer
        log.debug("messages read", node=self._context.broker.node_name, queue=name, passed_on=SCHEME in request.headers)
        columns = columns_of(given)
        only = TopicFilter(given["routing_key"]) if "routing_key" in given else None
        partition = integer_of(given, "partition", largest=LARGEST_PARTITION, default=0)
        if given.get("missing", "fail") not in ("skip", "fail"):
            raise BadRequest("'missing' must be skip or fail: how to handle deleted messages of the range")
        await self._context.in_worker(need_arrow)
        stream, backlog = queue.stream, queue.backlog
        if backlog is not None:
            start, stop = integer_of(given, "from", default=0), integer_of(given, "to", default=LARGEST)
            rows = rows_of(backlog, OffsetRange(partition, start, stop, only))
            return await arrow_response(self._context, jobs_of(rows, columns), columns)
        assert stream is not None
        await all_visible([queue])
        wanted = wanted_of(request, stream, partition, columns, only)
        return await arrow_response(self._context, fetch_jobs(stream, wanted), columns)


def _named(access: UserAccess, names: Sequence[str]) -> list[DeclaredQueue]:
    for name in names:
        access.check("consume", text_of({"queue": name}, "queue"))
    return [access.vhost.queue(name) for name in names]


def _partitions(access: UserAccess, name: str) -> list[DeclaredQueue]:
    """Users without permissions on the exchange or a partition get the same response whether it exists or not."""
    try:
        found = all_partitions_of(access.vhost, name)
    except AmqpError:
        access.check("look at exchange", name)
        raise
    if not any(access.has_any(queue.name) for queue in found):
        access.check("look at exchange", name)
    return found


async def all_visible(queues: Sequence[DeclaredQueue]) -> None:
    """Wait until all confirmed messages are readable: the files of a stream are written shortly after the confirm."""
    waits: list[asyncio.Future[None]] = []
    for queue in queues:
        if (stream := queue.stream) is not None:
            visible: asyncio.Future[None]
            visible, done = future_with_callback()
            stream.when_visible(partial(done, None))
            waits.append(visible)
    if waits:
        await asyncio.wait(waits, timeout=VISIBLE_WITHIN)  # if the disk hangs, return what is readable


def routes(context: PipelineContext) -> list[Route]:
    endpoints = SourcesEndpoints(context)
    at = "/api/pipeline/{vhost}"
    return [
        Route(f"{at}/sources", endpoints.sources, methods=["GET"]),
        Route(f"{at}/offsets", endpoints.offsets, methods=["GET"]),
        Route(f"{at}/messages", endpoints.messages, methods=["GET"]),
    ]


# ---- queue names


def named(names: list[str], compiled: Any, pattern: str) -> list[str]:
    """The names that match, in their order, within the time limit of a pattern. Runs in a thread."""
    end = perf_counter() + SECONDS
    try:
        return [name for name in names if compiled.match(name, timeout=max(end - perf_counter(), 0.0))]
    except TimeoutError:
        raise BadRequest(
            f"pattern '{pattern[:80]}' takes longer than {SECONDS:g} s to match all queue names: use a simpler pattern"
        ) from None


# ---- views


def source_view(queue: DeclaredQueue) -> dict[str, object]:
    view = offsets_view(queue)
    return {
        "queue": queue.name,
        "kind": "stream" if queue.has_offsets else "classic",
        "partition": 0,
        "first": view["first"],
        "next": view["next"],
        "messages": queue.ready,
        "bytes": view["bytes"],
        "durable": queue.durable,
    }


def offsets_view(queue: DeclaredQueue) -> dict[str, object]:
    queue.settle_down()
    stream, backlog = queue.stream, queue.backlog
    first = stop = size = 0
    if stream is not None:
        first, stop, size = stream.first_offset, stream.next_offset, stream.files.bytes
    elif backlog is not None:
        firsts = [lane.returned[0][0] if lane.returned else lane.head for lane in backlog.lanes if len(lane)]
        stop = max(lane.tail for lane in backlog.lanes)
        first, size = min(firsts, default=stop), queue.bytes - queue.held
    return {"queue": queue.name, "first": first, "next": stop, "bytes": size}


# ---- messages of a stream


def wanted_of(
    request: Request, queue: StreamQueue, partition: int, columns: Sequence[str], only: TopicFilter | None
) -> Wanted:
    from leveret.pipeline.arrow_streams import Wanted, gone

    given = request.query_params
    first = queue.first_offset
    start = integer_of(given, "from", default=first)
    stop = min(integer_of(given, "to", default=LARGEST), queue.next_offset)
    skips = given.get("missing") == "skip"
    if start < first and not skips and stop > start:
        raise gone(queue.name, start, first)
    return Wanted(queue.name, partition, max(start, first), stop, columns, only, skips)


async def fetch_jobs(queue: StreamQueue, wanted: Wanted) -> AsyncGenerator[Job]:
    from leveret.pipeline.arrow_streams import StreamFetch

    fetch = StreamFetch(queue.files, wanted)
    fetch.is_over = wanted.start >= wanted.stop
    while not fetch.is_over:
        yield fetch.step
