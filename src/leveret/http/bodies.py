"""Request bodies, read with limits on time, size and nesting.

Python's JSON parser accepts values that cannot be stored and returned: lone surrogates, strings with a null character,
NaN and Infinity, unbounded nesting. They are refused here with an error that names them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request

from leveret.http.errors import BadRequest, ContentTooLarge, Forbidden, RequestTimeout
from leveret.http.login import rights_of, user_of
from leveret.http.values import excerpt, is_encodable, is_valid_text

Json = dict[str, Any]

IDLE_SECONDS = 60.0  # seconds between two parts of a body
GRACE = 30.0  # seconds for a whole body, plus the time it takes at SLOWEST
SLOWEST = 16 << 10  # bytes per second
LARGEST_BODY = 1 << 20
MOST_VALUES = 10_000  # in a body that is decoded on the event loop: about ten milliseconds at worst
DEEPEST = 32  # nested objects and lists
DEEPEST_IN_EXPORT = DEEPEST + 4  # the document, a section and an object around the arguments


async def body_chunks(request: Request) -> AsyncIterator[bytes]:
    """The body as it arrives. Fails if the client sends nothing for IDLE_SECONDS, or if its user is deleted or loses a
    tag meanwhile. The caller checks permissions again."""
    rights = rights_of(request)
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                part = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise RequestTimeout(
                f"no data of the body of {request.url.path} for {IDLE_SECONDS:g} s: send the body at once"
            ) from None
        now = rights_of(request)
        if now is not None and rights is not None and now.tags != rights.tags:
            raise _changed_rights("tags", request)
        if part:
            yield part


async def read_body(request: Request, most_bytes: int = LARGEST_BODY) -> bytes:
    """The whole body. Fails if the permissions or tags of the user changed meanwhile."""
    body = bytearray()
    rights, clock = rights_of(request), asyncio.get_running_loop().time
    begun = clock()
    try:
        async with asyncio.timeout(GRACE) as limit:
            async for part in body_chunks(request):
                body += part
                if len(body) > most_bytes:
                    raise ContentTooLarge(f"the body of {request.url.path} is larger than {most_bytes} bytes")
                limit.reschedule(begun + GRACE + len(body) / SLOWEST)
    except TimeoutError:
        raise RequestTimeout(
            f"the body of {request.url.path} was incomplete after {clock() - begun:.0f} s: send it at once, with at "
            f"least {SLOWEST >> 10} KiB/s"
        ) from None
    if rights_of(request) != rights:
        raise _changed_rights("permissions", request)
    return bytes(body)


def _changed_rights(what: str, request: Request) -> Forbidden:
    return Forbidden(
        f"the {what} of user '{user_of(request).name}' changed while the body of {request.url.path} was received: "
        "repeat the request if the user still has access"
    )


async def read_json(request: Request, most_bytes: int = LARGEST_BODY) -> Json:
    """The JSON object in the body. The caller checks each value that it uses (values.py)."""
    body, what = await read_body(request, most_bytes), f"the body of {request.url.path}"
    refuse_many_values(body, what)
    return decode_object(body, what)


async def read_object(request: Request, *, required: Iterable[str] = (), may_be_empty: bool = False) -> Json:
    """The JSON object in the body, without null values. With ``may_be_empty`` a missing body is an empty object."""
    body = await read_body(request)
    refuse_many_values(body, f"the body of {request.url.path}")
    given = {} if may_be_empty and not body.strip() else parse_object(body, f"the body of {request.url.path}")
    given = {name: value for name, value in given.items() if value is not None}
    missing = [name for name in required if name not in given]
    if missing:
        raise BadRequest(f"the body of {request.url.path} is missing {', '.join(repr(name) for name in missing)}")
    return given


def parse_object(body: bytes, what: str) -> Json:
    """The JSON object, with all values checked. May run in a thread."""
    refuse_many_values(body, what)
    value = decode_object(body, what)
    _refuse_invalid(value, what, DEEPEST, is_valid_text)
    return value


def parse_definitions(body: bytes, what: str) -> Json:
    """Exported definitions: nested more deeply than other bodies, and AMQP names may contain null characters. The
    caller checks all other strings (values.py)."""
    value = decode_object(body, what)
    _refuse_invalid(value, what, DEEPEST_IN_EXPORT, is_encodable)
    return value


def has_many_values(body: bytes) -> bool:
    """Decoding time and memory depend on the number of values, not of bytes. The estimate also counts commas and
    brackets inside strings."""
    return body.count(b",") + body.count(b"[") + body.count(b"{") > MOST_VALUES


def refuse_many_values(body: bytes, what: str) -> None:
    if has_many_values(body):
        raise ContentTooLarge(f"{what} has more than {MOST_VALUES} values: split it")


def decode_object(body: bytes, what: str) -> Json:
    """The caller checks each value that it uses (values.py)."""
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"{what} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object, not a {type(value).__name__}")
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _refuse_invalid(value: object, what: str, deepest: int, is_good: Callable[[str], bool]) -> None:
    level: list[object] = [value]
    for _ in range(deepest):
        inner: list[object] = []
        for each in level:
            if isinstance(each, str) and not is_good(each):
                raise BadRequest(f"{what} contains a string with a null character or a lone surrogate: {excerpt(each)}")
            if isinstance(each, Mapping):
                inner += [*each.keys(), *each.values()]
            elif isinstance(each, list):
                inner += each
        level = inner
    if level:
        raise BadRequest(f"{what} is nested deeper than {deepest} levels")
