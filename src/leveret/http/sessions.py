"""Sessions of the management UI, each identified by a cookie in one browser.

The cookie holds 256 random bits and nothing else; the broker keeps a digest of them, so that the time of a lookup
reveals nothing. A session holds only the name of its user. The user is looked up for every request: deleting a user or
changing its password ends its sessions, and changed tags apply to the next request.

A browser also sends the cookie with requests that another website triggers. So requests that change something must
prove that the management UI sent them (origins.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.auth.loopback import is_loopback
from leveret.auth.mechanisms import Credentials
from leveret.auth.users import Secret, User, Users
from leveret.clock import Clock
from leveret.http.bodies import read_json
from leveret.http.errors import RequestTimeout, Unauthorized
from leveret.http.login import HttpConnection, Login, authenticate, peer_of
from leveret.http.origins import READS, refuse_unless_own_page
from leveret.http.responses import json_response, no_content
from leveret.http.roles import MANAGEMENT, ROLES, has_role
from leveret.http.values import text_of
from leveret.logs import get_log

LOGIN, LOGOUT = "/api/login", "/api/logout"
LOGIN_FAILED = "login failed: invalid credentials"
ID_BYTES = 32
IDLE = 60 * 60.0  # seconds without a request
LONGEST = 12 * 60 * 60.0  # seconds after the login
MOST_OF_A_USER = 50
MOST = 2_000
MAX_LOGIN_BYTES = 8 << 10
LOGIN_SECONDS = 10.0  # seconds for the body: it is sent before authentication

log = get_log("http")


class Session:
    __slots__ = ("begun", "name", "secret", "used")

    def __init__(self, user: User, now: float) -> None:
        self.name = user.name
        self.secret: Secret = user.secret
        self.begun = self.used = now

    def has_ended(self, now: float) -> bool:
        return now - self.used >= IDLE or now - self.begun >= LONGEST


class Sessions:
    """All sessions, the most recently used one last."""

    def __init__(self, clock: Clock, users: Users) -> None:
        self._clock = clock
        self._users = users
        self._sessions: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, user: User) -> str:
        """The id for the cookie. Above the limits, the least recently used session ends."""
        now = self._clock.now()
        self._remove_expired(now)
        own = [key for key, session in self._sessions.items() if session.name == user.name]
        for key in own[: max(len(own) - MOST_OF_A_USER + 1, 0)]:
            del self._sessions[key]
        if len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(ID_BYTES)
        self._sessions[_digest(token)] = Session(user, now)
        return token

    def user_of(self, token: str) -> User | None:
        """The user of the session, None if it has ended. The session counts as used."""
        key, now = _digest(token), self._clock.now()
        session = self._sessions.pop(key, None)
        if session is None or session.has_ended(now):
            return None
        user = self._users.get(session.name)
        if user is None or user.secret is not session.secret:
            return None
        session.used = now
        self._sessions[key] = session
        return user

    def close(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)

    def _remove_expired(self, now: float) -> None:
        for key in [key for key, session in self._sessions.items() if session.has_ended(now)]:
            del self._sessions[key]


class SessionEndpoints:
    """The login and logout endpoints, and the lookup of a cookie's user for the application."""

    def __init__(self, sessions: Sessions, login: Login, loopback_users: frozenset[str]) -> None:
        self._sessions = sessions
        self._login = login
        self._loopback_users = loopback_users

    def routes(self) -> list[Route]:
        return [
            Route(LOGIN, self.show_user, methods=["GET"]),
            Route(LOGIN, self.log_in, methods=["POST"]),
            Route(LOGOUT, self.log_out, methods=["POST"]),
        ]

    async def show_user(self, request: Request) -> Response:
        """The user of the session cookie, or null. The management UI asks this at start: no session is not an error."""
        user = self.user_of(request)
        return json_response(None if user is None else {"name": user.name, "tags": list(user.tags)})

    async def log_in(self, request: Request) -> Response:
        refuse_unless_own_page(request)
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                given = await read_json(request, MAX_LOGIN_BYTES)
        except TimeoutError:
            raise RequestTimeout(f"the login was not received within {LOGIN_SECONDS:g} s: send it at once") from None
        credentials = Credentials(text_of(given, "username"), text_of(given, "password"))
        user = await authenticate(self._login, credentials, request, self._loopback_users)
        if user is None:
            raise Unauthorized(LOGIN_FAILED)
        if not has_role(user, MANAGEMENT):
            raise Unauthorized(
                f"not a management user: user '{user.name}' has none of the tags {', '.join(ROLES)}; an administrator "
                "can add one"
            )
        self._sessions.close(request.cookies.get(cookie_of(request), ""))
        answer = json_response({"name": user.name, "tags": list(user.tags)})
        _set_cookie(request, answer, self._sessions.open(user), int(LONGEST))
        log.info("user logged in to the management UI", user=user.name, peer=peer_of(request))
        return answer

    async def log_out(self, request: Request) -> Response:
        self._sessions.close(request.cookies.get(cookie_of(request), ""))
        answer = no_content()
        _set_cookie(request, answer, "", 0)
        return answer

    def user_of(self, request: Request) -> User | None:
        """The user of the request's cookie. Refuses requests that another website may have triggered."""
        token = request.cookies.get(cookie_of(request))
        user = self._sessions.user_of(token) if token else None
        if user is None or (user.name in self._loopback_users and not is_loopback(peer_of(request))):
            return None
        if request.method not in READS:
            refuse_unless_own_page(request)
        HttpConnection(request).authenticated()
        return user


def cookie_of(request: Request) -> str:
    """Browsers store cookies by host, not by port, so brokers on one machine need different names."""
    server = request.scope.get("server")
    return f"leveret_session_{server[1]}" if server else "leveret_session"


def _set_cookie(request: Request, answer: Response, value: str, seconds: int) -> None:
    # Behind a proxy that terminates TLS only the Origin header shows that the browser uses HTTPS.
    is_encrypted = request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")
    answer.set_cookie(
        cookie_of(request), value, max_age=seconds, path="/", secure=is_encrypted, httponly=True, samesite="strict"
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
