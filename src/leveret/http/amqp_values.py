"""Names, tables and errors of AMQP in HTTP requests.

A refusal that closes an AMQP channel with 405 or 406 is a 400 with the same text here, as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote

from starlette.requests import Request

from leveret.broker.access import DEFAULT_EXCHANGE
from leveret.broker.vhost import Vhost
from leveret.errors import FrameError, PreconditionFailed, ResourceLocked
from leveret.http.bodies import read_json
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.values import text_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.routing.exchange import Exchange
from leveret.wire.constants import MAX_SHORT_STRING
from leveret.wire.fields import Table, decode_table, encode_short, encode_table

# ---- names and objects


def path_name(request: Request, part: str = "name") -> str:
    """A name in the path, which must fit into a short string of AMQP."""
    try:
        name = unquote(request.path_params[part], errors="strict")
        encode_short(name)
    except UnicodeDecodeError:
        raise BadRequest(f"the {part} in {request.url.path} is not UTF-8: percent-encode its bytes as such") from None
    except FrameError as problem:
        raise BadRequest(f"the {part} in {request.url.path} is not valid: {problem.text}") from None
    return name


def exchange_name(request: Request, part: str = "name") -> str:
    name = path_name(request, part)
    return "" if name == DEFAULT_EXCHANGE else name


def shown_queue(vhost: Vhost, name: str) -> DeclaredQueue:
    """The queue, also if it is exclusive to a connection."""
    queue = vhost.queues.get(name)
    if queue is None:
        raise ObjectNotFound(f"no queue '{name}' in vhost '{vhost.name}': declare it first, or see /api/queues")
    return queue


def shown_exchange(vhost: Vhost, name: str) -> Exchange:
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise ObjectNotFound(f"no exchange '{name}' in vhost '{vhost.name}': declare it first, or see /api/exchanges")
    return exchange


# ---- bodies


async def declared(request: Request) -> dict[str, object]:
    """The JSON object in the body of a PUT or POST; empty without a body."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return {}
    return await read_json(request)


def short_text_of(given: Mapping[str, object], name: str, default: str | None = None) -> str:
    """A name or a routing key, which must fit into a short string of AMQP."""
    text = text_of(given, name, default)
    if len(text.encode("utf-8", "replace")) > MAX_SHORT_STRING:
        raise BadRequest(f"'{name}' is longer than {MAX_SHORT_STRING} bytes: shorten it")
    try:
        encode_short(text)
    except FrameError as problem:
        raise BadRequest(f"'{name}' cannot be sent: {problem.text}") from None
    return text


def table_of(given: Mapping[str, object], name: str) -> Table:
    """A table with the types that it would have over AMQP. Some clients send an empty one as a list."""
    value = given.get(name, {})
    if value in ([], None):
        value = {}
    if not isinstance(value, dict):
        raise BadRequest(f"'{name}' must be an object with names and values: it is a {type(value).__name__}")
    try:
        data = encode_table(value)
    except FrameError as problem:
        raise BadRequest(f"'{name}' cannot be sent: {problem.text}") from None
    return decode_table(data, 0, len(data))[0]


# ---- errors


@contextmanager
def as_bad_request() -> Iterator[None]:
    """Turn the errors 405 and 406 of AMQP into 400."""
    try:
        yield
    except (PreconditionFailed, ResourceLocked) as refusal:
        raise BadRequest(refusal.text) from None
