"""ID tokens of OpenID Connect: signature, issuer, audience, times and nonce.

The key decides on the algorithm, not the token: a key of the provider is used with the algorithms of its type only, and
only public keys (RSA, elliptic curves) are used. A token with ``alg: none``, or with an HMAC of the public key, is
refused. Times are compared with the clock that is passed in, so PyJWT does not check them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

import jwt

from leveret.errors import LeveretError

RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
LEEWAY = 60.0  # seconds by which the clocks of broker and provider may differ
LATEST = 1e12  # seconds since 1970
UNREADABLE = "it is not a signed token, or needs an extension (crit)"
NEEDED = ["aud", "exp", "iat", "iss", "sub"]
OPTIONS: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "require": NEEDED}
REASONS: tuple[tuple[type[Exception], str], ...] = (  # without the texts of PyJWT, which can quote the token
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its algorithm does not belong to the key"),
    (jwt.InvalidAudienceError, "it is for another client (aud)"),
    (jwt.InvalidIssuerError, "it is from another issuer (iss)"),
    (jwt.MissingRequiredClaimError, f"it does not have all of the claims {', '.join(NEEDED)}"),
)


class TokenRefused(LeveretError):
    """The text completes "the ID token was refused: ...", and quotes no part of the token."""


class UnknownKey(TokenRefused):
    """The provider may have a new key since its keys were fetched."""


@dataclass(slots=True, frozen=True)
class SigningKey:
    id: str | None
    algorithms: tuple[str, ...]
    key: Any  # a public key of the package cryptography


@dataclass(slots=True, frozen=True)
class Expected:
    """What a valid token has."""

    issuer: str
    client_id: str
    nonce: str


class SigningKeys:
    """The public keys of a provider that can verify signatures."""

    def __init__(self, keys: Iterable[SigningKey]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def parse(cls, document: Mapping[str, object]) -> SigningKeys:
        """``document``: a JSON Web Key Set. Other keys in it are skipped: for encryption, symmetric or unknown ones."""
        listed = document.get("keys")
        found = [_signing_key(each) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        return cls(each for each in found if each is not None)

    def find(self, header: Mapping[str, object]) -> SigningKey:
        """The key of a token with this header. A token without ``kid`` needs a provider with one key for it."""
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in (*RSA, *CURVES.values()):
            raise TokenRefused("its algorithm is not one of RS256, PS256, ES256 and their longer forms")
        named = self._keys if kid is None else tuple(key for key in self._keys if key.id == kid)
        usable = [key for key in named if algorithm in key.algorithms]
        if len(usable) == 1:
            return usable[0]
        if not named:
            raise UnknownKey("the provider has no key with its ID (kid)")
        raise TokenRefused(
            "its algorithm does not belong to the key" if not usable else "it does not name its key (kid)"
        )


def _signing_key(jwk: dict[str, Any]) -> SigningKey | None:
    algorithms = _algorithms(jwk)
    if not algorithms or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    try:
        key = jwt.PyJWK.from_dict(jwk, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    kid = jwk.get("kid")
    return SigningKey(kid if isinstance(kid, str) else None, algorithms, key)


def _algorithms(jwk: Mapping[str, object]) -> tuple[str, ...]:
    """By the type of the key; if it names its algorithm, only that."""
    curve = jwk.get("crv")
    if jwk.get("kty") == "RSA":
        possible: tuple[str, ...] = RSA
    elif jwk.get("kty") == "EC" and isinstance(curve, str) and curve in CURVES:
        possible = (CURVES[curve],)
    else:
        return ()
    named = jwk.get("alg")
    return possible if named is None else tuple(each for each in possible if each == named)


def header_of(token: str) -> dict[str, Any]:
    """The header, which nothing has verified yet."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise TokenRefused(UNREADABLE) from None
    if "crit" in header:  # newer versions of PyJWT refuse it themselves
        raise TokenRefused(UNREADABLE)
    return header


def verified_claims(token: str, keys: SigningKeys, expected: Expected, now: float) -> dict[str, Any]:
    """The claims of a valid token. ``now``: seconds since 1970. Raises TokenRefused."""
    key = keys.find(header_of(token))
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=list(key.algorithms),
            audience=expected.client_id,
            issuer=expected.issuer,
            options=OPTIONS,
        )
    except jwt.PyJWTError as problem:
        raise TokenRefused(_reason(problem)) from None
    _refuse_other_party(claims, expected.client_id)
    _refuse_wrong_times(claims, now)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not compare_digest(nonce.encode("utf-8", "replace"), expected.nonce.encode()):
        raise TokenRefused("it is the answer to another login (nonce)")
    return claims


def _reason(problem: jwt.PyJWTError) -> str:
    return next((reason for kind, reason in REASONS if isinstance(problem, kind)), "it is malformed")


def _refuse_other_party(claims: Mapping[str, Any], client_id: str) -> None:
    """A token for several clients must name this one as the one that it was issued to."""
    is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if is_shared else client_id) != client_id:
        raise TokenRefused("it was issued to another client (azp)")


def _refuse_wrong_times(claims: Mapping[str, Any], now: float) -> None:
    expires, issued, begins = (_time(claims, name) for name in ("exp", "iat", "nbf"))
    if expires is None or expires + LEEWAY <= now:
        raise TokenRefused("it has expired (exp): compare the clocks of the broker and the provider")
    if issued is None or issued - LEEWAY > now or (begins is not None and begins - LEEWAY > now):
        raise TokenRefused("it is from the future (iat, nbf): compare the clocks of the broker and the provider")


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LATEST:  # also refuses nan
        raise TokenRefused(f"its claim {name} is not a time")
    return float(value)
