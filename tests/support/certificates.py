"""Certificates for tests, and TLS contexts of clients that trust them."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import trustme

from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser
from leveret.config import Settings


class CertificateFiles:
    """The files of a server, written anew as often as one likes, and clients that trust their authority."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key, self.clients = (folder / name for name in ("server.pem", "server.key", "ca.pem"))
        self.authority = trustme.CA()
        self.trust_clients_of(self.authority)
        self.renew()

    def renew(self) -> bytes:
        """The new certificate, in the form in which a peer sees it."""
        issued = self.authority.issue_cert("127.0.0.1")
        self.write_certificate(issued)
        self.write_key(issued)
        return der(issued)

    def write_certificate(self, issued: trustme.LeafCert) -> None:
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    def write_key(self, issued: trustme.LeafCert) -> None:
        self.key.write_bytes(issued.private_key_pem.bytes())

    def trust_clients_of(self, authority: trustme.CA) -> None:
        self.clients.write_bytes(authority.cert_pem.bytes())

    def client(self, user: str | None = None, authority: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if user is not None:
            (authority or self.authority).issue_cert(common_name=user).configure_cert(context)
        return context

    def flags(self) -> tuple[str, ...]:
        files = ("--tls-cert", str(self.certificate), "--tls-key", str(self.key), "--tls-ca", str(self.clients))
        return ("--amqps-port", "0", *files)

    def settings(self, **given: object) -> Settings:
        ann = Bootstrap(users=(BootstrapUser("ann"),), permissions=(BootstrapPermission("ann", "/", "", "", ".*"),))
        ports = {"amqp_port": None, "amqps_port": 0, "http_port": None, "https_port": None, "stomp_port": None}
        files = {"tls_cert": self.certificate, "tls_key": self.key, "tls_ca": self.clients}
        return Settings(**(ports | files | {"bootstrap": ann, "shutdown_timeout": 0.5} | given))  # type: ignore[arg-type]


def der(issued: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


def shown(url: str, certificates: CertificateFiles) -> bytes:
    """The certificate that a new peer meets."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), 60) as plain:
        with certificates.client().wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
            return sealed.getpeercert(binary_form=True) or b""
