"""AMQP over TLS: the server's certificate, clients that log in with theirs, and what is refused."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser
from leveret.config import Settings
from leveret.errors import ConfigError
from leveret.wire.methods import BasicGet, BasicGetOk, ConnectionStart, QueueDeclare, QueueDeclareOk
from tests.support.raw_client import RawClient


@dataclass(frozen=True)
class CertificateFiles:
    """Files of a server, and contexts of clients that trust it."""

    folder: Path
    authority: trustme.CA

    def client(self, name: str | None = None, authority: trustme.CA | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if name is not None:
            (authority or self.authority).issue_cert(common_name=name).configure_cert(context)
        return context

    def settings(self, **given: object) -> Settings:
        files = {"tls_cert": self.folder / "server.pem", "tls_key": self.folder / "server.key"}
        files["tls_ca"] = self.folder / "ca.pem"
        bootstrap = Bootstrap(
            users=(BootstrapUser("ann"),), permissions=(BootstrapPermission("ann", "/", ".*", ".*", ".*"),)
        )
        quiet = {
            "amqp_port": None,
            "amqps_port": 0,
            "http_port": None,
            "https_port": None,
            "stomp_port": None,
            "bootstrap": bootstrap,
        }
        return Settings(**(quiet | files | {"login_failure_delay": 0.05} | given))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    server = authority.issue_cert("127.0.0.1", "localhost")
    server.private_key_pem.write_to_path(folder / "server.key")
    for blob in server.cert_chain_pems:
        blob.write_to_path(folder / "server.pem", append=True)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return CertificateFiles(folder, authority)


@pytest.fixture(scope="module")
def broker(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    with leveret.Broker(certificates.settings()) as running:
        yield running


@pytest.mark.feature("S4-56")
def test_a_password_works_over_tls(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    """The same protocol inside; large messages pass both ways."""
    assert broker.amqps_url.startswith("amqps://guest:guest@127.0.0.1:")
    with RawClient.open(broker.amqps_url, tls=certificates.client()) as client:
        assert client.start is not None
        assert b"EXTERNAL" not in client.start.mechanisms.split()
        client.call(QueueDeclare("sealed", exclusive=True), QueueDeclareOk)
        client.publish("", "sealed", bytes(1_000_000))
        client.send(BasicGet("sealed", no_ack=True))
        assert len(client.expect_content(BasicGetOk).body) == 1_000_000
        client.close()


def test_a_client_certificate_logs_in_by_its_common_name(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    """EXTERNAL, offered only to those who showed a certificate; the user has no password at all."""
    with RawClient.open(broker.amqps_url, tls=certificates.client("ann"), mechanism="EXTERNAL", response=b"") as client:
        assert client.start is not None
        assert b"EXTERNAL" in client.start.mechanisms.split()
        client.is_alive()
        names = broker.call(lambda: [each.user.name for each in broker.node.broker.registry.connections])
        assert names == ["ann"]
        client.close()


def test_a_certificate_of_an_unknown_user_is_refused(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    with RawClient(broker.amqps_url, tls=certificates.client("nobody")) as client:
        client.login(mechanism="EXTERNAL", response=b"")
        assert "mechanism EXTERNAL" in client.expect_close(403).reply_text


def test_external_without_a_certificate_is_503(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    with RawClient(broker.amqps_url, tls=certificates.client()) as client:
        client.login(mechanism="EXTERNAL", response=b"")
        client.expect_close(503)


def test_a_certificate_of_another_authority_is_refused_by_tls(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        with RawClient(broker.amqps_url, tls=certificates.client("ann", trustme.CA())) as client:
            client.login(mechanism="EXTERNAL", response=b"")
    with RawClient.open(broker.amqps_url, tls=certificates.client()) as client:
        client.is_alive()


def test_a_client_may_still_use_a_password_beside_its_certificate(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    with RawClient.open(broker.amqps_url, tls=certificates.client("ann")) as client:
        client.is_alive()


def test_plain_amqp_at_the_tls_door_harms_nobody(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    with RawClient(broker.amqps_url) as client:
        client.send_bytes(b"AMQP\0\0\x09\x01")
        with pytest.raises((AssertionError, OSError)):
            client.expect(ConnectionStart, 0)
    with RawClient.open(broker.amqps_url, tls=certificates.client()) as client:
        client.is_alive()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(
    version: ssl.TLSVersion, broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    context = certificates.client()
    context.minimum_version = context.maximum_version = version
    with RawClient.open(broker.amqps_url, tls=context) as client:
        client.is_alive()


def test_the_deadline_of_the_handshake_holds_for_tls_too(certificates: CertificateFiles) -> None:
    """In all: one deadline for both handshakes. A peer that says nothing, and one that stops after TLS."""
    with leveret.Broker(certificates.settings()) as broker:
        with RawClient(broker.amqps_url, tls=certificates.client()) as idle:
            broker.call(lambda: broker.node.apply(certificates.settings(handshake_timeout=0.4)))
            with RawClient(broker.amqps_url) as mute:
                mute.expect_raw(b"")
            idle.expect_eof()


def test_both_doors_are_open_at_once(certificates: CertificateFiles) -> None:
    with leveret.Broker(certificates.settings(amqp_port=0)) as broker:
        with (
            RawClient.open(broker.amqp_url) as plain,
            RawClient.open(broker.amqps_url, tls=certificates.client()) as sealed,
        ):
            plain.call(QueueDeclare("between"), QueueDeclareOk)
            plain.publish("", "between", b"hello")
            plain.is_alive()
            sealed.send(BasicGet("between", no_ack=True))
            assert sealed.expect_content(BasicGetOk).body == b"hello"


def test_files_that_cannot_be_used_are_named(certificates: CertificateFiles, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    for name, flag in (("tls_cert", "--tls-cert"), ("tls_key", "--tls-key"), ("tls_ca", "--tls-ca")):
        with pytest.raises(ConfigError, match=flag):
            leveret.Broker(certificates.settings(**{name: nothing})).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nothing was left listening by the failed starts
