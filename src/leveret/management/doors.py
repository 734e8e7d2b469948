"""The door of every endpoint: who asks, for which virtual host, with which permission, and what the request says.

Nothing here decides anything of its own: the rules are those of the broker's users and permissions, and every refusal
is an error that names the object, the cause and the remedy.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Literal
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.errors import StoreError
from leveret.management.errors import BadRequest, Blocked, NotThere, Refused, TooLarge
from leveret.management.login import broker_of, user_of

Kind = Literal["configure", "write", "read"]

SILENCE = 60.0  # seconds that a client may take for its next bytes
LARGEST = (1 << 63) - 1
LOST = "not known to be stored: the disk failed, or the broker stopped; start it again and look"


# ---- who asks


def vhost_of(request: Request) -> Vhost:
    """The virtual host of the path, if the user may enter it."""
    name = unquote(request.path_params["vhost"])
    broker, user = broker_of(request), user_of(request)
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise NotThere(f"vhost '{name}' not found: name an existing one, percent-encoded, in the path")
    if not broker.permissions.may_enter(user.name, name):
        raise Refused(f"access to vhost '{name}' refused for user '{user.name}': give it permissions there")
    return vhost


def may(request: Request, kind: Kind, resource: str) -> bool:
    vhost = unquote(request.path_params["vhost"])
    return broker_of(request).permissions.check(user_of(request).name, vhost, kind, resource)


def refuse_unless(request: Request, kind: Kind, resource: str) -> None:
    """Writing is to exchanges here, all else is about queues."""
    if not may(request, kind, resource):
        what = "exchange" if kind == "write" else "queue"
        vhost = unquote(request.path_params["vhost"])
        raise Refused(
            f"{kind} access to {what} '{resource or 'amq.default'}' in vhost '{vhost}' refused for user "
            f"'{user_of(request).name}'"
        )


def refuse_while_blocked(broker: Broker) -> None:
    """Publishers wait while there is an alarm."""
    if broker.alarms:
        raise Blocked(f"publishers are blocked: {', '.join(broker.alarms.values())}; try again when the alarm is over")


# ---- what the request says


async def parts_of(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes. A client that falls silent in the middle is given up."""
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                part = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ClientDisconnect from None
        if part:
            yield part


async def json_of(request: Request, most_bytes: int = 1 << 20) -> dict[str, object]:
    """The JSON object in the body."""
    body = bytearray()
    async for part in parts_of(request):
        body += part
        if len(body) > most_bytes:
            raise TooLarge(f"the body of {request.url.path} is larger than {most_bytes} bytes: send less at once")
    try:
        value = json.loads(bytes(body))
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"the body of {request.url.path} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body of {request.url.path} must be a JSON object, not a {type(value).__name__}")
    return value


def text_of(given: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or not is_sound(value):
        raise BadRequest(f"'{name}' must be text: it is {_shown(value)}")
    return value


def is_sound(text: str) -> bool:
    """No zero byte, and no half of a character, which could not be stored and told again."""
    return "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def whole_number_of(
    given: Mapping[str, object], name: str, smallest: int = 0, largest: int = LARGEST, default: int | None = None
) -> int:
    """From JSON a number, from a query its digits."""
    value = given.get(name, default)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 21:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
        raise BadRequest(f"'{name}' must be a whole number from {smallest} to {largest}: it is {_shown(value)}")
    return value


def truth_of(given: Mapping[str, object], name: str, default: bool = False) -> bool:
    value = given.get(name, default)
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value, value)
    if not isinstance(value, bool):
        raise BadRequest(f"'{name}' must be true or false: it is {_shown(value)}")
    return value


def query_of(request: Request, name: str, default: str | None = None) -> str:
    """One parameter of the query; without a default it must be there."""
    value = request.query_params.get(name, default)
    if value is None:
        raise BadRequest(f"'{name}' is missing in the query of {request.url.path}")
    return text_of({name: value}, name)


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


async def settled(broker: Broker) -> None:
    """Until all that was changed so far is on disk."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(problem: StoreError | None) -> None:
        if answer.done():
            return  # the client has gone
        if problem is None:
            answer.set_result(None)
        else:
            answer.set_exception(problem)

    broker.when_granted(lambda: settle(None), lost=lambda: settle(StoreError(LOST)))
    await answer
