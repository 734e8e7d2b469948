"""STOMP over TLS: a port of its own, logins by password and by certificate, renewed certificates, what is refused."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import leveret
from leveret.config import Settings
from leveret.config_sources import load_settings
from leveret.errors import ConfigError
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import CertificateFiles
from tests.support.management_api import as_guest
from tests.support.raw_client import eventually
from tests.support.stomp_client import StompClient, made


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    with leveret.Broker(sealed(certificates)) as running:
        yield running


def sealed(certificates: CertificateFiles, **given: object) -> Settings:
    ports = {"amqps_port": None, "stomps_port": 0, "login_failure_delay": 0.0}
    return certificates.settings(**(ports | given))


class SealedClient(StompClient):
    def __init__(self, url: str, context: ssl.SSLContext) -> None:
        super().__init__(url)
        self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")

    @property
    def certificate(self) -> bytes | None:
        assert isinstance(self.socket, ssl.SSLSocket)
        return self.socket.getpeercert(binary_form=True)


@pytest.mark.feature("S4-56")
def test_a_password_works_over_tls(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    """The same protocol inside; large messages pass both ways."""
    assert broker.stomps_url.startswith("stomps://127.0.0.1:")
    with SealedClient(broker.stomps_url, certificates.client()) as client:
        assert client.connect()["version"] == "1.2"
        client.sure("SUBSCRIBE", destination="/queue/sealed", id=0)
        client.say("SEND", bytes(1_000_000), destination="/queue/sealed", content_length=1_000_000)
        assert client.bodies(1) == [bytes(1_000_000)]
        assert client.ask("DISCONNECT").command == "RECEIPT"


def test_a_client_certificate_logs_in_by_its_common_name(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    """The user has no password at all, and no permission but to read."""
    with SealedClient(broker.stomps_url, certificates.client("ann")) as client:
        client.socket.sendall(made("CONNECT", {"accept-version": "1.2", "host": "/"}))
        assert client.read().command == "CONNECTED"
        names = broker.call(lambda: [each.user.name for each in broker.node.broker.registry.connections])
        assert names == ["ann"]
        assert client.ask("SEND", destination="/queue/forbidden")["message"] == "access_refused"


def test_a_client_may_still_use_a_password_beside_its_certificate(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    with SealedClient(broker.stomps_url, certificates.client("ann")) as client:
        assert client.connect().command == "CONNECTED"
        client.sure("SEND", destination="/queue/allowed")
    with SealedClient(broker.stomps_url, certificates.client("ann")) as client:
        assert client.connect(passcode="wrong").body == b"Access refused for user 'guest'\n"


def test_without_a_certificate_a_login_is_needed(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    with SealedClient(broker.stomps_url, certificates.client()) as client:
        client.socket.sendall(made("CONNECT", {"accept-version": "1.2", "host": "/"}))
        assert client.read().body == b"Missing login or passcode header(s)\n"


def test_a_certificate_of_an_unknown_user_is_refused(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    with SealedClient(broker.stomps_url, certificates.client("nobody")) as client:
        client.socket.sendall(made("CONNECT", {"accept-version": "1.2", "host": "/"}))
        refused = client.read()
        assert refused["message"] == "Bad CONNECT"
        assert b"mechanism EXTERNAL" in refused.body


def test_a_certificate_of_another_authority_is_refused_by_tls(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    def knock() -> None:
        with SealedClient(broker.stomps_url, certificates.client("ann", trustme.CA())) as client:
            client.connect()

    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        knock()


def test_plain_stomp_at_the_sealed_door_harms_nobody(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    with StompClient(broker.stomps_url) as stranger:
        stranger.say("CONNECT", login="guest", passcode="guest")
        assert stranger.is_closed()
    with SealedClient(broker.stomps_url, certificates.client()) as client:
        assert client.connect().command == "CONNECTED"


def test_the_deadline_of_the_handshake_holds_for_tls_too(certificates: CertificateFiles) -> None:
    """A peer that says nothing, and one that stops after TLS."""
    with leveret.Broker(sealed(certificates)) as broker:
        with SealedClient(broker.stomps_url, certificates.client()) as idle:
            broker.call(lambda: broker.node.apply(sealed(certificates, handshake_timeout=0.3)))
            with StompClient(broker.stomps_url) as mute:
                assert mute.is_closed()
            assert idle.is_closed()


def test_both_doors_are_open_at_once_and_the_management_shows_them(certificates: CertificateFiles) -> None:
    with leveret.Broker(sealed(certificates, stomp_port=0, http_port=0)) as broker:
        with (
            StompClient.open(broker.stomp_url) as plain,
            SealedClient(broker.stomps_url, certificates.client()) as hidden,
        ):
            hidden.connect()
            hidden.sure("SUBSCRIBE", destination="/queue/between", id=0)
            plain.sure("SEND", b"hello", destination="/queue/between")
            assert hidden.bodies(1) == [b"hello"]
            api = as_guest(broker)
            listeners = {each["protocol"] for each in api.get("overview")[1]["listeners"]}
            assert listeners == {"http", "stomp", "stomp/ssl"}
            assert api.get("health/checks/protocol-listener/stomps")[0] == 200


def test_a_renewed_certificate_is_shown_to_new_peers(tmp_path: Path) -> None:
    """Noticed when the files change; who is connected stays."""
    certificates = CertificateFiles(tmp_path)
    with (
        leveret.Broker(sealed(certificates)) as broker,
        SealedClient(broker.stomps_url, certificates.client()) as early,
    ):
        early.connect()
        renewed = certificates.renew()
        broker.clock.advance(61)

        def shown() -> bytes | None:
            with SealedClient(broker.stomps_url, certificates.client()) as client:
                return client.certificate

        eventually(lambda: shown() == renewed)
        early.sure("SEND", b"still here", destination="/queue/q")


def test_serve_has_the_port_in_its_banner(tmp_path: Path) -> None:
    certificates = CertificateFiles(tmp_path)
    flags = (*certificates.flags(), "--stomps-port", "0")
    with (
        BrokerProcess(tmp_path, *flags) as serving,
        SealedClient(serving.url("stomps"), certificates.client()) as client,
    ):
        assert client.connect().command == "CONNECTED"


def test_the_port_needs_a_certificate_and_is_off_unless_given() -> None:
    assert Settings().stomps_port is None
    with pytest.raises(ConfigError, match="stomps_port = 61614 needs tls_cert too: give --tls-cert"):
        load_settings(None, {"LEVERET_STOMPS_PORT": "61614"}, {})
    with leveret.Broker() as broker, pytest.raises(ConfigError, match="no stomps listener"):
        _ = broker.stomps_url
