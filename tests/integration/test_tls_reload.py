"""Certificates that are renewed while the broker runs: new peers meet the new one, the others stay."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser
from leveret.config import Settings
from leveret.errors import ConfigError
from tests.support.raw_client import RawClient, eventually
from tests.support.serving import Serving
from tests.support.supervisor import Supervisor

MINUTE = 60


class Papers:
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
        ports = {"amqp_port": None, "amqps_port": 0, "http_port": None, "stomp_port": None}
        files = {"tls_cert": self.certificate, "tls_key": self.key, "tls_ca": self.clients}
        return Settings(**(ports | files | {"bootstrap": ann, "shutdown_timeout": 0.5} | given))  # type: ignore[arg-type]


def der(issued: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


def shown(url: str, papers: Papers) -> bytes:
    """The certificate that a new peer meets."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), 5) as plain:
        with papers.client().wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
            return sealed.getpeercert(binary_form=True) or b""


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


@pytest.fixture
def broker(papers: Papers) -> Iterator[leveret.Broker]:
    with leveret.Broker(papers.settings()) as running:
        yield running


def test_a_renewed_certificate_is_noticed_within_a_minute(broker: leveret.Broker, papers: Papers) -> None:
    """Who is connected stays; new peers meet the new one; and so again and again."""
    url = broker.amqps_url
    with RawClient.open(url, tls=papers.client()) as early:
        for _ in range(3):
            old, new = shown(url, papers), papers.renew()
            assert shown(url, papers) == old  # nobody has looked yet
            broker.clock.advance(MINUTE)
            eventually(lambda new=new: shown(url, papers) == new)  # type: ignore[misc]
        early.is_alive()
        with RawClient.open(url, tls=papers.client()) as late:
            late.is_alive()


def test_files_that_did_not_change_are_not_read_again(
    broker: leveret.Broker, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "leveret.tls"):
        for _ in range(5):
            broker.clock.advance(MINUTE)
        new = papers.renew()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(broker.amqps_url, papers) == new)
        eventually(lambda: shown(broker.amqps_url, papers) and "certificate renewed" in caplog.text)
    assert caplog.text.count("certificate renewed") == 1


def test_a_broken_file_keeps_the_old_certificate_and_is_logged_once(
    broker: leveret.Broker, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    url = broker.amqps_url
    old = shown(url, papers)
    with caplog.at_level(logging.INFO, "leveret.tls"):
        papers.certificate.write_text("nothing of the kind")
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, papers) == old and "the old one stays" in caplog.text)
        broker.clock.advance(MINUTE)
        papers.certificate.unlink()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, papers) == old and caplog.text.count("the old one stays") == 2)
        assert str(papers.certificate) in caplog.text
        assert "check --tls-cert and --tls-key" in caplog.text
        new = papers.renew()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, papers) == new)
    assert caplog.text.count("the old one stays") == 2


def test_a_renewal_seen_half_way_is_taken_once_it_is_whole(
    broker: leveret.Broker, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    url = broker.amqps_url
    old, issued = shown(url, papers), papers.authority.issue_cert("127.0.0.1")
    with caplog.at_level(logging.INFO, "leveret.tls"):
        papers.write_certificate(issued)
        broker.clock.advance(MINUTE)  # the key is still the other one's
        eventually(lambda: shown(url, papers) == old and "the old one stays" in caplog.text)
    papers.write_key(issued)
    broker.clock.advance(MINUTE)
    eventually(lambda: shown(url, papers) == der(issued))


def test_an_authority_that_is_taken_away_lets_nobody_in_any_more(broker: leveret.Broker, papers: Papers) -> None:
    """A context that is changed in place would keep it."""
    url, other = broker.amqps_url, trustme.CA()

    def enters(authority: trustme.CA) -> bool:
        try:
            with RawClient.open(
                url, tls=papers.client("ann", authority), mechanism="EXTERNAL", response=b"", channels=0
            ):
                return True
        except (OSError, AssertionError):
            return False

    assert enters(papers.authority)
    assert not enters(other)
    papers.trust_clients_of(other)
    broker.clock.advance(MINUTE)
    eventually(lambda: enters(other))
    assert not enters(papers.authority)


def test_every_address_gets_the_new_certificate(papers: Papers) -> None:
    with leveret.Broker(papers.settings(host=("127.0.0.1", "127.0.0.2"))) as broker:
        url, new = broker.amqps_url, papers.renew()
        broker.clock.advance(MINUTE)
        for address in (url, url.replace("127.0.0.1", "127.0.0.2")):
            eventually(lambda address=address: shown(address, papers) == new)  # type: ignore[misc]


def test_the_port_is_free_after_a_broker_that_renewed_has_stopped(papers: Papers) -> None:
    """Each renewal has a descriptor of its own for the socket; none may outlive the broker."""
    with leveret.Broker(papers.settings()) as broker:
        url, new = broker.amqps_url, papers.renew()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, papers) == new)
    with pytest.raises(ConnectionRefusedError):
        shown(url, papers)


def test_sighup_renews_at_once(papers: Papers, tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        with Serving(tmp_path, *papers.flags(), environ=supervisor.environ) as serving:
            supervisor.wait_for("READY")
            url = serving.url("amqps")
            with RawClient.open(url, tls=papers.client()) as early:
                new = papers.renew()
                serving.process.send_signal(signal.SIGHUP)
                assert supervisor.wait_for("READY")["STATUS"] == "reloaded"
                assert shown(url, papers) == new
                papers.key.write_text("nothing of the kind")
                serving.process.send_signal(signal.SIGHUP)
                assert "the certificate is the old one" in supervisor.wait_for("READY")["STATUS"]
                assert shown(url, papers) == new
                assert "certificate not renewed, the old one stays" in serving.log()
                early.is_alive()


def test_an_encrypted_key_is_refused_rather_than_asked_for(papers: Papers) -> None:
    """A question at the terminal would hold the broker, at a renewal too."""
    key = serialization.load_pem_private_key(papers.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    papers.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    with pytest.raises(ConfigError, match="the key is encrypted"):
        leveret.Broker(papers.settings()).start()
