"""The application behind the HTTP port: one gate before all routes, which logs in, and answers for what goes wrong.

Programs log in by basic authentication with each request, the page by the cookie of its session. The page's own files
and its login are open to all. What a page of another site has a browser send changes nothing, whoever it logs in as.

The path is matched as it came, percent-encoded, so that the virtual host ``/`` can be one segment of it. A slash at the
end changes nothing, as with RabbitMQ: tools such as Celery's Flower ask so.
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
from leveret.http.errors import NotLoggedIn, answer_of
from leveret.http.login import BROKER, METRICS, USER, WAYS_TO_LOG_IN, Login, credentials_of, logged_in, peer_of
from leveret.http.origins import PAGE_HEADER, refuse_other_sites
from leveret.http.sessions import LOGIN, Desk, Sessions
from leveret.http.tunnel_endpoints import is_tunnel
from leveret.http.websocket import PATH as WEBSOCKET
from leveret.http.websocket import ask_for_upgrade
from leveret.logs import get_log
from leveret.server.admission import ADMITTED

API = "/api/"
PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

log = get_log("http")


class Gate:
    """An ASGI application: the routes, behind the login."""

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
        self._desk = Desk(Sessions(broker.clock, broker.users), login, loopback_users)
        files = static_files.routes()
        self._open_to_all = {LOGIN, WEBSOCKET, WAYS_TO_LOG_IN, *(file.path for file in files)}
        upgrade = Route(WEBSOCKET, ask_for_upgrade)
        self._router = Router([*files, upgrade, *self._desk.routes(), *routes], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                private = PRIVATE if path.startswith(API) else ()
                over_tls = self._over_tls if scope["scheme"] == "https" else ()
                message["headers"] = [*message["headers"], (b"date", self._date()), *private, *over_tls]
            await send(message)

        scope["state"][ADMITTED].set_idle(False)
        method, path = scope["method"], _plain(scope["raw_path"].decode("latin-1"))
        try:
            await self._answer({**scope, "path": path}, receive, send_noting)
        except ClientDisconnect:
            log.debug("client closed the connection", method=method, path=path)
        except Exception as error:
            if not has_begun:
                answer = answer_of(error, method, path)
                if PAGE_HEADER in Request(scope).headers and "www-authenticate" in answer.headers:
                    del answer.headers["www-authenticate"]  # the page has a login of its own: no browser's dialogue
                await answer(scope, receive, send_noting)
                return
            # The status has gone out: without its end the answer is cut short, so that nobody takes it for whole.
            log.exception("internal error while sending a response", method=method, path=path)
        except asyncio.CancelledError:
            log.debug("request aborted at shutdown", method=method, path=path)  # this is the outermost call of the task

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        refuse_other_sites(Request(scope))
        if path not in self._open_to_all and not is_tunnel(path) and not _may_measure(Request(scope)):
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
        """By the clock that messages live by: whoever asks can see how far it is from its own."""
        return formatdate(self._broker.clock.wall(), usegmt=True).encode()

    def _methods_at(self, scope: Scope) -> list[str]:
        """All that are taken there; each has a route of its own."""
        there = [route for route in self._router.routes if route.matches(scope)[0] is not Match.NONE]
        return sorted({method for route in there if isinstance(route, Route) for method in route.methods or ()})

    async def _user_of(self, request: Request) -> User:
        header = request.headers.get("authorization", "")
        user = self._desk.user_of(request) if not header else None
        if user is not None:
            return user
        credentials = credentials_of(header)
        if credentials is None:
            raise NotLoggedIn("not logged in: send a user name and a password by basic authentication")
        user = await logged_in(self._login, credentials, request, self._loopback_users)
        if user is None:
            raise NotLoggedIn("login refused: wrong user name or password; the broker's log says more")
        return user


def _plain(path: str) -> str:
    return path.removesuffix("/") if path.startswith(API) and path != API else path


def _may_measure(request: Request) -> bool:
    """Metrics are for whoever asks from this machine, without a login; with one it has to be right."""
    if request.scope["path"] not in METRICS or "authorization" in request.headers:
        return False
    return is_loopback(peer_of(request))
