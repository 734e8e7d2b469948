"""The unacknowledged messages of a queue: which connection holds which message, and since when.

The oldest come first. The time of a delivery is known from the samples of its channel (stats/stats.py): to within five
seconds, and for a channel that stays busy for longer than its samples reach back, it is at least that long ago.
Messages that are held by other cells, by leases and in the broker's own process are not listed;
``messages_unacknowledged`` counts all, ``held_by_clients`` and ``held_by_other_cells`` count theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints
from leveret.api.views.unacked import FoundDelivery, delivery_row
from leveret.http.amqp_values import path_name, shown_queue
from leveret.http.authorization import caller_of, entered_vhost
from leveret.http.responses import json_response
from leveret.http.time_slice import TimeSlice
from leveret.http.values import integer_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.stats.totals import open_sessions

MOST_SHOWN = 1_000
MOST_SPANS = 20_000  # spans of a channel that are read: each belongs to one consumer


def routes(context: ApiContext) -> list[Route]:
    return [Route("/api/queues/{vhost}/{name}/unacked", _Unacked(context).list_all)]


class _Unacked(Endpoints):
    async def list_all(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), path_name(request)
        limit = integer_of(request.query_params, "limit", 1, MOST_SHOWN, default=100)
        caller_of(request, vhost).access.check("browse", name)
        queue = shown_queue(vhost, name)
        found: list[FoundDelivery] = []
        held = {False: 0, True: 0}  # by clients, and by other cells
        time_slice = TimeSlice()
        for channel in [each for one in open_sessions(self._broker) for each in one.channels.values()]:
            number = channel.unacked.number_of(queue, MOST_SPANS) if channel.vhost is vhost else 0
            held[channel.is_link] += number
            if number and not channel.is_link:
                found += islice(self._held(queue, channel), limit)
            if len(found) > 10 * limit:
                found = nsmallest(limit, found, key=_age)
            await time_slice.pause_if_over()
        rows = [delivery_row(each, self._broker.clock.wall()) for each in nsmallest(limit, found, key=_age)]
        return json_response(
            {
                "messages": rows,
                "messages_unacknowledged": queue.unacked,
                "held_by_clients": held[False],
                "held_by_other_cells": held[True],
                "limit": limit,
            }
        )

    def _held(self, queue: DeclaredQueue, channel: Channel) -> Iterator[FoundDelivery]:
        for tag, portion in channel.unacked.held_of(queue, MOST_SPANS):
            yield FoundDelivery(tag, portion, channel, self._context.stats.delivered_before(channel, tag))


def _age(found: FoundDelivery) -> tuple[float, int]:
    return -found.seconds, found.tag
