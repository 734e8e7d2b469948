"""Certificates that are renewed while the broker runs: new peers meet the new one, the others stay."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

import leveret
from leveret.errors import ConfigError
from leveret.server.certificates import Certificates, Seen
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import CertificateFiles, der, shown
from tests.support.raw_client import RawClient, eventually
from tests.support.supervisor import Supervisor

MINUTE = 60


@pytest.fixture
def certificates(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(tmp_path)


@pytest.fixture
def broker(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    with leveret.Broker(certificates.settings()) as running:
        yield running


def nobody_looks(broker: leveret.Broker) -> bool:
    certificates = broker.node._certificates
    return certificates is not None and not broker.call(lambda: certificates.is_looking)


def test_a_renewed_certificate_is_noticed_within_a_minute(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    """Who is connected stays; new peers meet the new one; and so again and again."""
    url = broker.amqps_url
    with RawClient.open(url, tls=certificates.client()) as early:
        for _ in range(3):
            old, new = shown(url, certificates), certificates.renew()
            assert shown(url, certificates) == old  # nobody has looked yet
            broker.clock.advance(MINUTE)
            eventually(lambda new=new: shown(url, certificates) == new)  # type: ignore[misc]
        early.is_alive()
        with RawClient.open(url, tls=certificates.client()) as late:
            late.is_alive()


def test_files_that_did_not_change_are_not_read_again(
    broker: leveret.Broker, certificates: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "leveret.tls"):
        for _ in range(5):
            broker.clock.advance(MINUTE)
        eventually(lambda: nobody_looks(broker))  # or a late look would see one file renewed, and the other not yet
        new = certificates.renew()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(broker.amqps_url, certificates) == new)
        eventually(lambda: shown(broker.amqps_url, certificates) and "certificate reloaded" in caplog.text)
    assert caplog.text.count("certificate reloaded") == 1


def test_a_change_behind_the_back_of_who_still_looks_is_noticed(
    broker: leveret.Broker, certificates: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow: the look of one minute is not over when that of the next is due."""
    looked, go_on = threading.Event(), threading.Event()
    look = Certificates._look_at_files

    def look_slowly(files: Certificates) -> Seen:
        found = look(files)
        looked.set()
        assert go_on.wait(60)
        return found

    monkeypatch.setattr(Certificates, "_look_at_files", look_slowly)
    broker.clock.advance(MINUTE)
    assert looked.wait(10)
    monkeypatch.setattr(Certificates, "_look_at_files", look)
    new = certificates.renew()
    broker.clock.advance(MINUTE)
    go_on.set()
    eventually(lambda: shown(broker.amqps_url, certificates) == new)


def test_a_broken_file_keeps_the_old_certificate_and_is_logged_once(
    broker: leveret.Broker, certificates: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    url = broker.amqps_url
    old = shown(url, certificates)
    with caplog.at_level(logging.INFO, "leveret.tls"):
        certificates.certificate.write_text("nothing of the kind")
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, certificates) == old and "the old one stays" in caplog.text)
        broker.clock.advance(MINUTE)
        certificates.certificate.unlink()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, certificates) == old and caplog.text.count("the old one stays") == 2)
        assert str(certificates.certificate) in caplog.text
        assert "check --tls-cert and --tls-key" in caplog.text
        new = certificates.renew()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, certificates) == new)
    assert caplog.text.count("the old one stays") == 2


def test_a_renewal_seen_half_way_is_taken_once_it_is_whole(
    broker: leveret.Broker, certificates: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    url = broker.amqps_url
    old, issued = shown(url, certificates), certificates.authority.issue_cert("127.0.0.1")
    with caplog.at_level(logging.INFO, "leveret.tls"):
        certificates.write_certificate(issued)
        broker.clock.advance(MINUTE)  # the key is still the other one's
        eventually(lambda: shown(url, certificates) == old and "the old one stays" in caplog.text)
    certificates.write_key(issued)
    broker.clock.advance(MINUTE)
    eventually(lambda: shown(url, certificates) == der(issued))


def test_an_authority_that_is_taken_away_lets_nobody_in_any_more(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    """A context that is changed in place would keep it."""
    url, other = broker.amqps_url, trustme.CA()

    def enters(authority: trustme.CA) -> bool:
        try:
            with RawClient.open(
                url, tls=certificates.client("ann", authority), mechanism="EXTERNAL", response=b"", channels=0
            ):
                return True
        except (OSError, AssertionError):
            return False

    assert enters(certificates.authority)
    assert not enters(other)
    certificates.trust_clients_of(other)
    broker.clock.advance(MINUTE)
    eventually(lambda: enters(other))
    assert not enters(certificates.authority)


def test_every_address_gets_the_new_certificate(certificates: CertificateFiles) -> None:
    with leveret.Broker(certificates.settings(host=("127.0.0.1", "127.0.0.2"))) as broker:
        url, new = broker.amqps_url, certificates.renew()
        broker.clock.advance(MINUTE)
        for address in (url, url.replace("127.0.0.1", "127.0.0.2")):
            eventually(lambda address=address: shown(address, certificates) == new)  # type: ignore[misc]


def test_the_port_is_free_after_a_broker_that_renewed_has_stopped(certificates: CertificateFiles) -> None:
    """Each renewal has a descriptor of its own for the socket; none may outlive the broker."""
    with leveret.Broker(certificates.settings()) as broker:
        url, new = broker.amqps_url, certificates.renew()
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(url, certificates) == new)
    with pytest.raises(ConnectionRefusedError):
        shown(url, certificates)


def test_sighup_renews_at_once(certificates: CertificateFiles, tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        with BrokerProcess(tmp_path, *certificates.flags(), environ=supervisor.environ) as serving:
            supervisor.wait_for("READY")
            url = serving.url("amqps")
            with RawClient.open(url, tls=certificates.client()) as early:
                new = certificates.renew()
                serving.process.send_signal(signal.SIGHUP)
                assert supervisor.wait_for("READY")["STATUS"] == "reloaded"
                assert shown(url, certificates) == new
                certificates.key.write_text("nothing of the kind")
                serving.process.send_signal(signal.SIGHUP)
                assert "the certificate is the old one" in supervisor.wait_for("READY")["STATUS"]
                assert shown(url, certificates) == new
                assert "certificate cannot be reloaded, the old one stays in use" in serving.log()
                early.is_alive()


def test_an_encrypted_key_is_refused_rather_than_asked_for(certificates: CertificateFiles) -> None:
    """A question at the terminal would hold the broker, at a renewal too."""
    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    certificates.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    with pytest.raises(ConfigError, match="the key is encrypted"):
        leveret.Broker(certificates.settings()).start()
