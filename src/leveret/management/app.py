"""The application behind the HTTP port: one gate before all routes, which logs in, and answers for what goes wrong.

The path is matched as it came, percent-encoded, so that the virtual host ``/`` can be one segment of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Message, Receive, Scope, Send

from leveret.broker.broker import Broker
from leveret.logs import get_log
from leveret.management.errors import NotLoggedIn, answer_of
from leveret.management.login import BROKER, USER, Login, credentials_of, logged_in
from leveret.version import VERSION

OPEN_TO_ALL = {"/"}

log = get_log("http")


async def welcome(request: Request) -> Response:
    return PlainTextResponse(f"Leveret {VERSION}, the pipeline API is under /api/pipeline\n")


class Gate:
    """An ASGI application: the routes, behind the login."""

    def __init__(
        self, broker: Broker, login: Login, loopback_users: frozenset[str], routes: Sequence[BaseRoute]
    ) -> None:
        self._broker = broker
        self._login = login
        self._loopback_users = loopback_users
        self._router = Router([Route("/", welcome), *routes], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        try:
            await self._answer({**scope, "path": path}, receive, send_noting)
        except ClientDisconnect:
            log.debug("client went away", method=method, path=path)
        except Exception as error:
            if not has_begun:
                await answer_of(error, method, path)(scope, receive, send)
                return
            # The status has gone out: without its end the answer is cut short, so that nobody takes it for whole.
            log.exception("answer cut short", method=method, path=path)
        except asyncio.CancelledError:
            log.debug("cut off at shutdown", method=method, path=path)  # this is the outermost call of the task

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in OPEN_TO_ALL:
            request = Request(scope)
            credentials = credentials_of(request.headers.get("authorization", ""))
            if credentials is None:
                raise NotLoggedIn("not logged in: send a user name and a password by basic authentication")
            peer = request.client.host if request.client is not None else ""
            user = await logged_in(self._login, credentials, peer, self._loopback_users)
            if user is None:
                raise NotLoggedIn("login refused: wrong user name or password; the broker's log says more")
            scope[USER] = user
        scope[BROKER] = self._broker
        scope["app"] = self  # starlette's router raises for an unknown path only when there is an application
        await self._router(scope, receive, send)
