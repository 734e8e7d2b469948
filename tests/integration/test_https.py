"""The HTTP API and the page over TLS: the certificate and its renewal, the cookie, the command line, the bounds."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

import leveret
from leveret.errors import ConfigError
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import CertificateFiles, shown
from tests.support.command_line import Cli
from tests.support.http_api import basic
from tests.support.raw_client import eventually

MINUTE = 60
WHO = {"Authorization": basic("guest", "guest")}
LOGIN = json.dumps({"username": "guest", "password": "guest"})
BY_PAGE = {"X-Requested-With": "page", "Content-Type": "application/json"}


@pytest.fixture
def certificates(tmp_path: Path) -> CertificateFiles:
    return CertificateFiles(tmp_path)


@pytest.fixture
def broker(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    settings = certificates.settings(amqp_port=0, amqps_port=0, http_port=0, https_port=0, login_failure_delay=0.0)
    with leveret.Broker(settings) as running:
        yield running


def connection_to(url: str, trust: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    where = urlsplit(url)
    assert where.hostname is not None
    if where.scheme == "http":
        return http.client.HTTPConnection(where.hostname, where.port, timeout=10)
    return http.client.HTTPSConnection(where.hostname, where.port, timeout=10, context=trust)


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path, headers=WHO)
    answer = connection.getresponse()
    return answer.status, answer.read()


@pytest.mark.feature("S4-77")
def test_the_api_is_there_over_tls_beside_the_plain_port(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    answers = []
    for url in (broker.http_url, broker.https_url):
        connection = connection_to(url, certificates.client())
        answers.append(ask(connection, "/api/whoami"))
        connection.close()
    assert answers[0] == answers[1]
    assert answers[0][0] == 200


@pytest.mark.feature("S4-77")
def test_it_is_listed_as_a_listener(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    connection = connection_to(broker.https_url, certificates.client())
    overview = json.loads(ask(connection, "/api/overview")[1])
    ports = {row["protocol"]: row["port"] for row in overview["listeners"]}
    assert ports["https"] == urlsplit(broker.https_url).port
    assert ask(connection, "/api/health/checks/protocol-listener/https")[0] == 200
    connection.close()


@pytest.mark.feature("S4-77")
def test_plain_http_can_be_left_out(certificates: CertificateFiles) -> None:
    with leveret.Broker(certificates.settings(https_port=0)) as broker:
        assert set(broker.node.endpoints) == {"amqps", "https"}
        connection = connection_to(broker.https_url, certificates.client())
        assert ask(connection, "/api/whoami")[0] == 200
        connection.close()


@pytest.mark.feature("S4-77")
def test_no_certificate_no_port(certificates: CertificateFiles) -> None:
    without = replace(certificates.settings(amqp_port=0, https_port=0), tls_cert=None, tls_key=None, tls_ca=None)
    with leveret.Broker(without) as broker:
        assert set(broker.node.endpoints) == {"amqp"}


@pytest.mark.feature("S4-77")
def test_nobody_is_asked_for_a_certificate(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    """A browser would ask its user. A listener that asks, as the one of AMQP, refuses one of another authority."""
    stranger = certificates.client("ann", trustme.CA())
    connection = connection_to(broker.https_url, stranger)
    assert ask(connection, "/api/whoami")[0] == 200
    connection.close()
    where = urlsplit(broker.amqps_url)
    with socket.create_connection((where.hostname or "", where.port or 0), 5) as plain:
        with stranger.wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
            try:
                sealed.sendall(b"AMQP\x00\x00\x09\x01")
                answer = sealed.recv(1)
            except OSError:
                answer = b""
    assert answer == b""


def cookie_of(url: str, certificates: CertificateFiles, headers: dict[str, str] = BY_PAGE) -> str:
    connection = connection_to(url, certificates.client())
    connection.request("POST", "/api/login", LOGIN, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers["set-cookie"].lower()


@pytest.mark.feature("S4-78")
def test_the_cookie_of_an_encrypted_login_stays_on_encrypted_ways(
    broker: leveret.Broker, certificates: CertificateFiles
) -> None:
    assert "; secure" in cookie_of(broker.https_url, certificates)
    plain = cookie_of(broker.http_url, certificates)
    assert "; secure" not in plain
    assert "; httponly" in plain


@pytest.mark.feature("S4-77")
def test_a_renewed_certificate_is_met_on_both_ports_and_requests_go_on(
    broker: leveret.Broker, certificates: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    early = connection_to(broker.https_url, certificates.client())
    assert ask(early, "/api/whoami")[0] == 200
    with caplog.at_level(logging.INFO, "leveret.tls"):
        new = certificates.renew()
        assert shown(broker.https_url, certificates) != new
        broker.clock.advance(MINUTE)
        eventually(lambda: shown(broker.https_url, certificates) == new)
        eventually(lambda: shown(broker.amqps_url, certificates) == new)
        eventually(lambda: shown(broker.https_url, certificates) and "certificate reloaded" in caplog.text)
    assert caplog.text.count("certificate reloaded") == 1
    assert ask(early, "/api/whoami")[0] == 200
    early.close()


@pytest.mark.feature("S4-77")
def test_who_speaks_plain_http_to_it_harms_nobody(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    where = urlsplit(broker.https_url)
    with socket.create_connection((where.hostname or "", where.port or 0), 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(10)
        try:
            assert b"HTTP" not in plain.recv(100)
        except ConnectionError:
            pass
    connection = connection_to(broker.https_url, certificates.client())
    assert ask(connection, "/api/whoami")[0] == 200
    connection.close()


@pytest.mark.feature("S4-77")
def test_an_unfinished_handshake_ends(certificates: CertificateFiles) -> None:
    with leveret.Broker(certificates.settings(https_port=0, handshake_timeout=0.1)) as broker:
        where = urlsplit(broker.https_url)
        with socket.create_connection((where.hostname or "", where.port or 0), 10) as silent:
            try:
                assert silent.recv(1) == b""
            except ConnectionError:
                pass


@pytest.mark.feature("S4-77")
def test_files_that_cannot_be_used_are_named(certificates: CertificateFiles) -> None:
    certificates.certificate.write_text("nothing of the kind")
    with pytest.raises(ConfigError, match="check --tls-cert and --tls-key"):
        leveret.Broker(certificates.settings(amqps_port=None, https_port=0)).start()


@pytest.mark.feature("S4-77")
def test_a_taken_port_names_the_setting(broker: leveret.Broker, certificates: CertificateFiles) -> None:
    taken = urlsplit(broker.https_url).port
    with pytest.raises(ConfigError, match="set https_port to another one"):
        leveret.Broker(certificates.settings(https_port=taken)).start()


@pytest.mark.feature("S4-77")
def test_serve_names_it_in_the_banner(certificates: CertificateFiles, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *certificates.flags(), "--https-port", "0") as serving:
        connection = connection_to(serving.url("https"), certificates.client())
        assert ask(connection, "/api/whoami")[0] == 200
        connection.close()


# ---- the command line


@pytest.mark.feature("S4-77")
def test_the_command_line_trusts_the_file_it_is_given(
    broker: leveret.Broker, certificates: CertificateFiles, tmp_path: Path
) -> None:
    cli = Cli(broker.https_url, tmp_path)
    assert "--ca-file" in cli.refused("queues", "list", code=3)
    assert cli.json("vhosts", "list", "--ca-file", str(certificates.clients))[0]["name"] == "/"
    assert "invalid --ca-file none.pem: No such file" in cli.refused("queues", "list", "--ca-file", "none.pem", code=2)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    assert "it contains no certificate" in cli.refused("queues", "list", "--ca-file", str(empty), code=2)


@pytest.mark.feature("S4-77")
def test_a_context_remembers_the_authority(
    broker: leveret.Broker, certificates: CertificateFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Cli(broker.https_url, tmp_path)
    monkeypatch.chdir(certificates.clients.parent)
    made = cli.run("context", "add", "sealed", "--ca-file", certificates.clients.name)
    assert made.exit_code == 0, made.output
    monkeypatch.chdir("/")
    listed = cli.run("vhosts", "list", url=None)
    assert listed.exit_code == 0, listed.output
    elsewhere = cli.run("vhosts", "list", "--context", "sealed", url=f"{broker.https_url}/")
    assert elsewhere.exit_code == 3, "the authority is for the context's own URL"
