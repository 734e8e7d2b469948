"""A small OpenID Connect provider over a real socket on this machine, which signs real tokens.

Its login page has one button. A test changes the attributes to make it behave wrongly: ``claims`` replaces or removes
(None) claims of the next tokens, ``sign`` replaces how they are signed.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT_ID, CLIENT_SECRET = "leveret", "s3cret/+:%"
Sign = Callable[[dict[str, Any]], str]


class SigningKey:
    """An RSA or elliptic key with its ID."""

    def __init__(self, kid: str, algorithm: str = "RS256") -> None:
        self.kid, self.algorithm = kid, algorithm
        self.key: Any = (
            rsa.generate_private_key(65537, 2048)
            if algorithm.startswith("RS")
            else ec.generate_private_key(ec.SECP256R1())
        )

    def jwk(self, **more: object) -> dict[str, Any]:
        kind = jwt.algorithms.RSAAlgorithm if self.algorithm.startswith("RS") else jwt.algorithms.ECAlgorithm
        public = kind.to_jwk(self.key.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm, **more}

    def sign(self, claims: dict[str, Any], **header: object) -> str:
        return jwt.encode(claims, self.key, self.algorithm, headers={"kid": self.kid, **header})


FIRST, SECOND, STRANGE = SigningKey("first"), SigningKey("second", "ES256"), SigningKey("first")


class Provider:
    def __init__(self, url: str) -> None:
        self.url = url
        self.now: Callable[[], float] = time.time
        self.reset()

    def reset(self) -> None:
        """As at first, but for the clock."""
        self.user = "ann"
        self.claims: dict[str, Any] = {}
        self.keys = [FIRST.jwk()]
        self.sign: Sign = FIRST.sign
        self.is_confidential = True  # whether the client has a secret
        self.error: str | None = None  # of the login page
        self.changes: dict[str, Any] = {}  # of the configuration
        self.replies: dict[str, tuple[int, bytes]] = {}  # other replies by path
        self.requests: list[str] = []  # paths
        self.forms: list[dict[str, str]] = []  # of requests for tokens
        self.codes: dict[str, dict[str, str]] = {}  # the parameters of each login

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            **self.changes,
        }

    def log_in(self, parameters: dict[str, str]) -> str:
        """Where the browser goes after the login."""
        assert parameters["client_id"] == CLIENT_ID
        assert parameters["response_type"] == "code"
        assert parameters["code_challenge_method"] == "S256"
        assert "openid" in parameters["scope"].split()
        back = {"state": parameters["state"], "iss": self.url}
        if self.error is not None:
            back |= {"error": self.error, "error_description": "the user\nsaid no"}
        else:
            code = secrets.token_urlsafe()
            self.codes[code] = parameters
            back["code"] = code
        return f"{parameters['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form["code"], None)
        self.forms.append(form)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        secret = "".join(f"%{ord(char):02X}" if not char.isalnum() else char for char in CLIENT_SECRET)
        expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{secret}".encode()).decode()
        if self.is_confidential and authorization != expected and form.get("client_secret") != CLIENT_SECRET:
            return 401, {"error": "invalid_client"}
        if (
            asked is None
            or challenge.decode() != asked["code_challenge"]
            or form["redirect_uri"] != asked["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(self.now())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "sub": "1",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "preferred_username": self.user,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.sign(claims)}


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.provider.requests.append(parts.path)
        parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path in self.provider.replies:
            self._answer(*self.provider.replies[parts.path])
        elif parts.path == "/.well-known/openid-configuration":
            self._answer(200, json.dumps(self.provider.configuration()).encode())
        elif parts.path == "/keys":
            self._answer(200, json.dumps({"keys": self.provider.keys}).encode())
        elif parts.path == "/authorize":
            address = html.escape(f"/confirm?{urlencode(parameters)}")
            page = f"<title>Provider</title><link rel=icon href='data:,'><a href='{address}'>Continue</a>"
            self._answer(200, page.encode(), "text/html")
        elif parts.path == "/confirm":
            self.send_response(302)
            self.send_header("Location", self.provider.log_in(parameters))
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._answer(404, b"{}")

    def do_POST(self) -> None:
        self.provider.requests.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path in self.provider.replies:
            self._answer(*self.provider.replies[self.path])
            return
        form = {name: values[0] for name, values in parse_qs(body).items()}
        status, reply = self.provider.token(form, self.headers.get("Authorization", ""))
        self._answer(status, json.dumps(reply).encode())

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running_provider(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    """``host``: a name of this machine, for the URL."""
    handler = type("OwnHandler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        handler.provider = provider = Provider(f"{scheme}://{host}:{server.server_port}")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
