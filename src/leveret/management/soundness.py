"""Names in paths and JSON in bodies, as far as the broker can keep them.

JSON can say more than can be stored and told again: half characters, texts with a zero byte, tables nested without
end. All of that is refused at the door, with the name of what was wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.management.doors import is_sound, parts_of
from leveret.management.errors import BadRequest, NotThere, Refused, TooLarge
from leveret.management.login import broker_of, user_of
from leveret.management.roles import ADMINISTRATOR, MANAGEMENT, POLICYMAKER, has_role, may_see, refuse_unless_role

Json = dict[str, Any]

LONGEST_NAME = 255  # bytes
LARGEST_BODY = 1 << 20
DEEPEST = 32  # tables and lists within each other


# ---- names


def name_of(request: Request, key: str) -> str:
    """A part of the path."""
    name = unquote(request.path_params[key])
    refuse_bad_name(name, key)
    return name


def refuse_bad_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not is_sound(name) or not 1 <= len(name.encode()) <= LONGEST_NAME:
        raise BadRequest(f"'{what}' must be a text of 1 to {LONGEST_NAME} bytes: it is {shown(name)}")


def shown(value: object) -> str:
    """In an error; short, and as JSON."""
    text = json.dumps(value, default=str)
    return "missing" if value is None else text if len(text) <= 80 else f"{text[:77]}..."


# ---- virtual hosts and who may do what there


def vhost_seen(request: Request) -> Vhost:
    """The virtual host of the path, if what is in it may be shown to the user."""
    refuse_unless_role(request, MANAGEMENT)
    vhost = known_vhost(broker_of(request), name_of(request, "vhost"))
    if not may_see(request, vhost.name):
        raise Refused(
            f"access to vhost '{vhost.name}' refused for user '{user_of(request).name}': give it permissions there"
        )
    return vhost


def vhost_to_change(request: Request, role: str) -> Vhost:
    """The virtual host of the path, for a change that takes ``role``. Administrators need no permissions there."""
    user = refuse_unless_role(request, role)
    vhost = known_vhost(broker_of(request), name_of(request, "vhost"))
    if not has_role(user, ADMINISTRATOR) and not broker_of(request).permissions.may_enter(user.name, vhost.name):
        raise Refused(f"access to vhost '{vhost.name}' refused for user '{user.name}': give it permissions there")
    return vhost


def role_to_change(component: str) -> str:
    """Limits, also those by operator policies, are set by those who run the broker; the rest by policymakers."""
    return POLICYMAKER if component == "policy" else ADMINISTRATOR


def known_vhost(broker: Broker, name: str) -> Vhost:
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise NotThere(f"vhost '{name}' not found: name an existing one, percent-encoded, in the path")
    return vhost


# ---- bodies


async def body_of(request: Request, most_bytes: int = LARGEST_BODY) -> bytes:
    body = bytearray()
    async for part in parts_of(request):
        body += part
        if len(body) > most_bytes:
            raise TooLarge(f"the body of {request.url.path} is larger than {most_bytes} bytes: send less at once")
    return bytes(body)


async def object_of(request: Request, *, required: Iterable[str] = (), may_be_empty: bool = False) -> Json:
    """The JSON object in the body; with ``may_be_empty`` no body is an empty one. Null is the same as not there."""
    body = await body_of(request)
    given = {} if may_be_empty and not body.strip() else parsed(body, f"the body of {request.url.path}")
    given = {name: value for name, value in given.items() if value is not None}
    missing = [name for name in required if name not in given]
    if missing:
        raise BadRequest(f"the body of {request.url.path} lacks {', '.join(repr(name) for name in missing)}: add it")
    return given


def parsed(body: bytes, what: str) -> Json:
    """The JSON object, sound all through. Works on plain values: may run in a thread."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadRequest(f"{what} is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object, not a {type(value).__name__}")
    _refuse_unsound(value, what)
    return value


def _refuse_unsound(value: object, what: str) -> None:
    level: list[object] = [value]
    for _ in range(DEEPEST):
        inner: list[object] = []
        for each in level:
            if isinstance(each, str) and not is_sound(each):
                raise BadRequest(f"{what} has a text with a zero byte or half a character: {shown(each)}")
            if isinstance(each, Mapping):
                inner += [*each.keys(), *each.values()]
            elif isinstance(each, list):
                inner += each
        level = inner
    if level:
        raise BadRequest(f"{what} is nested deeper than {DEEPEST} levels: make it flatter")
