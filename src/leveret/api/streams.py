"""Streams, super streams and sharded queues: offsets, retention, partitions and the lag of each reader.

A super stream is one row, without rows for its partitions. If an exchange and a stream have the same name, the name
refers to the exchange here; the stream is listed among the queues.

The messages of a stream can be browsed from any offset on:

    /api/streams/{vhost}/{name}/messages?offset=1000&limit=50      or offset=first, offset=last
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, vhost_lists
from leveret.api.views.message import decoded_row, properties_row
from leveret.api.views.stream import STREAM_ROWS, Partitioned, StreamView, find_partitioned
from leveret.broker.publish_rules import readable_properties
from leveret.broker.vhost import Vhost
from leveret.errors import StoreError
from leveret.http.amqp_values import path_name
from leveret.http.authorization import access_of, entered_vhost, seen_vhost
from leveret.http.errors import BadRequest, Gone, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.responses import encoded, json_bytes_response
from leveret.http.rows import Row
from leveret.http.values import LARGEST, integer_of
from leveret.message import Address, Message
from leveret.pipeline.sources import all_visible
from leveret.queues.stream import StreamQueue
from leveret.stats.samples import NO_WINDOWS, Windows, windows_of
from leveret.store.stream_chunk import AddressKey, StreamRun
from leveret.store.stream_scan import StreamGone
from leveret.wire.content import body_of

ONE = "/api/streams/{vhost}/{name}"
MOST_SHOWN = 1_000  # messages
SHOWN_BYTES = 50_000  # bytes of each body, by default
MOST_BYTES = 16 << 20  # read for one response


def routes(context: ApiContext) -> list[Route]:
    api = _Streams(context)
    return [
        *vhost_lists(context, "/api/streams", STREAM_ROWS, api.rows),
        Route(ONE, api.show),
        Route(f"{ONE}/messages", api.browse),
    ]


class _Streams(Endpoints):
    async def rows(self, request: Request, vhosts: Sequence[Vhost]) -> list[Row]:
        """Without samples: they are returned only for a single stream."""
        return [row for vhost in vhosts for row in await self._view(vhost, NO_WINDOWS).rows()]

    def _view(self, vhost: Vhost, windows: Windows) -> StreamView:
        return StreamView(self._context.stats, self._broker.node_name, vhost, windows)

    async def show(self, request: Request) -> Response:
        vhost, name = seen_vhost(request), path_name(request)
        found, view = _found(vhost, name), self._view(vhost, windows_of(request.query_params))
        if isinstance(found, Partitioned):
            return object_response(request, await view.partitioned_detail(found))
        return object_response(request, await view.stream_detail(found))

    async def browse(self, request: Request) -> Response:
        vhost, name, query = entered_vhost(request), path_name(request), request.query_params
        limit = integer_of(query, "limit", 1, MOST_SHOWN, default=50)
        truncate = integer_of(query, "truncate", default=SHOWN_BYTES)
        access_of(request, vhost).check("browse", name)
        queue = _stream(vhost, name)
        if queue is None:
            raise ObjectNotFound(
                f"no stream '{name}' in vhost '{vhost.name}': name one stream, or one partition of a super stream"
            )
        await all_visible([queue])
        page = _Page(queue, _start(query.get("offset", "last"), queue, limit), limit, truncate)
        try:
            return json_bytes_response(await self._context.in_worker(page.encoded))
        except StreamGone:
            raise Gone(
                f"offset {page.start} of {page.title} was deleted by retention: browse from {queue.first_offset} on"
            ) from None
        except OSError as problem:
            raise StoreError(f"{page.title} cannot be read: {problem}; check the disk and retry") from None


def _found(vhost: Vhost, name: str) -> Partitioned | StreamQueue:
    found = find_partitioned(vhost, name) or _stream(vhost, name)
    if found is not None:
        return found
    cause = "queue" if name in vhost.queues else "exchange" if name in vhost.exchanges else ""
    told = f", only {'an' if cause == 'exchange' else 'a'} {cause} of that name" if cause else ""
    raise ObjectNotFound(
        f"no stream '{name}' in vhost '{vhost.name}'{told}: declare one with x-queue-type stream, or see /api/streams"
    )


def _stream(vhost: Vhost, name: str) -> StreamQueue | None:
    queue = vhost.queues.get(name)
    return None if queue is None else queue.stream


def _start(text: str, queue: StreamQueue, limit: int) -> int:
    """The first offset to return."""
    first, end = queue.first_offset, queue.next_offset
    if text == "first":
        return first
    if text == "last":
        return max(first, end - limit)
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= LARGEST):
        raise BadRequest(f"'offset' must be first, last or a whole number, not '{text[:80]}'")
    return max(first, int(text))


class _Page:
    """Messages of a stream, read and converted in a thread."""

    def __init__(self, queue: StreamQueue, start: int, limit: int, truncate: int) -> None:
        self.title = f"stream '{queue.name}' in vhost '{queue.vhost}'"
        self.start = start
        self._stop = min(start + limit, queue.next_offset)
        self._ends = {"first_offset": queue.first_offset, "next_offset": queue.next_offset}
        self._files = queue.files
        self._truncate = truncate

    def encoded(self) -> bytes:
        rows = [
            _message_row(run.first + place, run.time, message, self._truncate)
            for run in self._runs()
            for place, message in enumerate(run.messages)
        ]
        return encoded({"messages": rows, **self._ends})

    def _runs(self) -> Iterator[StreamRun]:
        known: dict[AddressKey, Address] = {}
        left = MOST_BYTES
        for chunk in self._files.chunks(self.start, self._stop) if self.start < self._stop else ():
            yield from chunk.within(chunk.first, chunk.through(left)).runs(known)
            left -= chunk.size
            if left <= 0:
                return


def _message_row(offset: int, time: int, message: Message, truncate: int) -> Row:
    content, address, _ = message
    return {
        "offset": offset,
        "arrived": time / 1_000_000,
        "exchange": address.exchange,
        "routing_key": address.key,
        "properties": properties_row(readable_properties(message)),
        **decoded_row(body_of(content), truncate),
    }
