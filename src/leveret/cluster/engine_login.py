"""How a node logs in to the NATS servers, and how it verifies them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.errors import AuthorizationError
from nats.errors import Error as NatsError

REFUSALS = ("authorization violation", "authentication expired", "authentication revoked", "account authentication")


class TlsMissing(NatsError):
    """The server does not offer TLS, but the URL or the settings demand it."""


class CautiousClient(Client):
    """nats-py uses TLS only if the server demands it, even for ``tls://``: a man in the middle could get the login."""

    needs_tls = False

    def _connect_command(self) -> bytes:
        """Called when TLS is established, before the login is sent."""
        if self.needs_tls and not self._server_info.get("tls_required"):
            raise TlsMissing("the server does not use TLS")
        return super()._connect_command()


@dataclass(frozen=True, slots=True)
class EngineLogin:
    """User and password, or a credentials file, or neither. Files are read for each connection, so that they can be
    renewed while the node runs."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    credentials: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def client(self, url: str) -> Client:
        client = CautiousClient()
        client.needs_tls = self._needs_tls(url)
        return client

    def connect_options(self, url: str) -> dict[str, Any]:
        """For ``Client.connect``. Raises OSError for a file that cannot be used, ModuleNotFoundError without nkeys."""
        for path in (self.credentials, self.tls_ca, self.tls_cert, self.tls_key):
            if path is not None:
                path.open("rb").close()  # its error has the name of the file, that of ssl has not
        options: dict[str, Any] = {"user": self.user, "password": self.password}
        if self.credentials is not None:
            import_module("nkeys")
            options["user_credentials"] = self.credentials
        if self._needs_tls(url):
            options["tls"] = self.tls_context()
        return {name: value for name, value in options.items() if value is not None}

    def _needs_tls(self, url: str) -> bool:
        return urlsplit(url).scheme == "tls" or bool(self.tls_ca or self.tls_cert)

    def tls_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.tls_ca)
        if self.tls_cert is not None:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        return context

    def remedy(self, problem: BaseException) -> str | None:
        """What to change, if this problem will not go away by itself."""
        text = str(problem).lower()
        if isinstance(problem, AuthorizationError) or any(refusal in text for refusal in REFUSALS):
            return self._login_remedy()
        if isinstance(problem, TlsMissing):
            return "configure 'tls' in the NATS server, or use nats:// and no cluster_tls_* settings"
        if isinstance(problem, ModuleNotFoundError):
            return "a credentials file needs the package nkeys: pip install 'nats-py[nkeys]'"
        if isinstance(problem, ssl.SSLCertVerificationError):
            return "set cluster_tls_ca to the CA of the NATS servers, and use a host name that is in their certificates"
        if "certificate required" in text:
            return "the NATS server demands a client certificate: set cluster_tls_cert and cluster_tls_key"
        if isinstance(problem, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return None  # the server has ended
        if isinstance(problem, ssl.SSLError) or (isinstance(problem, OSError) and problem.filename is not None):
            return "check the files of cluster_tls_ca, cluster_tls_cert, cluster_tls_key and cluster_credentials"
        return None

    def _login_remedy(self) -> str:
        if self.credentials is not None:
            return f"check that {self.credentials} is for a user of these NATS servers"
        if self.user is not None:
            return "correct cluster_user and cluster_password"
        return "set cluster_user and cluster_password, or cluster_credentials"


NO_LOGIN = EngineLogin()
