"""Run in the environments with the extra `oidc`: ID tokens are verified, and refused with the same reasons."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from leveret.auth.id_tokens import Expected, SigningKeys, TokenRefused, verified_claims

NOW = 1_800_000_000.0
EXPECTED = Expected("https://id.example", "leveret", "once")
CLAIMS = {"iss": "https://id.example", "aud": "leveret", "sub": "7", "nonce": "once", "iat": NOW, "exp": NOW + 60}
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, algorithm: type, **more: str) -> dict[str, Any]:
    named = algorithm(algorithm.SHA256).to_jwk(key.public_key())  # type: ignore[attr-defined]
    return {**json.loads(named), **more}


KEYS = SigningKeys.parse(
    {
        "keys": [
            jwk(RSA_KEY, jwt.algorithms.RSAAlgorithm, kid="r"),
            jwk(EC_KEY, jwt.algorithms.ECAlgorithm, kid="e", use="sig"),
            {"kty": "oct", "k": "c2VjcmV0", "kid": "s"},
        ]
    }
)


def token(key: Any, algorithm: str, kid: str, header: dict[str, Any] | None = None, **claims: Any) -> str:
    return jwt.encode({**CLAIMS, **claims}, key, algorithm, headers={"kid": kid, **(header or {})})


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_a_token_with_an_rsa_key_is_accepted(algorithm: str) -> None:
    assert verified_claims(token(RSA_KEY, algorithm, "r"), KEYS, EXPECTED, NOW)["sub"] == "7"


def test_a_token_with_an_elliptic_curve_is_accepted() -> None:
    assert verified_claims(token(EC_KEY, "ES256", "e"), KEYS, EXPECTED, NOW)["sub"] == "7"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(OTHER_KEY, "ES256", "e"), "its signature is wrong"),
        (token(EC_KEY, "ES256", "e", aud="other"), "it is for another client (aud)"),
        (token(EC_KEY, "ES256", "e", iss="https://other.example"), "it is from another issuer (iss)"),
        (token(EC_KEY, "ES256", "e", iss="https://id"), "it is from another issuer (iss)"),  # not with PyJWT 2.10.0
        (token(EC_KEY, "ES256", "e", nonce="other"), "it is the answer to another login (nonce)"),
        (token(EC_KEY, "ES256", "e", exp=NOW - 61), "it has expired (exp)"),
        (token(EC_KEY, "ES256", "e", exp="soon"), "its claim exp is not a time"),
        (token(EC_KEY, "ES256", "e", sub=None), "it does not have all of the claims"),
        (token(EC_KEY, "ES256", "e", {"crit": ["x"], "x": 1}), "needs an extension (crit)"),
        (token(EC_KEY, "ES256", "r"), "its algorithm does not belong to the key"),
        (token("secret" * 8, "HS256", "s"), "its algorithm is not one of RS256"),
        (token(None, "none", "e"), "its algorithm is not one of RS256"),
        ("no token", "it is not a signed token"),
    ],
)
def test_other_tokens_are_refused(text: str, reason: str) -> None:
    with pytest.raises(TokenRefused) as caught:
        verified_claims(text, KEYS, EXPECTED, NOW)
    assert reason in str(caught.value)
