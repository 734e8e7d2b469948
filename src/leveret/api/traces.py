"""Message traces of virtual hosts with tracing: list, read, delete.

Traces contain messages of all users: reading them needs the tag monitoring, deleting them administrator. Tracing is
enabled and disabled with the other properties of a virtual host (api/vhosts.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.api.views.message import plain
from leveret.broker.message_traces import MOST_BYTES, MOST_TRACES, MessageTrace, MessageTraces
from leveret.broker.tracing import place_name
from leveret.broker.vhost import Vhost
from leveret.http.authorization import known_vhost, name_of
from leveret.http.errors import ObjectNotFound
from leveret.http.listings import viewed
from leveret.http.responses import json_response, no_content
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, MONITORING, has_role, refuse_unless_role
from leveret.http.rows import Row, made_rows
from leveret.http.values import query_parameter

BOOK_ROWS = made_rows(
    *("vhost", "name", "traces", "bytes", "discarded", "max_traces", "max_bytes"),
    *("stories", "forgotten", "most_stories", "most_bytes"),
)
TRACE_ROWS = made_rows(
    *("id", "name", "vhost", "message_id", "exchange", "routing_key", "size", "queues", "positions", "began", "last"),
    *("last_time", "number_of_events", "waits_in"),
)


class Wanted(NamedTuple):
    """Filters of a list; empty strings match everything."""

    queue: str
    exchange: str
    text: str  # in lower case


def routes(context: ApiContext) -> list[Route]:
    traces = Traces(context)
    return [
        Route("/api/traces", traces.vhosts),
        *routes_of("/api/traces/{vhost}", GET=traces.all, DELETE=traces.forget_all),
        *routes_of("/api/traces/{vhost}/{id}", GET=traces.show, DELETE=traces.forget),
    ]


class Traces(Endpoints):
    async def vhosts(self, request: Request) -> Response:
        """The virtual hosts with tracing and the size of their traces; empty for users without monitoring."""
        user = refuse_unless_role(request, MANAGEMENT)
        shown = self._broker.vhosts if has_role(user, MONITORING) else {}
        rows = [book_row(vhost, vhost.tracer.book) for _, vhost in sorted(shown.items()) if vhost.tracer is not None]
        return await self._listed(request, rows, BOOK_ROWS)

    async def all(self, request: Request) -> Response:
        """Message traces, newest first; empty without tracing."""
        vhost = self._vhost(request, MONITORING)
        wanted = Wanted(query_parameter(request, "queue", ""), query_parameter(request, "exchange", ""), _text(request))
        book = book_of(vhost)
        rows = await viewed(() if book is None else book.newest_first(), partial(_wanted_row, vhost, wanted))
        return await self._listed(request, rows, TRACE_ROWS)

    async def show(self, request: Request) -> Response:
        vhost = self._vhost(request, MONITORING)
        return json_response(trace_row(vhost, _trace(vhost, name_of(request, "id"))))

    async def forget_all(self, request: Request) -> Response:
        book = book_of(self._vhost(request, ADMINISTRATOR))
        if book is not None:
            book.forget_all()
        return no_content()

    async def forget(self, request: Request) -> Response:
        vhost = self._vhost(request, ADMINISTRATOR)
        trace, book = _trace(vhost, name_of(request, "id")), book_of(vhost)
        assert book is not None
        book.forget(trace)
        return no_content()

    def _vhost(self, request: Request, role: str) -> Vhost:
        refuse_unless_role(request, role)
        return known_vhost(self._broker, name_of(request, "vhost"))


def book_of(vhost: Vhost) -> MessageTraces | None:
    tracer = vhost.tracer
    return None if tracer is None else tracer.book


def book_row(vhost: Vhost, book: MessageTraces) -> Row:
    return {
        "vhost": vhost.name,
        "name": vhost.name,
        "traces": len(book),
        "bytes": book.bytes,
        "discarded": book.discarded,
        "max_traces": MOST_TRACES,
        "max_bytes": MOST_BYTES,
        "stories": len(book),  # the names of these four up to 0.2
        "forgotten": book.discarded,
        "most_stories": MOST_TRACES,
        "most_bytes": MOST_BYTES,
    }


def summary_row(vhost: Vhost, trace: MessageTrace) -> Row:
    first, last = trace.events[0], trace.events[-1]
    positions = [{"queue": queue, "id": place_name(where)} for where, queue in trace.places.items()]
    return {
        "id": trace.id,
        "name": trace.facts["message_id"] or trace.id,
        "vhost": vhost.name,
        "message_id": trace.facts["message_id"],
        "exchange": trace.facts["exchange"],
        "routing_key": trace.facts["routing_key"],
        "size": trace.facts["size"],
        "queues": list(trace.queues),
        "positions": positions,
        "began": first.time,
        "last": last.what,
        "last_time": last.time,
        "number_of_events": len(trace.events) + trace.left_out,
        "waits_in": positions,  # the name of "positions" up to 0.2
    }


def trace_row(vhost: Vhost, trace: MessageTrace) -> Row:
    return {
        **summary_row(vhost, trace),
        "properties": plain(trace.facts["properties"]),
        "headers_cut": trace.facts["headers_cut"],
        "events_left_out": trace.left_out,
        "events": [{"time": time, "what": what, **_plain_facts(facts)} for time, what, facts in trace.events],
    }


def _plain_facts(facts: Mapping[str, Any]) -> Row:
    return {name: plain(value) for name, value in facts.items()}


def _wanted_row(vhost: Vhost, wanted: Wanted, trace: MessageTrace) -> Row | None:
    if wanted.queue and wanted.queue not in trace.queues:
        return None
    if wanted.exchange and wanted.exchange != trace.facts["exchange"]:
        return None
    if not trace.events:
        return None
    row = summary_row(vhost, trace)
    if wanted.text and wanted.text not in _all_text(row, trace):
        return None
    return row


def _all_text(row: Row, trace: MessageTrace) -> str:
    texts = [row["id"], row["message_id"], row["exchange"], row["routing_key"], row["last"], *row["queues"]]
    texts.append(json.dumps(plain(trace.facts["properties"]), ensure_ascii=False, default=str))
    return "\n".join([part for part in texts if part]).lower()


def _text(request: Request) -> str:
    return query_parameter(request, "text", "").lower()


def _trace(vhost: Vhost, name: str) -> MessageTrace:
    book = book_of(vhost)
    if book is None:
        raise ObjectNotFound(
            f"vhost '{vhost.name}' has no tracing, so message '{name}' has no trace: enable tracing with PUT "
            f'/api/vhosts/NAME {{"tracing": true}}'
        )
    trace = book.find(name)
    if trace is None:
        raise ObjectNotFound(
            f"no trace of message '{name}' in vhost '{vhost.name}': it is too old, or its trace was discarded"
        )
    return trace
