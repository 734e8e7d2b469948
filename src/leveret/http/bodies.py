"""What a request says: its body, and the values in it and in its query.

JSON, as Python reads it, can say more than can be stored and told again: half characters, texts with a zero byte,
numbers that are none, tables nested without end. All of that is refused here, with the name of what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from starlette.requests import Request

from leveret.http.errors import BadRequest, Refused, TooLarge, TooSlow
from leveret.http.login import rights_of, user_of

Json = dict[str, Any]

SILENCE = 60.0  # seconds that a client may take for its next bytes
GRACE = 30.0  # seconds for a body that is read as a whole, and as many more as it takes at SLOWEST
SLOWEST = 16 << 10  # bytes per second
LARGEST = (1 << 63) - 1
LARGEST_BODY = 1 << 20
MOST_VALUES = 10_000  # in a body that is decoded on the loop: some ten milliseconds at worst
DEEPEST = 32  # tables and lists within each other
DEEPEST_IN_EXPORT = DEEPEST + 4  # the file, a section and an object of it stand around what was declared


# ---- bodies


async def parts_of(request: Request) -> AsyncIterator[bytes]:
    """The body as it arrives. A client that sends nothing for a while is refused, and so is one whose user was deleted
    or lost a tag meanwhile. Permissions are for the caller to ask again."""
    rights = rights_of(request)
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                part = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            silent = f"the body of {request.url.path} did not go on for {SILENCE:g} s"
            raise TooSlow(f"{silent}: send it in one go") from None
        now = rights_of(request)
        if now is not None and rights is not None and now.tags != rights.tags:
            raise _changed("tags", request)
        if part:
            yield part


async def body_of(request: Request, most_bytes: int = LARGEST_BODY) -> bytes:
    """The whole body. What was asked of the user's rights before is still true after it."""
    body = bytearray()
    rights, clock = rights_of(request), asyncio.get_running_loop().time
    begun = clock()
    try:
        async with asyncio.timeout(GRACE) as limit:
            async for part in parts_of(request):
                body += part
                if len(body) > most_bytes:
                    raise TooLarge(f"the body of {request.url.path} is larger than {most_bytes} bytes: send less")
                limit.reschedule(begun + GRACE + len(body) / SLOWEST)
    except TimeoutError:
        late = f"the body of {request.url.path} was not complete after {clock() - begun:.0f} s"
        raise TooSlow(f"{late}: send it in one go, at {SLOWEST >> 10} KiB/s or more") from None
    if rights_of(request) != rights:
        raise _changed("permissions", request)
    return bytes(body)


def _changed(what: str, request: Request) -> Refused:
    return Refused(
        f"the {what} of user '{user_of(request).name}' changed while the body of {request.url.path} arrived: repeat "
        "the request if the user may still do this"
    )


async def json_of(request: Request, most_bytes: int = LARGEST_BODY) -> Json:
    """The JSON object in the body. Whoever takes a value out of it looks whether it is sound."""
    body, what = await body_of(request, most_bytes), f"the body of {request.url.path}"
    refuse_many_values(body, what)
    return json_object(body, what)


async def object_of(request: Request, *, required: Iterable[str] = (), may_be_empty: bool = False) -> Json:
    """The JSON object in the body; with ``may_be_empty`` no body is an empty one. Null is the same as not there."""
    body = await body_of(request)
    refuse_many_values(body, f"the body of {request.url.path}")
    given = {} if may_be_empty and not body.strip() else parsed(body, f"the body of {request.url.path}")
    given = {name: value for name, value in given.items() if value is not None}
    missing = [name for name in required if name not in given]
    if missing:
        raise BadRequest(f"the body of {request.url.path} lacks {', '.join(repr(name) for name in missing)}: add it")
    return given


def parsed(body: bytes, what: str) -> Json:
    """The JSON object, sound all through. Works on plain values: may run in a thread."""
    refuse_many_values(body, what)
    value = json_object(body, what)
    _refuse_unsound(value, what, DEEPEST, is_sound)
    return value


def parsed_export(body: bytes, what: str) -> Json:
    """Definitions, which lie in a file deeper than where they came from, and whose names AMQP let pass with zero bytes.
    Whoever takes a text out of it that is no name of AMQP's looks whether it is sound."""
    value = json_object(body, what)
    _refuse_unsound(value, what, DEEPEST_IN_EXPORT, has_whole_characters)
    return value


def has_many_values(body: bytes) -> bool:
    """Time and memory that JSON takes are those of its values, not of its bytes. Counts also commas and brackets in
    texts."""
    return body.count(b",") + body.count(b"[") + body.count(b"{") > MOST_VALUES


def refuse_many_values(body: bytes, what: str) -> None:
    if has_many_values(body):
        raise TooLarge(f"{what} has more than {MOST_VALUES} values: send less at once")


def json_object(body: bytes, what: str) -> Json:
    """Whoever takes a value out of it looks whether it is sound."""
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"{what} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object, not a {type(value).__name__}")
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _refuse_unsound(value: object, what: str, deepest: int, is_good: Callable[[str], bool]) -> None:
    level: list[object] = [value]
    for _ in range(deepest):
        inner: list[object] = []
        for each in level:
            if isinstance(each, str) and not is_good(each):
                raise BadRequest(f"{what} has a text with a zero byte or half a character: {shown(each)}")
            if isinstance(each, Mapping):
                inner += [*each.keys(), *each.values()]
            elif isinstance(each, list):
                inner += each
        level = inner
    if level:
        raise BadRequest(f"{what} is nested deeper than {deepest} levels: make it flatter")


# ---- values


def text_of(given: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or not is_sound(value):
        raise BadRequest(f"'{name}' must be text: it is {shown(value)}")
    return value


def is_sound(text: str) -> bool:
    """No zero byte, and no half of a character, which could not be stored and told again."""
    return "\x00" not in text and has_whole_characters(text)


def has_whole_characters(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_number_of(
    given: Mapping[str, object], name: str, smallest: int = 0, largest: int = LARGEST, default: int | None = None
) -> int:
    """From JSON a number, from a query its digits."""
    value = given.get(name, default)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 21:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
        raise BadRequest(f"'{name}' must be a whole number from {smallest} to {largest}: it is {shown(value)}")
    return value


def truth_of(given: Mapping[str, object], name: str, default: bool = False) -> bool:
    value = given.get(name, default)
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value, value)
    if not isinstance(value, bool):
        raise BadRequest(f"'{name}' must be true or false: it is {shown(value)}")
    return value


def query_of(request: Request, name: str, default: str | None = None) -> str:
    """One parameter of the query; without a default it must be there."""
    value = request.query_params.get(name, default)
    if value is None:
        raise BadRequest(f"'{name}' is missing in the query of {request.url.path}")
    return text_of({name: value}, name)


def shown(value: object) -> str:
    """In an error; short, and as JSON."""
    text = json.dumps(value, default=str)
    return "missing" if value is None else text if len(text) <= 80 else f"{text[:77]}..."
