"""TLS for listeners: the server's certificate, and which client certificates may log in.

TLS 1.2 is offered with forward secrecy and authenticated encryption only: Python's defaults include CBC suites. TLS 1.3
has nothing else. With a file of revocation lists, every authority in the chain of a client certificate must have a
current list in it, as with nginx and HAProxy: without one, or with one that has expired, the certificate is refused.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from leveret.errors import ConfigError

SUITES = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2


class TlsFiles(NamedTuple):
    certificate: Path
    key: Path | None = None
    authorities: Path | None = None  # of clients
    revoked: Path | None = None  # lists of their certificates


def server_context(files: TlsFiles, *, asks_clients: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(SUITES)
    _load_certificate(context, files.certificate, files.key)
    if asks_clients and files.authorities is not None:
        _load_authorities(context, files.authorities)
        context.verify_mode = ssl.CERT_OPTIONAL  # without a certificate a password is asked for
        if files.revoked is not None:
            _load_revoked(context, files.revoked)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key, _refuse_to_ask)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(
            f"cannot use the certificate {certificate} with key {key or certificate}: {problem}; "
            "check --tls-cert and --tls-key (both PEM, belonging together, readable)"
        ) from problem


def _load_authorities(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"cannot use the authorities in {authorities}: {problem}; check --tls-ca") from problem


def _load_revoked(context: ssl.SSLContext, revoked: Path) -> None:
    """OpenSSL loads certificates and revocation lists from the same kind of file: a certificate in this one would
    become an authority."""
    before = context.cert_store_stats()
    try:
        context.load_verify_locations(revoked)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"cannot use the revocation lists in {revoked}: {problem}; check --tls-crl") from problem
    after = context.cert_store_stats()
    if after["crl"] == before["crl"] or after["x509"] != before["x509"]:
        raise ConfigError(
            f"cannot use the revocation lists in {revoked}: it must hold revocation lists (PEM, X509 CRL) and no "
            "certificates; check --tls-crl"
        )
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN


def _refuse_to_ask() -> str:
    """Without this, OpenSSL would ask for the password at the terminal and block the broker."""
    raise OSError("the key is encrypted: write it without a password, for instance with `openssl pkey`")
