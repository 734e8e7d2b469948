"""Basic authentication of the broker's users, with the same rules and threads as logins over AMQP.

Failed logins are delayed once a source has failed repeatedly (server/logins.py); so are logins of loopback-only users
from other hosts. User names are logged, passwords are not.
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
from leveret.http.awaited import awaited
from leveret.server.admission import ADMITTED, Admitted
from leveret.server.logins import LoginPeer, is_gone

if TYPE_CHECKING:
    from starlette.requests import Request

Login = Callable[[Credentials, LoginPeer, Callable[[User | None], None]], None]

USER, BROKER = "leveret.user", "leveret.broker"  # keys of a request's scope
SOCKET = "leveret.socket"  # key of a request's state
AUTHORIZATION = "authorization"  # the header
LOGIN_METHODS = "/api/auth"  # needs no login
LIVE, READY = "/health/live", "/health/ready"  # need no login
METRICS = frozenset(
    {"/metrics", "/metrics/per-object", "/metrics/detailed"}
)  # need no login from localhost, or with metrics_auth off


class Rights(NamedTuple):
    """The tags of a user, and its permissions in the virtual host of the path."""

    tags: tuple[str, ...]
    permission: Permission | None


def credentials_of(header: str) -> Credentials | None:
    """User name and password of a basic ``Authorization`` header; None if it is another or malformed."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(name, password, mechanism="Basic") if colon else None


class HttpConnection:
    """The connection of a request. Implements server.logins.LoginPeer."""

    __slots__ = ("_admitted", "_transport", "address")

    def __init__(self, request: Request) -> None:
        state = request.scope["state"]
        self._transport: asyncio.Transport = state[SOCKET]
        self._admitted: Admitted = state[ADMITTED]
        host, port = ("", 0) if request.client is None else request.client
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

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


async def authenticate(
    login: Login, credentials: Credentials, request: Request, loopback_users: frozenset[str]
) -> User | None:
    """The user, or None if the password is wrong or the user may not log in from this address."""
    peer = peer_of(request)
    if credentials.name in loopback_users and not is_loopback(peer):
        credentials = credentials.refused_to_remote_peers()
    return await awaited(lambda done: login(credentials, HttpConnection(request), done))


def peer_of(request: Request) -> str:
    address, headers = request.client.host if request.client is not None else "", request.headers
    return http_peer(address, headers.get("host", ""), headers.keys(), request.scope["http_version"])


def user_of(request: Request) -> User:
    """The current user, not the user at login: a body may take minutes to arrive. Refuses the request if the user was
    deleted or its password changed since the login."""
    known: User = request.scope[USER]
    user = broker_of(request).users.get(known.name)
    if user is None or user.secret is not known.secret:
        from leveret.http.errors import Unauthorized  # imports starlette, which is loaded after the start

        raise Unauthorized(
            f"user '{known.name}' was deleted or its password changed during this request: log in again and repeat it"
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
