"""Who has logged in at the page: sessions, each known to one browser by a cookie.

The cookie holds 256 bits of chance and nothing else; the broker keeps a digest of them, so that looking one up tells
nothing by its time. A session says only whose it is. The user is looked up for every request: a deleted user is out at
once, a new password ends the sessions of the old one, a change of tags holds from the next click on.

A browser sends the cookie along with requests that another site makes it send. So whatever changes something must show
that our own page sent it (origins.py).
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
from leveret.http.answers import done, json_answer
from leveret.http.bodies import json_of, text_of
from leveret.http.errors import NotLoggedIn, TooSlow
from leveret.http.login import HttpConnection, Login, logged_in, peer_of
from leveret.http.origins import READS, refuse_unless_own_page
from leveret.http.roles import MANAGEMENT, ROLES, has_role
from leveret.logs import get_log

LOGIN, LOGOUT = "/api/login", "/api/logout"
ID_BYTES = 32
IDLE = 60 * 60.0  # seconds without a request
LONGEST = 12 * 60 * 60.0  # seconds from the login on, whatever is done
MOST_OF_A_USER = 50
MOST = 2_000
LARGEST_LOGIN = 8 << 10
SLOWEST_LOGIN = 10.0  # seconds for the body: nobody has logged in for it

log = get_log("http")


class Session:
    __slots__ = ("begun", "name", "secret", "used")

    def __init__(self, user: User, now: float) -> None:
        self.name = user.name
        self.secret: Secret = user.secret
        self.begun = self.used = now

    def is_over(self, now: float) -> bool:
        return now - self.used >= IDLE or now - self.begun >= LONGEST


class Sessions:
    """All of them, the one that was used last at the end."""

    def __init__(self, clock: Clock, users: Users) -> None:
        self._clock = clock
        self._users = users
        self._sessions: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, user: User) -> str:
        """The id for the cookie. Where there are too many, the one that rested longest goes."""
        now = self._clock.now()
        self._forget_old(now)
        own = [key for key, session in self._sessions.items() if session.name == user.name]
        for key in own[: max(len(own) - MOST_OF_A_USER + 1, 0)]:
            del self._sessions[key]
        if len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(ID_BYTES)
        self._sessions[_digest(token)] = Session(user, now)
        return token

    def user_of(self, token: str) -> User | None:
        """Whose session it is, if it still is one. The session counts as used."""
        key, now = _digest(token), self._clock.now()
        session = self._sessions.pop(key, None)
        if session is None or session.is_over(now):
            return None
        user = self._users.get(session.name)
        if user is None or user.secret is not session.secret:
            return None
        session.used = now
        self._sessions[key] = session
        return user

    def close(self, token: str) -> None:
        self._sessions.pop(_digest(token), None)

    def _forget_old(self, now: float) -> None:
        for key in [key for key, session in self._sessions.items() if session.is_over(now)]:
            del self._sessions[key]


class Desk:
    """Where sessions begin and end, and where the gate asks for the user of a cookie."""

    def __init__(self, sessions: Sessions, login: Login, loopback_users: frozenset[str]) -> None:
        self._sessions = sessions
        self._login = login
        self._loopback_users = loopback_users

    def routes(self) -> list[Route]:
        return [
            Route(LOGIN, self.tell_who, methods=["GET"]),
            Route(LOGIN, self.log_in, methods=["POST"]),
            Route(LOGOUT, self.log_out, methods=["POST"]),
        ]

    async def tell_who(self, request: Request) -> Response:
        """Whose session the browser has, or null: a page that starts asks this, and it is no error to have none."""
        user = self.user_of(request)
        return json_answer(None if user is None else {"name": user.name, "tags": list(user.tags)})

    async def log_in(self, request: Request) -> Response:
        refuse_unless_own_page(request)
        try:
            async with asyncio.timeout(SLOWEST_LOGIN):
                given = await json_of(request, LARGEST_LOGIN)
        except TimeoutError:
            raise TooSlow(f"the login did not come within {SLOWEST_LOGIN:g} s: send it in one go") from None
        credentials = Credentials(text_of(given, "username"), text_of(given, "password"))
        user = await logged_in(self._login, credentials, request, self._loopback_users)
        if user is None:
            raise NotLoggedIn("login refused: wrong user name or password; the broker's log says more")
        if not has_role(user, MANAGEMENT):
            raise NotLoggedIn(
                f"not a management user: user '{user.name}' has none of the tags {', '.join(ROLES)}; an administrator "
                "can give it one"
            )
        self._sessions.close(request.cookies.get(cookie_of(request), ""))
        answer = json_answer({"name": user.name, "tags": list(user.tags)})
        _set_cookie(request, answer, self._sessions.open(user), int(LONGEST))
        log.info("user logged in to the management UI", user=user.name, peer=peer_of(request))
        return answer

    async def log_out(self, request: Request) -> Response:
        self._sessions.close(request.cookies.get(cookie_of(request), ""))
        answer = done()
        _set_cookie(request, answer, "", 0)
        return answer

    def user_of(self, request: Request) -> User | None:
        """The user of the request's cookie. Refuses what another site may have had the browser send."""
        token = request.cookies.get(cookie_of(request))
        user = self._sessions.user_of(token) if token else None
        if user is None or (user.name in self._loopback_users and not is_loopback(peer_of(request))):
            return None
        if request.method not in READS:
            refuse_unless_own_page(request)
        HttpConnection(request).authenticated()
        return user


def cookie_of(request: Request) -> str:
    """Browsers keep cookies by host, not by port: two brokers on one machine must not share a name."""
    server = request.scope.get("server")
    return f"leveret_session_{server[1]}" if server else "leveret_session"


def _set_cookie(request: Request, answer: Response, value: str, seconds: int) -> None:
    # Behind a proxy that ends TLS it is the browser who knows that the way to it is encrypted.
    is_encrypted = request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")
    answer.set_cookie(
        cookie_of(request), value, max_age=seconds, path="/", secure=is_encrypted, httponly=True, samesite="strict"
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
