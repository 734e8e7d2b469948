"""Dead letters of all virtual hosts, or of one, grouped by dead-letter queue, reason, source, error and task.

Only dead-letter queues on which the user has read permission are counted. The number of messages read is limited, per
queue and in total; the response reports for each queue how many were read, and whether these were all.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.dead_letter_groups import Tallies
from leveret.api.dead_letter_queues import Senders, dead_letter_queues
from leveret.broker.vhost import Vhost
from leveret.http.authorization import access_of, seen_vhost
from leveret.http.internal_requests import HOMES
from leveret.http.responses import encoded, json_bytes_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.values import integer_of
from leveret.queues.declared_queue import DeclaredQueue, home_of

Row = dict[str, Any]

MOST_IN_QUEUE = 10_000  # messages
MOST_IN_ALL = 100_000
ALL_VHOSTS = ""  # no virtual host has this name
SECONDS = 20.0


def routes(context: ApiContext) -> list[Route]:
    tallies = Tallies(context.broker.background)

    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await looked(request, visible_vhosts(request), ALL_VHOSTS)

    async def list_of_vhost(request: Request) -> Response:
        vhost = seen_vhost(request)
        return await looked(request, [vhost], vhost.name)

    async def looked(request: Request, vhosts: Iterable[Vhost], name: str) -> Response:
        answer = _Answer(context, request, tallies)
        async with context.looks.one(name):
            return await answer.about(vhosts)

    return [Route("/api/dead-letters", list_all), Route("/api/dead-letters/{vhost}", list_of_vhost)]


class _Answer:
    def __init__(self, context: ApiContext, request: Request, tallies: Tallies) -> None:
        self._context = context
        self._request = request
        self._tallies = tallies
        self._most = integer_of(request.query_params, "limit", 1, MOST_IN_QUEUE, default=MOST_IN_QUEUE)
        self._left = MOST_IN_ALL
        self._end = perf_counter() + SECONDS
        self._queues: list[Row] = []
        self._groups: list[Row] = []

    async def about(self, vhosts: Iterable[Vhost]) -> Response:
        homes = self._request.scope.get(HOMES)
        for vhost in vhosts:
            for name, sources in sorted((await dead_letter_queues(vhost)).items()):
                queue = vhost.queues.get(name)
                if queue is not None and (homes is None or home_of(queue) in homes):
                    await self._look_into(vhost, queue, sources)
        examined = sum([row["examined"] for row in self._queues])
        answer = {
            "groups": self._groups,
            "queues": self._queues,
            "examined": examined,
            "looked_at": examined,  # its name up to 0.2
            "is_complete": all(row["is_complete"] for row in self._queues),
        }
        return json_bytes_response(await self._context.in_worker(lambda: encoded(answer)))

    async def _look_into(self, vhost: Vhost, queue: DeclaredQueue, sources: Senders) -> None:
        row: Row = {
            "vhost": vhost.name,
            "name": queue.name,
            "messages": queue.ready + queue.unacked,
            "consumers": len(queue.consumers),
            "sources": sources.names,
            "source_count": sources.count,
            "may_read": self._may_read(vhost, queue),
            "examined": 0,
            "looked_at": 0,
            "others": 0,
            "is_complete": not queue.ready,
        }
        self._queues.append(row)
        if not (
            queue.ready and queue.home is None and row["may_read"] and self._left > 0 and perf_counter() < self._end
        ):
            return
        tally = await self._tallies.of(queue, min(self._most, self._left))
        self._left -= tally.examined
        row |= {"examined": tally.examined, "looked_at": tally.examined}
        row |= {"others": tally.groups.others, "is_complete": tally.is_complete}
        self._groups += [{"vhost": vhost.name, "queue": queue.name, **group} for group in tally.groups.rows()]

    def _may_read(self, vhost: Vhost, queue: DeclaredQueue) -> bool:
        return access_of(self._request, vhost).has("read", queue.name)
