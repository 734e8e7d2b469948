"""Basic authentication against the broker's users, by the same rules and threads as a login over AMQP.

A wrong login is answered late (server/logins.py), and so is a right one of a user who may only come from this machine
and does not. The names of users are logged, their passwords never.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.auth.loopback import is_loopback
from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.logs import get_log

if TYPE_CHECKING:
    from starlette.requests import Request

Login = Callable[[Credentials, Callable[[User | None], None]], None]

USER, BROKER = "leveret.user", "leveret.broker"  # keys of a request's scope

log = get_log("http")


def credentials_of(header: str) -> Credentials | None:
    """The name and the password in an ``Authorization`` header; None if it has no such thing."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(name, password) if colon else None


async def logged_in(login: Login, credentials: Credentials, peer: str, loopback_users: frozenset[str]) -> User | None:
    """The user, when the password is right and the peer may use the name."""
    if credentials.name in loopback_users and not is_loopback(peer):
        # Verified as nobody: the peer learns nothing of the password, neither by the answer nor by its time.
        log.warning("user may only come from localhost", user=credentials.name, peer=peer)
        credentials = Credentials("", credentials.password)
    answer: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()

    def done(user: User | None) -> None:
        if not answer.done():  # the client may have gone away meanwhile
            answer.set_result(user)

    login(credentials, done)
    return await answer


def user_of(request: Request) -> User:
    user: User = request.scope[USER]
    return user


def broker_of(request: Request) -> Broker:
    broker: Broker = request.scope[BROKER]
    return broker
