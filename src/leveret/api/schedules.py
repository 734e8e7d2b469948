"""Scheduled messages: list, download a body, cancel.

Scheduled messages wait in an internal queue. Listing and downloading need read permission on its name, cancelling
configure.
"""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.message import payload_row
from leveret.broker.internal_queues import SCHEDULE
from leveret.broker.schedules import Page, Scheduled
from leveret.broker.vhost import Vhost
from leveret.http.authorization import access_of, entered_vhost
from leveret.http.awaited import awaited
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.responses import download, json_response, no_content
from leveret.http.rows import Row
from leveret.http.values import integer_of, query_parameter
from leveret.message import Message
from leveret.wire.content import body_of

MOST = 1_000  # messages in one response
MOST_GAPS = 20  # pages read at most to fill one page
LONGEST_PLACE = 40  # digits


def routes(context: ApiContext) -> list[Route]:
    async def list_scheduled(request: Request) -> Response:
        vhost = entered_vhost(request)
        access_of(request, vhost).check("list scheduled messages", SCHEDULE)
        limit = integer_of(request.query_params, "limit", 1, MOST, default=100)
        page = await _filled_page(vhost, limit, _after(request))
        following = None if page.next is None else str(page.next)  # too large for a JavaScript number
        rows = [_row(scheduled) for scheduled in page.messages]
        now = context.clock.wall()  # for countdowns: the clock of the client may be wrong
        return json_response({"messages": rows, "next": following, "count": vhost.schedules.count, "now": now})

    async def body(request: Request) -> Response:
        vhost, id_ = entered_vhost(request), unquote(request.path_params["id"])
        access_of(request, vhost).check("list scheduled messages", SCHEDULE)
        message: Message | None = await awaited(lambda done: vhost.schedules.read(id_, done))
        if message is None:
            raise _unknown(vhost, id_)
        return download(await context.in_worker(lambda: body_of(message[0])))

    async def cancel(request: Request) -> Response:
        vhost, id_ = entered_vhost(request), unquote(request.path_params["id"])
        access_of(request, vhost).check("cancel scheduled message", SCHEDULE)
        if not vhost.schedules.cancel(id_):
            raise _unknown(vhost, id_)
        await wait_until_durable(context.broker)
        return no_content()

    return [
        Route("/api/schedules/{vhost}", list_scheduled),
        Route("/api/schedules/{vhost}/{id}", cancel, methods=["DELETE"]),
        Route("/api/schedules/{vhost}/{id}/body", body),
    ]


def _unknown(vhost: Vhost, id_: str) -> ObjectNotFound:
    return ObjectNotFound(
        f"no scheduled message '{id_}' in vhost '{vhost.name}': it is published, cancelled or unknown"
    )


def _row(scheduled: Scheduled) -> Row:
    """``payload`` is the start of the body; it is left out for a large message."""
    row = scheduled._asdict()
    start = row.pop("start")
    shown = payload_row(start, as_base64=False, truncate=None)
    return row | {"payload": shown["payload"], "payload_encoding": shown["payload_encoding"]}


async def _filled_page(vhost: Vhost, limit: int, after: int | None) -> Page:
    """Cancelled messages may leave gaps, which are filled from the following pages."""
    page = await _page(vhost, limit, after)
    for _ in range(MOST_GAPS):
        missing = limit - len(page.messages)
        if not missing or page.next is None:
            break
        more = await _page(vhost, missing, page.next)
        page = Page([*page.messages, *more.messages], more.next)
    return page


async def _page(vhost: Vhost, limit: int, after: int | None) -> Page:
    """One page; messages may have to be read from disk."""
    return await awaited(lambda done: vhost.schedules.list(limit, after, done))


def _after(request: Request) -> int | None:
    text = query_parameter(request, "after", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_PLACE):
        raise BadRequest(f"'after' must be the 'next' value of a previous response, not '{text[:80]}'")
    return int(text)
