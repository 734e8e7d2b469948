"""The ASGI application of the HTTP port: authenticates requests, routes them, and turns errors into responses.

Programs authenticate each request with basic authentication, the management UI with a session cookie. The files of the
management UI and the login need no authentication. Requests that another website triggers in a browser cannot change
anything, whatever their credentials.

The path is matched percent-encoded, so that the virtual host ``/`` can be one segment of it. A trailing slash is
ignored, as by RabbitMQ: tools such as Celery's Flower send one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Message, Receive, Scope, Send

from leveret.auth.loopback import is_loopback
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.http import guide_files, static_files
from leveret.http.errors import Unauthorized, error_response
from leveret.http.login import (
    AUTHORIZATION,
    BROKER,
    LIVE,
    LOGIN_METHODS,
    METRICS,
    READY,
    USER,
    Login,
    peer_of,
)
from leveret.http.origins import PAGE_HEADER, refuse_other_sites
from leveret.http.sessions import LOGIN, SessionEndpoints, Sessions
from leveret.http.single_sign_on import COMPLETE, START, SingleSignOn
from leveret.http.tunnel_endpoints import is_tunnel
from leveret.http.websocket import PATH as WEBSOCKET
from leveret.http.websocket import require_upgrade
from leveret.logs import get_log
from leveret.server.admission import ADMITTED

if TYPE_CHECKING:
    from leveret.http.identity_provider import IdentityProvider  # imports PyJWT, of the extra `oidc`

API = "/api/"
API_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

Relay = Callable[[Scope, Receive, Send], Awaitable[bool]]
"""Answers an authenticated request with the help of other cells; False if the own routes answer it."""

log = get_log("http")


class HttpApp:
    """An ASGI application: the routes, behind authentication."""

    def __init__(
        self,
        broker: Broker,
        login: Login,
        loopback_users: frozenset[str],
        routes: Sequence[BaseRoute],
        hsts_max_age: int = 0,
        metrics_auth: bool = True,
        prefix: str = "",
        provider: IdentityProvider | None = None,
        user_claim: str = "",
    ) -> None:
        """``provider``, ``user_claim``: of single sign-on."""
        self._broker = broker
        self._login = login
        self._loopback_users = loopback_users
        self._metrics_auth = metrics_auth
        self._over_tls = [(b"strict-transport-security", b"max-age=%d" % hsts_max_age)] if hsts_max_age else []
        self.sessions = Sessions(broker.clock, broker.users)
        self._sessions = SessionEndpoints(self.sessions, login, loopback_users)
        self._sign_on = SingleSignOn(provider, user_claim, broker.clock, self._sessions, login, loopback_users)
        files = [*guide_files.routes(), *static_files.routes(prefix)]
        open_paths = {LOGIN, START, COMPLETE, WEBSOCKET, LOGIN_METHODS, LIVE, READY}
        self._open_to_all = open_paths | {file.path for file in files}
        own = [Route(WEBSOCKET, require_upgrade), *self._sessions.routes(), *self._sign_on.routes()]
        self._router = Router([*files, *own, *routes], redirect_slashes=False)
        self.relay: Relay | None = None  # if there are other cells

    def close(self) -> None:
        """Abandon requests to the identity provider."""
        self._sign_on.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                private = API_HEADERS if path.startswith(API) else ()
                over_tls = self._over_tls if scope["scheme"] == "https" else ()
                message["headers"] = [*message["headers"], (b"date", self._date()), *private, *over_tls]
            await send(message)

        scope["state"][ADMITTED].set_idle(False)
        method, path = scope["method"], _without_slash(scope["raw_path"].decode("latin-1"))
        try:
            await self._answer({**scope, "path": path}, receive, send_noting)
        except ClientDisconnect:
            log.debug("client closed the connection", method=method, path=path)
        except Exception as error:
            if not has_begun:
                answer = error_response(error, method, path)
                if PAGE_HEADER in Request(scope).headers and "www-authenticate" in answer.headers:
                    del answer.headers["www-authenticate"]  # the management UI has its own login form
                await answer(scope, receive, send_noting)
                return
            # The status is already sent. Without an end, the client detects that the response is truncated.
            log.exception("internal error while sending a response", method=method, path=path)
        except asyncio.CancelledError:
            log.debug("request aborted at shutdown", method=method, path=path)  # this is the outermost call of the task

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        refuse_other_sites(Request(scope))
        if not self._is_open_to_all(path) and not self._is_open_scrape(Request(scope)):
            scope[USER] = await self._user_of(Request(scope))
        scope[BROKER] = self._broker
        if self.relay is None or not await self.relay(scope, receive, send):
            await self._route(scope, receive, send)

    async def perform(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that is authenticated already (http/internal_requests.py), by this cell alone."""
        has_begun = False

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            if scope.get(USER, self) is None:
                raise Unauthorized("the user of the request was deleted: log in again and repeat it")
            await self._route(scope, receive, send_noting)
        except ClientDisconnect:
            log.debug("the other cell closed the connection", path=scope["path"])
        except Exception as error:
            if has_begun:
                raise
            await error_response(error, scope["method"], scope["path"])(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # starlette's router raises for an unknown path only when there is an application
        try:
            await self._router(scope, receive, send)
        except HTTPException as refusal:
            if refusal.status_code != 405:
                raise
            methods = self._methods_at(scope)
            if scope["method"] == "OPTIONS":
                answer = Response(headers={"Allow": ", ".join(sorted([*methods, "OPTIONS"]))})
                await answer(scope, receive, send)
                return
            refusal.headers = {"Allow": ", ".join(methods)}
            raise

    def _date(self) -> bytes:
        """The time of the broker's clock, which TTLs use: a client can compare it with its own clock."""
        return formatdate(self._broker.clock.wall(), usegmt=True).encode()

    def _methods_at(self, scope: Scope) -> list[str]:
        """The allowed methods; each has a route of its own."""
        matching = [route for route in self._router.routes if route.matches(scope)[0] is not Match.NONE]
        return sorted({method for route in matching if isinstance(route, Route) for method in route.methods or ()})

    def _is_open_to_all(self, path: str) -> bool:
        return path in self._open_to_all or path.startswith(static_files.WEB) or is_tunnel(path)

    def _is_open_scrape(self, request: Request) -> bool:
        """Metrics need no login from localhost, or at all; credentials that are sent anyway must be valid."""
        if request.scope["path"] not in METRICS or AUTHORIZATION in request.headers:
            return False
        return not self._metrics_auth or is_loopback(peer_of(request))

    async def _user_of(self, request: Request) -> User:
        user = self._sessions.user_of(request) if not request.headers.get(AUTHORIZATION) else None
        return user if user is not None else await self._sessions.user_of_header(request)


def _without_slash(path: str) -> str:
    return path.removesuffix("/") if path.startswith(API) and path != API else path
