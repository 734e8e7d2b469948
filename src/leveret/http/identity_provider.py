"""The OpenID Connect provider of single sign-on: its configuration and keys, and the exchange of a code for claims.

The configuration (discovery document) and the keys are fetched when a login needs them, and kept for an hour. A token
with an unknown key has the keys fetched again, not more often than every 30 seconds. After a failure, logins are
refused for a few seconds without another request: unauthenticated clients can cause requests to the provider.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from leveret.auth.id_tokens import Expected, SigningKeys, TokenRefused, UnknownKey, header_of, verified_claims
from leveret.clock import Clock
from leveret.config import Settings
from leveret.http.errors import ProviderFailed, Unauthorized
from leveret.http.pending_logins import Begun, PendingLogin
from leveret.http.provider_requests import Json, ProviderRequests
from leveret.server.logins import LoginPeer
from leveret.setting_kinds import is_provider_url

DISCOVERY = "/.well-known/openid-configuration"
KEEP = 3600.0  # seconds
NEW_KEYS_AFTER = 30.0  # seconds between two requests for keys because of an unknown one
RETRY_AFTER = 5.0  # seconds after a failure

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Client:
    """The broker, as the provider has registered it."""

    issuer: str
    client_id: str
    client_secret: str | None
    scopes: frozenset[str]
    tls_ca: Path | None


@dataclass(slots=True, frozen=True)
class Configuration:
    """The parts of the discovery document that are used."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    takes_basic: bool
    """Whether the secret is sent with basic authentication, and not in the form."""
    names_issuer: bool
    """Whether every response to a login has the issuer (RFC 9207)."""

    @classmethod
    def parse(cls, document: Json, issuer: str) -> Configuration:
        if document.get("issuer") != issuer:
            found = str(document.get("issuer"))[:255]
            raise ProviderFailed(f"its configuration is that of the issuer '{found}': set oidc_issuer to the same text")
        methods = document.get("token_endpoint_auth_methods_supported")
        return cls(
            _endpoint(document, "authorization_endpoint"),
            _endpoint(document, "token_endpoint"),
            _endpoint(document, "jwks_uri"),
            takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
            names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )


def _endpoint(document: Json, name: str) -> str:
    url = document.get(name)
    if not isinstance(url, str) or not is_provider_url(url):
        raise ProviderFailed(f"its configuration has no {name} with https, or with http on this machine")
    return url


class Fetched(Generic[T]):
    """A document of the provider, fetched when it is needed, by one request at a time."""

    def __init__(self, clock: Clock, fetch: Callable[[], Awaitable[T]]) -> None:
        self._clock = clock
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._found: tuple[T, float] | None = None  # with the time of the request
        self._failed: tuple[ProviderFailed, float] | None = None

    async def get(self, max_age: float = KEEP) -> T:
        async with self._lock:
            now = self._clock.now()
            if self._found is not None and now - self._found[1] < max_age:
                return self._found[0]
            if self._failed is not None and now - self._failed[1] < RETRY_AFTER:
                raise self._failed[0].with_traceback(None)
            try:
                self._found = await self._fetch(), now
            except ProviderFailed as problem:
                self._failed = problem, self._clock.now()
                raise
            return self._found[0]


class IdentityProvider:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._requests = ProviderRequests(client.tls_ca)
        self._configuration = Fetched(clock, self._fetch_configuration)
        self._keys = Fetched(clock, self._fetch_keys)

    @classmethod
    def of(cls, settings: Settings, clock: Clock) -> IdentityProvider:
        issuer, client_id = settings.oidc_issuer, settings.oidc_client_id
        assert issuer is not None
        assert client_id is not None
        client = Client(issuer, client_id, settings.oidc_client_secret, settings.oidc_scopes, settings.oidc_tls_ca)
        return cls(client, clock)

    async def login_url(self, begun: Begun, redirect_uri: str) -> str:
        """Where the browser goes to log in."""
        endpoint = (await self._configuration.get()).authorization_endpoint
        asked = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(["openid", *sorted(self._client.scopes - {"openid"})]),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": begun.challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"

    async def refuse_other_issuer(self, issuer: str) -> None:
        """``issuer``: the parameter of the response, empty if it has none."""
        is_needed = (await self._configuration.get()).names_issuer
        if issuer != self._client.issuer and (issuer or is_needed):
            raise Unauthorized("the response is from another identity provider (iss): log in again")

    async def claims(self, code: str, login: PendingLogin, peer: LoginPeer) -> dict[str, Any]:
        """The claims of the ID token that the provider gives for the code. Raises TokenRefused or an HttpError."""
        try:
            token = await self._exchange(code, login, peer)
            return await self._verified(token, Expected(self._client.issuer, self._client.client_id, login.nonce))
        except (ProviderFailed, TokenRefused):
            self._requests.note_failure(peer)
            raise

    async def _verified(self, token: str, expected: Expected) -> dict[str, Any]:
        header_of(token)  # refuses what is no token before keys are fetched for it
        try:
            return verified_claims(token, await self._keys.get(), expected, self._clock.wall())
        except UnknownKey:
            keys = await self._keys.get(NEW_KEYS_AFTER)
            return verified_claims(token, keys, expected, self._clock.wall())

    async def _exchange(self, code: str, login: PendingLogin, peer: LoginPeer) -> str:
        configuration, client = await self._configuration.get(), self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": login.redirect_uri,
            "client_id": client.client_id,
            "code_verifier": login.verifier,
        }
        headers = {}
        if client.client_secret is not None and configuration.takes_basic:
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif client.client_secret is not None:
            form["client_secret"] = client.client_secret
        status, reply = await self._requests.post(configuration.token_endpoint, form, headers, peer)
        token = reply.get("id_token")
        if status != 200 or not isinstance(token, str):
            error = reply.get("error")
            shown = f"error {error[:100]}" if isinstance(error, str) else "no ID token"
            raise ProviderFailed(f"the code of the login was answered with status {status} and {shown}")
        return token

    async def _fetch_configuration(self) -> Configuration:
        issuer = self._client.issuer
        return Configuration.parse(await self._requests.get(issuer.removesuffix("/") + DISCOVERY), issuer)

    async def _fetch_keys(self) -> SigningKeys:
        return SigningKeys.parse(await self._requests.get((await self._configuration.get()).jwks_uri))

    def close(self) -> None:
        self._requests.close()
