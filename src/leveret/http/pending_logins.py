"""Logins that have been sent to the identity provider and are not back yet.

Each has a random *state*, which the provider sends back, a *nonce*, which it puts into the ID token, and a PKCE
*verifier*, without which its code is worth nothing. They stay in the broker. The browser has a cookie with a random
value, of which the broker keeps a digest: the state of one browser cannot be used in another one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections import Counter
from dataclasses import dataclass
from hmac import compare_digest
from typing import NamedTuple

from leveret.clock import Clock

SECONDS = 600.0  # for a person to log in at the provider
MOST = 1_000
RANDOM_BYTES = 32


@dataclass(slots=True, frozen=True)
class PendingLogin:
    browser: bytes  # digest of the cookie
    nonce: str
    verifier: str
    redirect_uri: str
    source: str  # the address that limits apply to
    begun: float


class Begun(NamedTuple):
    state: str
    browser: str
    """For the cookie."""
    nonce: str
    challenge: str


class PendingLogins:
    """The oldest one first. ``take`` removes a login: each can be completed once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logins: dict[str, PendingLogin] = {}

    def __len__(self) -> int:
        return len(self._logins)

    def begin(self, redirect_uri: str, source: str) -> Begun:
        """If there are too many, the oldest login of the source with the most is removed."""
        now = self._clock.now()
        self._remove_expired(now)
        if len(self._logins) >= MOST:
            ((largest, _),) = Counter(each.source for each in self._logins.values()).most_common(1)
            del self._logins[next(state for state, each in self._logins.items() if each.source == largest)]
        state, browser, nonce, verifier = (secrets.token_urlsafe(RANDOM_BYTES) for _ in range(4))
        self._logins[state] = PendingLogin(_digest(browser), nonce, verifier, redirect_uri, source, now)
        return Begun(state, browser, nonce, challenge_of(verifier))

    def take(self, state: str, browser: str) -> PendingLogin | None:
        """``browser``: the value of the cookie. None if there is no such login, it has expired, or it was begun in
        another browser."""
        login = self._logins.pop(state, None)
        if login is None or self._has_expired(login, self._clock.now()):
            return None
        return login if compare_digest(login.browser, _digest(browser)) else None

    def _has_expired(self, login: PendingLogin, now: float) -> bool:
        return now - login.begun >= SECONDS

    def _remove_expired(self, now: float) -> None:
        for state in [state for state, login in self._logins.items() if self._has_expired(login, now)]:
            del self._logins[state]


def challenge_of(verifier: str) -> str:
    """PKCE with S256 (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
