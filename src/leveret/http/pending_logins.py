"""Logins that have been sent to the identity provider and are not back yet.

Each has a random *state*, which the provider sends back, a *nonce*, which it puts into the ID token, and a PKCE
*verifier*, without which its code is worth nothing. The browser has a cookie with a random value, the time and the
redirect URI. State, nonce and verifier are derived from the cookie with a key that only this broker has: the state of
one browser cannot be used in another one, and the verifier leaves the broker only for the provider. The broker stores
nothing until a login is completed, so logins that are started and never completed cannot end others.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import NamedTuple
from urllib.parse import quote, unquote

from leveret.clock import Clock

SECONDS = 600.0  # for a person to log in at the provider
MOST_COMPLETED = 10_000  # above that, only the provider refuses a code that is used twice
RANDOM_BYTES = 32
SEPARATOR = ":"


class PendingLogin(NamedTuple):
    nonce: str
    verifier: str
    redirect_uri: str


class Begun(NamedTuple):
    state: str
    cookie: str
    nonce: str
    challenge: str


class PendingLogins:
    """``take`` returns each login once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(RANDOM_BYTES)
        self._completed: dict[str, float] = {}  # when each state was completed, the first one first

    def __len__(self) -> int:
        """Logins that are remembered."""
        return len(self._completed)

    def begin(self, redirect_uri: str) -> Begun:
        parts = secrets.token_urlsafe(RANDOM_BYTES), repr(self._clock.now()), quote(redirect_uri, safe="")
        cookie = SEPARATOR.join(parts)
        nonce, verifier = self._derived("nonce", cookie), self._derived("verifier", cookie)
        return Begun(self._derived("state", cookie), cookie, nonce, challenge_of(verifier))

    def take(self, state: str, cookie: str) -> PendingLogin | None:
        """None if the login has expired, was taken before, or was begun in another browser or by another broker."""
        now = self._clock.now()
        if not hmac.compare_digest(_bytes(state), _bytes(self._derived("state", cookie))):
            return None
        _, begun, uri = cookie.split(SEPARATOR)
        if now - float(begun) >= SECONDS or state in self._completed:
            return None
        self._remove_expired(now)
        self._completed[state] = now
        nonce, verifier = self._derived("nonce", cookie), self._derived("verifier", cookie)
        return PendingLogin(nonce, verifier, unquote(uri))

    def _derived(self, purpose: str, cookie: str) -> str:
        return _encoded(hmac.digest(self._key, _bytes(f"{purpose} {cookie}"), "sha256"))

    def _remove_expired(self, now: float) -> None:
        """A login that was completed so long ago was begun even earlier: it is refused without being remembered."""
        while self._completed:
            state, completed = next(iter(self._completed.items()))
            if len(self._completed) < MOST_COMPLETED and now - completed < SECONDS:
                return
            del self._completed[state]


def challenge_of(verifier: str) -> str:
    """PKCE with S256 (RFC 7636)."""
    return _encoded(hashlib.sha256(verifier.encode()).digest())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
