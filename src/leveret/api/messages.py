"""Messages: publish, get and browse them.

Get removes messages from the queue; those to be requeued are requeued before the response is sent. Browse changes
nothing, works on streams too, and is limited in the messages returned, the messages read for a filter, and bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.message_browser import Look, sieve_of
from leveret.api.message_ids import message_id, position_of, position_text
from leveret.api.publish_answers import until_answered
from leveret.api.published_message import body_from, properties_from, published_object
from leveret.api.views.message import BASE64, decoded_row, payload_row, properties_row
from leveret.broker.local import Delivered, LocalSession
from leveret.broker.publish_rules import readable_properties
from leveret.broker.queue_jobs import Seen
from leveret.http.amqp_values import (
    as_bad_request,
    exchange_name,
    path_name,
    short_text_of,
    shown_queue,
)
from leveret.http.authorization import access_of, caller_of, entered_vhost, refuse_while_blocked, refuse_while_paused
from leveret.http.bodies import LARGEST_BODY, read_body, read_json
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest
from leveret.http.responses import encoded, json_bytes_response, json_response
from leveret.http.time_slice import TimeSlice
from leveret.http.values import integer_of, text_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.wire.content import body_of

Row = dict[str, Any]

LARGEST_PUBLISH = 8 << 20  # bytes of JSON; larger messages must be published over AMQP
ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
MOST_GOT = 10_000  # messages
MOST_BYTES = 16 << 20  # bytes of bodies in one response; a single message may be larger
MOST_SHOWN = 1_000
SHOWN_BYTES = 50_000  # bytes of each body, by default


def routes(context: ApiContext) -> list[Route]:
    api = _Messages(context)
    return [
        Route("/api/exchanges/{vhost}/{name}/publish", api.publish, methods=["POST"]),
        Route("/api/queues/{vhost}/{name}/get", api.get, methods=["POST"]),
        Route("/api/queues/{vhost}/{name}/messages", api.browse),
    ]


class _Messages:
    def __init__(self, context: ApiContext) -> None:
        self._context = context

    async def publish(self, request: Request) -> Response:
        most = self._context.settings.max_message_size
        body = await read_body(request, most_bytes_of_publish(most))
        given = published_object(body, f"the body of {request.url.path}")
        vhost, exchange = entered_vhost(request), exchange_name(request)
        key, payload = short_text_of(given, "routing_key"), body_from(given)
        properties = properties_from(given)
        access = access_of(request, vhost)
        access.check("publish", exchange)
        refuse_while_blocked(self._context.broker)
        session = LocalSession(access, lambda tag, delivered: None, max_message_size=most)
        with as_bad_request():
            routed = session.publish(exchange, key, payload, properties)
        await wait_until_durable(self._context.broker)
        await until_answered(session.receipts)
        return json_response({"routed": routed and not session.receipts.unroutable})

    # ---- get

    async def get(self, request: Request) -> Response:
        given = await read_json(request)
        vhost, name = entered_vhost(request), path_name(request)
        count = integer_of(given, "count", 1, MOST_GOT)
        mode, as_base64 = _ack_mode(given), _encoding(given) == BASE64
        truncate = integer_of(given, "truncate") if "truncate" in given else None
        session = LocalSession(access_of(request, vhost), lambda tag, delivered: None)
        try:
            with as_bad_request():
                got = await self._take(session, session.caller.queue_to("get", name), count)
                _settle(session, mode)
        finally:
            session.close()  # requeues messages that are not settled
        await wait_until_durable(self._context.broker)

        def made() -> bytes:
            return encoded(
                [
                    _got_row(message, left) | payload_row(message.body, as_base64=as_base64, truncate=truncate)
                    for message, left in got
                ]
            )

        return json_bytes_response(await self._context.in_worker(made))

    async def _take(self, session: LocalSession, queue: DeclaredQueue, count: int) -> list[tuple[Delivered, int]]:
        """The messages, each with the number of ready messages left in the queue."""
        got: list[tuple[Delivered, int]] = []
        size, time_slice = 0, TimeSlice()
        while len(got) < count and size < MOST_BYTES:
            await self._loaded(queue)
            message = session.get(queue.name)
            if message is None:
                break
            got.append((message, queue.ready))
            size += len(message.body)
            await time_slice.pause_if_over()
        return got

    async def _loaded(self, queue: DeclaredQueue) -> None:
        """Return when the first message, if there is one, is in memory."""
        while queue.alive:
            refuse_while_paused(self._context.broker)
            loaded = asyncio.Event()
            if not queue.when_loaded(loaded.set):
                return
            self._context.broker.wake()
            await loaded.wait()

    # ---- browse

    async def browse(self, request: Request) -> Response:
        vhost, name = entered_vhost(request), path_name(request)
        query = request.query_params
        limit = integer_of(query, "limit", 1, MOST_SHOWN, default=50)
        truncate = integer_of(query, "truncate", default=SHOWN_BYTES)
        caller = caller_of(request, vhost)
        caller.access.check("browse", name)
        queue = shown_queue(vhost, name)
        with as_bad_request():
            caller.queue_to("browse", name)
            sieve = sieve_of(query)
        after = position_of(queue, text_of(query, "after", ""), "after")
        async with self._context.looks.one(vhost.name):
            look = Look(queue, self._context.broker.background, sieve, limit, after)
            await look.until_over()

            def made() -> bytes:
                rows = [_seen_row(queue, seen) | decoded_row(body_of(seen.message[0]), truncate) for seen in look.found]
                return encoded(
                    {
                        "messages": rows,
                        "examined": look.examined,
                        "looked_at": look.examined,  # its name up to 0.2
                        "too_large": look.too_large,
                        "is_complete": look.is_complete,
                        "position": position_text(queue, look.position),
                    }
                )

            return json_bytes_response(await self._context.in_worker(made))


def most_bytes_of_publish(max_message_size: int) -> int:
    """The size of a request with the largest message in base64."""
    return min(LARGEST_PUBLISH, -(-max_message_size // 3) * 4 + LARGEST_BODY)


def _ack_mode(given: Mapping[str, object]) -> str:
    mode = text_of(given, "ackmode")
    if mode not in ACK_MODES:
        raise BadRequest(f"'ackmode' must be one of {', '.join(ACK_MODES)}, not '{mode}'")
    return mode


def _encoding(given: Mapping[str, object]) -> str:
    encoding = text_of(given, "encoding")
    if encoding not in ("auto", BASE64):
        raise BadRequest(f"'encoding' must be auto or {BASE64}, not '{encoding}'")
    return encoding


def _settle(session: LocalSession, mode: str) -> None:
    """With ack_requeue_true the messages are requeued when the session closes, as for a closed channel."""
    if mode == "ack_requeue_false":
        session.ack(0, multiple=True)
    elif mode.startswith("reject"):
        session.nack(0, multiple=True, requeue=mode == "reject_requeue_true")


def _got_row(message: Delivered, left: int) -> Row:
    return {
        "redelivered": message.redelivered,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "message_count": left,
        "properties": properties_row(message.properties),
    }


def _seen_row(queue: DeclaredQueue, seen: Seen) -> Row:
    address = seen.message[1]
    row: Row = {
        "id": message_id(queue, seen.lane, seen.sequence),
        "exchange": address.exchange,
        "routing_key": address.key,
        "redelivered": seen.tries > 0,
        "delivery_count": seen.tries,
        "properties": properties_row(readable_properties(seen.message)),
    }
    if queue.has_offsets:
        row["offset"] = seen.sequence - 1
    return row
