"""Publishes rows as they arrive: the sink of a query that accepts duplicates and does not wait for commits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.errors import AmqpError, LeveretError
from leveret.http.awaited import awaited
from leveret.http.durability import wait_until_durable
from leveret.http.errors import Conflict, Forbidden, HttpError, ObjectNotFound
from leveret.http.responses import json_response
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.inflow import Inflow
from leveret.pipeline.row_upload import RowUpload
from leveret.pipeline.unroutable import unroutable_view

MOST_UNRECEIVED = 10_000  # messages not yet received by queues that answer later
PROBLEMS: dict[int, type[HttpError]] = {403: Forbidden, 404: ObjectNotFound}


class PublishEndpoint:
    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._broker = context.broker

    async def publish(self, request: Request) -> Response:
        arrival = RowUpload(self._context, request)
        await arrival.refuse_unless_permitted()
        inflow = Inflow(arrival.vhost)
        try:
            async with aclosing(arrival.pieces(inflow.cost)) as pieces:
                async for run, look, size in pieces:
                    inflow.publish(run, look, has_traits=True, size=size)
                    self._refuse_if_refused(inflow)
                    if inflow.receipts.unreceived >= MOST_UNRECEIVED:
                        await self._answered(inflow)
            await self._answered(inflow)
        except (HttpError, AmqpError) as problem:
            await wait_until_durable(self._broker)
            raise with_counts(problem, inflow) from None
        await wait_until_durable(self._broker)
        return json_response({"messages": inflow.published, **view_of(inflow), **arrival.pace.view()})

    async def _answered(self, inflow: Inflow) -> None:
        """Wait for the queues that answer later."""

        def start(done: Callable[[LeveretError | None], None]) -> None:
            inflow.receipts.when_resolved(lambda: done(None))

        await awaited(start)
        self._refuse_if_refused(inflow)

    def _refuse_if_refused(self, inflow: Inflow) -> None:
        refused = inflow.refused + inflow.receipts.refused
        if inflow.receipts.is_unanswered:
            raise Conflict(f"{refused} messages were not confirmed, since the cell of a queue is away: retry later")
        if refused:
            raise Conflict(f"{refused} messages were rejected by a full queue: consume from it, or retry later")


def with_counts(problem: HttpError | AmqpError, inflow: Inflow) -> HttpError:
    """The same error, with the number of messages published before it."""
    if isinstance(problem, AmqpError):
        problem = PROBLEMS.get(problem.code, Conflict)(problem.text)
    taken = inflow.published - inflow.refused - inflow.receipts.refused
    problem.extra = {"messages": taken, **view_of(inflow)} | problem.extra
    return problem


def view_of(inflow: Inflow) -> dict[str, object]:
    return unroutable_view(inflow.unroutable, inflow.without_queue.keys)


def routes(context: PipelineContext) -> list[Route]:
    return [Route("/api/pipeline/{vhost}/messages", PublishEndpoint(context).publish, methods=["POST"])]
