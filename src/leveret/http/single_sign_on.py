"""Login to the management UI with OpenID Connect: authorization code flow with PKCE.

The identity provider authenticates the person. A claim of its ID token is the name of a user of the broker; the tags
and permissions of that user apply, as after a login with a password, and the session is the same.

1. The management UI requests ``start``, and gets the URL of the provider's login and a cookie.
2. The provider sends the browser back to the folder of the management UI, with a code and the state in the query.
3. The management UI sends both to the broker, which exchanges the code for an ID token and opens a session.

The broker redirects nothing itself, so no parameter can lead a browser elsewhere. The redirect URI is the Origin of the
request, which must be the host of the request, and the folder that only the browser has if a proxy removes a path.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.auth.loopback import is_loopback
from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.clock import Clock
from leveret.http.errors import BadRequest, HttpError, ObjectNotFound, Unauthorized
from leveret.http.login import HttpConnection, Login, authenticate, peer_of
from leveret.http.origins import is_same_origin, refuse_unless_own_page
from leveret.http.pending_logins import SECONDS, PendingLogin, PendingLogins
from leveret.http.responses import json_response
from leveret.http.sessions import (
    SessionEndpoints,
    folder_of,
    port_suffix,
    read_login,
    refuse_unless_management_user,
    set_cookie,
)
from leveret.http.values import is_valid_text, text_of
from leveret.logs import get_log

if TYPE_CHECKING:
    from leveret.http.identity_provider import IdentityProvider  # imports PyJWT, of the extra `oidc`

START, COMPLETE = "/api/login/oidc/start", "/api/login/oidc"
MECHANISM = "OpenID Connect"  # for the log
ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
NOT_CONFIGURED = "single sign-on is not configured: set oidc_issuer and oidc_client_id"
UNKNOWN_LOGIN = (
    "this login was not started in this browser, was completed already, or took longer than "
    f"{SECONDS / 60:g} minutes: log in again"
)

log = get_log("http")


class SingleSignOn:
    """The endpoints. Without a provider, they answer 404."""

    def __init__(
        self,
        provider: IdentityProvider | None,
        user_claim: str,
        clock: Clock,
        sessions: SessionEndpoints,
        login: Login,
        loopback_users: frozenset[str],
    ) -> None:
        self._provider = provider
        self._user_claim = user_claim
        self._pending = PendingLogins(clock)
        self._sessions = sessions
        self._login = login
        self._loopback_users = loopback_users

    def routes(self) -> list[Route]:
        return [Route(START, self.start, methods=["POST"]), Route(COMPLETE, self.complete, methods=["POST"])]

    async def start(self, request: Request) -> Response:
        """The URL of the provider's login, for the browser."""
        refuse_unless_own_page(request)
        provider = self._configured()
        redirect_uri = _origin_of(request) + folder_of(request)
        begun = self._pending.begin(redirect_uri)
        try:
            answer = json_response({"location": await provider.login_url(begun, redirect_uri)})
        except HttpError as problem:
            _log_refusal(request, problem)
            raise
        set_cookie(request, answer, _cookie_of(request), begun.cookie, int(SECONDS))
        return answer

    async def complete(self, request: Request) -> Response:
        """A session for the code with which the provider has sent the browser back."""
        refuse_unless_own_page(request)
        provider = self._configured()
        given = await read_login(request)
        try:
            name = await self._user_name(request, provider, given)
        except HttpError as problem:
            _log_refusal(request, problem)
            raise
        user = await self._user(request, name)
        answer = self._sessions.begin(request, user, MECHANISM)
        set_cookie(request, answer, _cookie_of(request), "", 0)
        return answer

    def close(self) -> None:
        if self._provider is not None:
            self._provider.close()

    def _configured(self) -> IdentityProvider:
        if self._provider is None:
            raise ObjectNotFound(NOT_CONFIGURED)
        return self._provider

    async def _user_name(self, request: Request, provider: IdentityProvider, given: dict[str, Any]) -> str:
        login = self._pending.take(text_of(given, "state"), request.cookies.get(_cookie_of(request), ""))
        if login is None:
            raise Unauthorized(UNKNOWN_LOGIN)
        await provider.refuse_other_issuer(text_of(given, "iss", ""))
        error = text_of(given, "error", "")
        if error:
            details = _printable(text_of(given, "error_description", ""))
            shown = f"{_printable(error)} ({details})" if details else _printable(error)
            raise Unauthorized(f"the identity provider refused the login: {shown}")
        return await self._claimed_name(provider, text_of(given, "code"), login, HttpConnection(request))

    async def _claimed_name(
        self, provider: IdentityProvider, code: str, login: PendingLogin, peer: HttpConnection
    ) -> str:
        from leveret.auth.id_tokens import TokenRefused  # imports PyJWT

        try:
            claims = await provider.claims(code, login, peer)
        except TokenRefused as problem:
            raise Unauthorized(f"the ID token was refused: {problem}") from None
        name = claims.get(self._user_claim)
        if not isinstance(name, str) or not name or not is_valid_text(name):
            raise Unauthorized(
                f"the ID token has no text in the claim '{self._user_claim}': set oidc_user_claim to a claim that has "
                "the name of the user, and oidc_scopes to the scope of that claim"
            )
        if self._user_claim == "email" and claims.get("email_verified") is not True:
            raise Unauthorized("the identity provider has not verified the e-mail address (email_verified)")
        return name

    async def _user(self, request: Request, name: str) -> User:
        """The user of this name. server/logins.py logs unknown users, and those that may not log in from this peer."""
        credentials = Credentials(name, None, mechanism=MECHANISM)
        user = await authenticate(self._login, credentials, request, self._loopback_users)
        if user is not None:
            try:
                refuse_unless_management_user(user)
            except HttpError as problem:
                _log_refusal(request, problem)
                raise
            return user
        if name in self._loopback_users and not is_loopback(peer_of(request)):
            raise Unauthorized(f"user '{name}' may log in from the machine of the broker only (loopback_users)")
        raise Unauthorized(f"the broker has no user '{name}': an administrator can create it, without a password")


def _origin_of(request: Request) -> str:
    """Scheme and host of the management UI, as the browser sees them."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if not ORIGIN.fullmatch(origin) or not is_same_origin(origin, host):
        raise BadRequest(
            "single sign-on needs the header Origin of the management UI, with the host of the request "
            f"('{host[:255]}'): a proxy must pass on Host and Origin"
        )
    return origin


def _cookie_of(request: Request) -> str:
    return f"leveret_login{port_suffix(request)}"


def _printable(text: str) -> str:
    """A text of the provider, as it is shown."""
    return "".join(char if char.isprintable() else " " for char in text)[:200].strip()


def _log_refusal(request: Request, problem: HttpError) -> None:
    log.warning("login refused", peer=peer_of(request), mechanism=MECHANISM, reason=problem.reason)
