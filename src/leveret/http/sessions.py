"""Sessions of the management UI, each identified by a cookie in one browser.

The cookie holds 256 random bits and nothing else; the broker keeps a digest of them, so that the time of a lookup
reveals nothing. A session holds only the name of its user. The user is looked up for every request: deleting a user or
changing its password ends its sessions, and changed tags apply to the next request.

Sessions survive a restart if there is a data directory (api/saved_state.py). The file has digests of tokens only; a
digest of token and password hash detects that the password was changed in between. Users without a password, who log
in with single sign-on, have sessions that survive too. Nothing in the file detects that such a user was deleted and
created again, so its sessions are removed from the file as soon as it is deleted, or found missing at the start.

A browser also sends the cookie with requests that another website triggers. So requests that change something must
prove that the management UI sent them (origins.py).

An ``Authorization`` header takes precedence over the cookie, for every request. A proxy that authenticates people adds
it: the management UI then needs no login, and there is no session that a logout could end.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable
from hmac import compare_digest
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.auth.loopback import is_loopback
from leveret.auth.mechanisms import Credentials
from leveret.auth.users import Secret, User, Users
from leveret.clock import Clock
from leveret.http.bodies import Json, read_json
from leveret.http.errors import RequestTimeout, Unauthorized
from leveret.http.login import AUTHORIZATION, HttpConnection, Login, authenticate, credentials_of, peer_of
from leveret.http.origins import READS, refuse_unless_own_page
from leveret.http.responses import json_response, no_content
from leveret.http.roles import MANAGEMENT, ROLES, has_role
from leveret.http.values import text_of
from leveret.logs import get_log

LOGIN, LOGOUT = "/api/login", "/api/logout"
LOGIN_FAILED = "invalid credentials"
ID_BYTES = 32
VERSION = 1  # of the saved sessions
IDLE = 60 * 60.0  # seconds without a request
LONGEST = 12 * 60 * 60.0  # seconds after the login
MOST_OF_A_USER = 50
MOST = 2_000
PATH_HEADER = "x-leveret-path"
COOKIE_PATH = re.compile(r"/(?:[A-Za-z0-9._~%-]{1,64}/){0,4}")
MAX_LOGIN_BYTES = 8 << 10
LOGIN_SECONDS = 10.0  # seconds for the body: it is sent before authentication

log = get_log("http")


class SavedSession(msgspec.Struct):
    """Times are seconds since 1970."""

    digest: bytes
    user: str
    fingerprint: bytes
    begun: float
    used: float


class SavedSessions(msgspec.Struct):
    version: int
    sessions: list[SavedSession]


class SessionSaver(Protocol):
    def save_soon(self) -> None:
        """A session has begun or ended."""


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
        self._is_changed = False  # since the last snapshot
        self.saver: SessionSaver | None = None  # if there is a data directory
        users.sessions = self

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
        self._changed()
        return token

    def user_of(self, token: str) -> User | None:
        """The user of the session, None if it has ended. The session counts as used."""
        key, now = _digest(token), self._clock.now()
        session = self._sessions.pop(key, None)
        if session is None or session.has_ended(now):
            return None
        user = self._user(session)
        if user is None:
            return None
        session.used = now
        self._sessions[key] = session
        self._is_changed = True
        return user

    def _user(self, session: Session) -> User | None:
        """None if the user was deleted, also if it was created again, or its password was changed."""
        user = self._users.get(session.name)
        return None if user is None or user.secret is not session.secret else user

    def close(self, token: str) -> None:
        if self._sessions.pop(_digest(token), None) is not None:
            self._changed()

    def _changed(self) -> None:
        self._is_changed = True
        if self.saver is not None:
            self.saver.save_soon()

    def user_revoked(self, name: str) -> None:
        if any(session.name == name for session in self._sessions.values()):
            self._remove_revoked()
            self._changed()

    # ---- restarts

    def snapshot(self) -> Callable[[], bytes] | None:
        """A function that encodes the current sessions, for a thread; None if they are unchanged."""
        self._remove_revoked()
        if not self._is_changed:
            return None
        self._is_changed = False
        ahead = self._clock.wall() - self._clock.now()
        rows = [
            SavedSession(key, each.name, _fingerprint(key, each.secret), each.begun + ahead, each.used + ahead)
            for key, each in self._sessions.items()
            if not _is_pending(each.secret)
        ]
        return lambda: msgspec.msgpack.encode(SavedSessions(VERSION, rows))

    def restore(self, data: bytes) -> None:
        """The sessions of the previous run that have not ended. Raises ValueError."""
        try:
            saved = msgspec.msgpack.decode(data, type=SavedSessions)
        except msgspec.MsgspecError as problem:
            raise ValueError(str(problem)) from problem
        if saved.version != VERSION:
            raise ValueError(f"version {saved.version} is of another Leveret")
        now, ahead = self._clock.now(), self._clock.wall() - self._clock.now()
        for row in saved.sessions[-MOST:]:
            user = self._users.get(row.user)
            if user is None or not _is_of(row, user):
                continue
            session = Session(user, now)
            session.begun, session.used = row.begun - ahead, row.used - ahead
            if not session.has_ended(now) and session.begun <= now:  # not from the future: the clock was set back
                self._sessions[row.digest] = session
        if len(self._sessions) < len(saved.sessions):
            self._changed()

    def _remove_revoked(self) -> None:
        for key in [key for key, session in self._sessions.items() if self._user(session) is None]:
            del self._sessions[key]
            self._is_changed = True

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
        """The user of the ``Authorization`` header or of the session cookie, or null. The management UI asks this at
        start: no session is not an error, but credentials that are sent must be valid."""
        if request.headers.get(AUTHORIZATION):
            user = await self.user_of_header(request)
            refuse_unless_management_user(user)
            return json_response(_shown(user, has_session=False))
        known = self.user_of(request)
        return json_response(None if known is None else _shown(known, has_session=True))

    async def log_in(self, request: Request) -> Response:
        refuse_unless_own_page(request)
        given = await read_login(request)
        credentials = Credentials(text_of(given, "username"), text_of(given, "password"), mechanism="session")
        user = await authenticate(self._login, credentials, request, self._loopback_users)
        if user is None:
            raise Unauthorized(LOGIN_FAILED)
        refuse_unless_management_user(user)
        return self.begin(request, user)

    def begin(self, request: Request, user: User, mechanism: str = "password") -> Response:
        """A session of an authenticated user. It replaces the one that the browser has."""
        self._sessions.close(request.cookies.get(cookie_of(request), ""))
        answer = json_response(_shown(user, has_session=True))
        set_cookie(request, answer, cookie_of(request), self._sessions.open(user), int(LONGEST))
        log.info("user logged in to the management UI", user=user.name, peer=peer_of(request), mechanism=mechanism)
        return answer

    async def log_out(self, request: Request) -> Response:
        self._sessions.close(request.cookies.get(cookie_of(request), ""))
        answer = no_content()
        set_cookie(request, answer, cookie_of(request), "", 0)
        return answer

    async def user_of_header(self, request: Request) -> User:
        """The user of the ``Authorization`` header, authenticated by the rules of all logins."""
        credentials = credentials_of(request.headers.get(AUTHORIZATION, ""))
        if credentials is None:
            raise Unauthorized("not authenticated: send user name and password with basic authentication")
        user = await authenticate(self._login, credentials, request, self._loopback_users)
        if user is None:
            raise Unauthorized(LOGIN_FAILED)
        return user

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


async def read_login(request: Request) -> Json:
    """The body of a login: it is read before authentication."""
    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            return await read_json(request, MAX_LOGIN_BYTES)
    except TimeoutError:
        raise RequestTimeout(f"the login was not received within {LOGIN_SECONDS:g} s: send it at once") from None


def refuse_unless_management_user(user: User) -> None:
    if not has_role(user, MANAGEMENT):
        raise Unauthorized(
            f"not a management user: user '{user.name}' has none of the tags {', '.join(ROLES)}; an administrator "
            "can add one"
        )


def _shown(user: User, has_session: bool) -> dict[str, object]:
    return {"name": user.name, "tags": list(user.tags), "has_session": has_session}


def cookie_of(request: Request) -> str:
    return f"leveret_session{port_suffix(request)}"


def port_suffix(request: Request) -> str:
    """Browsers store cookies by host, not by port, so brokers on one machine need different names."""
    server = request.scope.get("server")
    return f"_{server[1]}" if server else ""


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int) -> None:
    # Behind a proxy that terminates TLS only the Origin header shows that the browser uses HTTPS.
    is_encrypted = request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=folder_of(request),
        secure=is_encrypted,
        httponly=True,
        samesite="strict",
    )


def folder_of(request: Request) -> str:
    """The path of the cookie: the folder of the management UI, which only the browser has if a proxy has removed a
    prefix. The browser then sends the cookie to no other application of this host."""
    given = request.headers.get(PATH_HEADER, "/")
    return given if COOKIE_PATH.fullmatch(given) else "/"


def _is_of(row: SavedSession, user: User) -> bool:
    """Whether the password is the one of the login."""
    return not _is_pending(user.secret) and compare_digest(row.fingerprint, _fingerprint(row.digest, user.secret))


def _is_pending(secret: Secret) -> bool:
    """Whether the password is not hashed yet: its user must not be taken for one without a password."""
    return secret.hash is None and secret.pending is not None


def _fingerprint(digest: bytes, secret: Secret) -> bytes:
    """Differs for every session, so that equal passwords are not recognised."""
    return hashlib.sha256(digest + (secret.hash or "").encode()).digest()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
