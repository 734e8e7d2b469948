"""Basic authentication against the broker's users, by the same rules and threads as a login over AMQP.

A wrong login is answered late once its source has failed repeatedly (server/logins.py), and so is a right one of a user
who may only come from this machine and does not. The names of users are logged, their passwords never.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from leveret.auth.loopback import http_peer, is_loopback
from leveret.auth.mechanisms import Credentials
from leveret.auth.permissions import Permission
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.server.admission import ADMITTED, Admitted
from leveret.server.logins import LoginPeer, is_gone

if TYPE_CHECKING:
    from starlette.requests import Request

Login = Callable[[Credentials, LoginPeer, Callable[[User | None], None]], None]

USER, BROKER = "leveret.user", "leveret.broker"  # keys of a request's scope
SOCKET = "leveret.socket"  # key of a request's state
WAYS_TO_LOG_IN = "/api/auth"  # answered without a login
METRICS = frozenset({"/metrics", "/metrics/per-object", "/metrics/detailed"})  # without a login from loopback


class Rights(NamedTuple):
    """What decides on a request: the user's tags, and its permissions in the virtual host of the path."""

    tags: tuple[str, ...]
    permission: Permission | None


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


class HttpConnection:
    """The connection that a request came by. Implements server.logins.LoginPeer."""

    __slots__ = ("_admitted", "_transport")

    def __init__(self, request: Request) -> None:
        state = request.scope["state"]
        self._transport: asyncio.Transport = state[SOCKET]
        self._admitted: Admitted = state[ADMITTED]

    @property
    def source(self) -> str:
        return self._admitted.source

    @property
    def is_told(self) -> bool:
        return True

    def is_gone(self) -> bool:
        return is_gone(self._transport)

    def authenticated(self) -> None:
        self._admitted.authenticated()


async def logged_in(
    login: Login, credentials: Credentials, request: Request, loopback_users: frozenset[str]
) -> User | None:
    """The user, when the password is right and the peer may use the name."""
    peer = peer_of(request)
    if credentials.name in loopback_users and not is_loopback(peer):
        credentials = credentials.refused_to_remote_peers()
    answer: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()

    def done(user: User | None) -> None:
        if not answer.done():  # the client may have gone away meanwhile
            answer.set_result(user)

    login(credentials, HttpConnection(request), done)
    return await answer


def peer_of(request: Request) -> str:
    address, headers = request.client.host if request.client is not None else "", request.headers
    return http_peer(address, headers.get("host", ""), headers.keys(), request.scope["http_version"])


def user_of(request: Request) -> User:
    """The user as it is now, not as it was at the login: a body may take minutes to arrive. Refuses the request if the
    user was deleted or got another password since the login."""
    known: User = request.scope[USER]
    user = broker_of(request).users.get(known.name)
    if user is None or user.secret is not known.secret:
        from leveret.http.errors import NotLoggedIn  # here: starlette is imported after the start

        raise NotLoggedIn(
            f"user '{known.name}' was deleted or got another password during this request: log in again, then repeat it"
        )
    return user


def rights_of(request: Request) -> Rights | None:
    """None where no login is needed."""
    if USER not in request.scope:
        return None
    user, vhost = user_of(request), request.path_params.get("vhost")
    rule = None if vhost is None else broker_of(request).permissions.get(user.name, unquote(vhost))
    return Rights(user.tags, rule)


def broker_of(request: Request) -> Broker:
    broker: Broker = request.scope[BROKER]
    return broker
