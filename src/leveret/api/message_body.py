"""The whole body of one message in a queue, as it was published: for downloads, without consuming the message."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints
from leveret.api.job_completion import JobCompletion
from leveret.api.message_ids import place_of
from leveret.backlog.lane import Waiting
from leveret.broker.background import BackgroundTasks
from leveret.broker.queue_jobs import Browse, Scope
from leveret.http.amqp_values import as_bad_request, path_name, shown_queue
from leveret.http.authorization import caller_of, entered_vhost, name_of
from leveret.http.errors import ObjectNotFound
from leveret.http.responses import download
from leveret.queues.declared_queue import DeclaredQueue
from leveret.wire.content import body_of

MOST_EXAMINED = 20_000  # requeued messages are visited before the one with this place
SECONDS = 30.0
END = 1 << 62  # behind every sequence


def routes(context: ApiContext) -> list[Route]:
    return [Route("/api/queues/{vhost}/{name}/messages/{id}/body", _MessageBody(context).download)]


class _MessageBody(Endpoints):
    async def download(self, request: Request) -> Response:
        vhost, name, id_ = entered_vhost(request), path_name(request), name_of(request, "id")
        caller = caller_of(request, vhost)
        caller.access.check("browse", name)
        queue = shown_queue(vhost, name)
        with as_bad_request():
            caller.queue_to("browse", name)
        place = place_of(queue, id_, "id")
        async with self._context.looks.one(vhost.name):
            look = _OneMessage(queue, self._broker.background, place)
            await look.until_over()
            if not look.found:
                raise ObjectNotFound(
                    f"message '{id_}' is not ready in queue '{name}': it was delivered, expired or deleted; browse the "
                    "queue again"
                )
            content = look.found[0].message[0]
            return download(await self._context.in_worker(lambda: body_of(content)))


class _OneMessage(Browse):
    """Finds the message at one place."""

    def __init__(self, queue: DeclaredQueue, background: BackgroundTasks, place: tuple[int, int]) -> None:
        self._completion = JobCompletion()
        lane, sequence = place
        others = [] if queue.backlog is None else [each.number for each in queue.backlog.lanes if each.number != lane]
        after = {lane: sequence - 1, **dict.fromkeys(others, END)}
        super().__init__(
            queue,
            background,
            Scope(limit=1, on_done=self._completion.notify, places=frozenset((place,)), after=after),
        )

    async def until_over(self) -> None:
        await self._completion.run(self, SECONDS)

    def _meet(self, lane: int, waiting: Waiting) -> bool:
        if self.examined >= MOST_EXAMINED:
            self.cancel()
            return False
        return super()._meet(lane, waiting)
