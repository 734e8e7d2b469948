"""TLS for listeners: the server's certificate, and which client certificates may log in."""

from __future__ import annotations

import ssl
from pathlib import Path

from leveret.errors import ConfigError


def server_context(certificate: Path, key: Path | None, authorities: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, _refuse_to_ask)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(
            f"cannot use the certificate {certificate} with key {key or certificate}: {problem}; "
            "check --tls-cert and --tls-key (both PEM, belonging together, readable)"
        ) from problem
    if authorities is not None:
        try:
            context.load_verify_locations(authorities)
        except (OSError, ssl.SSLError) as problem:
            raise ConfigError(f"cannot use the authorities in {authorities}: {problem}; check --tls-ca") from problem
        context.verify_mode = ssl.CERT_OPTIONAL  # without a certificate a password is asked for
    return context


def _refuse_to_ask() -> str:
    """Or OpenSSL would ask at the terminal, and hold the broker as long as nobody answers."""
    raise OSError("the key is encrypted, and nobody can be asked for its password; `openssl pkey` writes it in plain")
