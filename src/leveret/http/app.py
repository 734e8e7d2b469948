"""The ASGI application of the HTTP port: authenticates requests, routes them, and turns errors into responses.

Programs authenticate each request with basic authentication, the management UI with a session cookie. The files of the
management UI and the login need no authentication. Requests that another website triggers in a browser cannot change
anything, whatever their credentials.

The path is matched percent-encoded, so that the virtual host ``/`` can be one segment of it. A trailing slash is
ignored, as by RabbitMQ: tools such as Celery's Flower send one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from email.utils import formatdate

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Message, Receive, Scope, Send

from leveret.auth.loopback import is_loopback
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.http import static_files
from leveret.http.errors import Unauthorized, error_response
from leveret.http.login import BROKER, LOGIN_METHODS, METRICS, USER, Login, authenticate, credentials_of, peer_of
from leveret.http.origins import PAGE_HEADER, refuse_other_sites
from leveret.http.sessions import LOGIN, LOGIN_FAILED, SessionEndpoints, Sessions
from leveret.http.tunnel_endpoints import is_tunnel
from leveret.http.websocket import PATH as WEBSOCKET
from leveret.http.websocket import require_upgrade
from leveret.logs import get_log
from leveret.server.admission import ADMITTED

API = "/api/"
API_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

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
    ) -> None:
        self._broker = broker
        self._login = login
        self._loopback_users = loopback_users
        self._over_tls = [(b"strict-transport-security", b"max-age=%d" % hsts_max_age)] if hsts_max_age else []
        self._sessions = SessionEndpoints(Sessions(broker.clock, broker.users), login, loopback_users)
        files = static_files.routes()
        self._open_to_all = {LOGIN, WEBSOCKET, LOGIN_METHODS, *(file.path for file in files)}
        upgrade = Route(WEBSOCKET, require_upgrade)
        self._router = Router([*files, upgrade, *self._sessions.routes(), *routes], redirect_slashes=False)

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
        if path not in self._open_to_all and not is_tunnel(path) and not _is_local_scrape(Request(scope)):
            scope[USER] = await self._user_of(Request(scope))
        scope[BROKER] = self._broker
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

    async def _user_of(self, request: Request) -> User:
        header = request.headers.get("authorization", "")
        user = self._sessions.user_of(request) if not header else None
        if user is not None:
            return user
        credentials = credentials_of(header)
        if credentials is None:
            raise Unauthorized("not authenticated: send user name and password with basic authentication")
        user = await authenticate(self._login, credentials, request, self._loopback_users)
        if user is None:
            raise Unauthorized(LOGIN_FAILED)
        return user


def _without_slash(path: str) -> str:
    return path.removesuffix("/") if path.startswith(API) and path != API else path


def _is_local_scrape(request: Request) -> bool:
    """Metrics need no login from localhost; credentials that are sent anyway must be valid."""
    if request.scope["path"] not in METRICS or "authorization" in request.headers:
        return False
    return is_loopback(peer_of(request))
