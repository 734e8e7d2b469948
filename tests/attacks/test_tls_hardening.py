"""What TLS refuses. CWE-299, improper check for certificate revocation: a client certificate that was revoked does not
log in. CWE-327, use of a risky cryptographic algorithm: TLS 1.2 with AEAD suites only. CWE-319, cleartext transmission:
browsers can be required to use TLS only (HSTS)."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

import leveret
from leveret.errors import ConfigError
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.methods import ConnectionStart
from tests.support.certificates import CertificateFiles
from tests.support.raw_client import RawClient, eventually

NOW = datetime.now(UTC)
A_DAY = timedelta(days=1)


@pytest.fixture
def certificates(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(tmp_path)


@pytest.fixture
def crl(certificates: CertificateFiles, tmp_path: Path) -> Path:
    """Of the authority of clients; nothing is revoked yet."""
    path = tmp_path / "crl.pem"
    revoke(path, certificates.authority)
    return path


@pytest.fixture
def broker(certificates: CertificateFiles, crl: Path) -> Iterator[leveret.Broker]:
    with leveret.Broker(certificates.settings(tls_crl=crl)) as running:
        yield running


def revoke(path: Path, authority: trustme.CA, *leaves: trustme.LeafCert, until: datetime = NOW + A_DAY) -> None:
    signed_by = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    builder = x509.CertificateRevocationListBuilder().issuer_name(signed_by.subject)
    builder = builder.last_update(NOW - 2 * A_DAY).next_update(until)
    for leaf in leaves:
        serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(NOW - A_DAY).build()
        builder = builder.add_revoked_certificate(revoked)
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))  # type: ignore[arg-type]


def client_with(certificates: CertificateFiles, leaf: trustme.LeafCert | None) -> ssl.SSLContext:
    context = certificates.client()
    if leaf is not None:
        leaf.configure_cert(context)
    return context


def is_let_in(broker: leveret.Broker, context: ssl.SSLContext) -> bool:
    """The broker speaks to the client: in TLS 1.3 a refusal comes after the client's side of the handshake."""
    try:
        with RawClient(broker.amqps_url, tls=context) as client:
            client.send_bytes(PROTOCOL_HEADER)
            client.expect(ConnectionStart, 0)
            return True
    except (ssl.SSLError, ConnectionError, AssertionError):
        return False


# ---- revoked certificates


def test_a_revoked_certificate_is_refused_once_the_list_says_so(
    broker: leveret.Broker, certificates: CertificateFiles, crl: Path
) -> None:
    ann, bob = (certificates.authority.issue_cert(common_name=name) for name in ("ann", "bob"))
    contexts = {name: client_with(certificates, leaf) for name, leaf in {"ann": ann, "bob": bob, "": None}.items()}
    assert all(is_let_in(broker, context) for context in contexts.values())
    revoke(crl, certificates.authority, ann)
    broker.clock.advance(60)
    eventually(lambda: not is_let_in(broker, contexts["ann"]))
    assert is_let_in(broker, contexts["bob"])
    assert is_let_in(broker, contexts[""])  # a password is asked for


def test_a_list_that_has_expired_lets_no_certificate_in(certificates: CertificateFiles, crl: Path) -> None:
    revoke(crl, certificates.authority, until=NOW - A_DAY)
    with leveret.Broker(certificates.settings(tls_crl=crl)) as broker:
        assert not is_let_in(broker, certificates.client("ann"))
        assert is_let_in(broker, certificates.client())


def test_an_authority_without_a_list_lets_no_certificate_in(certificates: CertificateFiles, crl: Path) -> None:
    revoke(crl, trustme.CA())
    with leveret.Broker(certificates.settings(tls_crl=crl)) as broker:
        assert not is_let_in(broker, certificates.client("ann"))


def test_a_file_without_a_list_is_refused_and_trusts_no_client(certificates: CertificateFiles, tmp_path: Path) -> None:
    """OpenSSL would take the certificates in it for authorities."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_bytes(trustme.CA().cert_pem.bytes())
    with pytest.raises(ConfigError, match=r"wrong\.pem.*--tls-crl"):
        leveret.Broker(certificates.settings(tls_crl=wrong)).start()


# ---- suites


@pytest.mark.parametrize(
    ("suites", "is_accepted"), [("ECDHE+AESGCM", True), ("ECDHE+CHACHA20", True), ("ECDHE+AES:!AESGCM:!AESCCM", False)]
)
def test_tls_1_2_has_aead_suites_only(
    broker: leveret.Broker, certificates: CertificateFiles, suites: str, is_accepted: bool
) -> None:
    context = certificates.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(suites)
    address = urlsplit(broker.amqps_url)
    with socket.create_connection((address.hostname or "", address.port or 0), 5) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
                assert sealed.version() == "TLSv1.2"
                assert is_accepted
        except ssl.SSLError:
            assert not is_accepted


# ---- browsers


@pytest.mark.parametrize(("seconds", "told"), [(0, None), (86400, "max-age=86400")])
def test_hsts_is_sent_only_if_it_is_configured_and_over_tls(
    certificates: CertificateFiles, seconds: int, told: str | None
) -> None:
    settings = certificates.settings(http_port=0, https_port=0, hsts_max_age=seconds)
    with leveret.Broker(settings) as broker:
        plain, sealed = urlsplit(broker.http_url), urlsplit(broker.https_url)
        for connection, expected in (
            (http.client.HTTPConnection(plain.hostname or "", plain.port, timeout=10), None),
            (
                http.client.HTTPSConnection(
                    sealed.hostname or "", sealed.port, timeout=10, context=certificates.client()
                ),
                told,
            ),
        ):
            for path in ("/", "/api/whoami", "/nothing"):
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                assert answer.getheader("strict-transport-security") == expected
            connection.close()
