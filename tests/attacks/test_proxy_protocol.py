"""CWE-290, authentication bypass by spoofing, and CWE-348, use of less trusted source: PROXY headers are accepted from
listed proxies only, are parsed strictly, and never make a client local."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import leveret
from leveret import embedded
from tests.support.certificates import CertificateFiles, shown
from tests.support.network import Network
from tests.support.proxied import BEHIND_PROXY, PROXY, connected, logs_in, v1, v2, wrapped
from tests.support.raw_client import RawClient, eventually

SCHEMES = ("amqp", "stomp", "http")
CLIENT = "203.0.113.9"
LOCAL_CLAIMS = {
    "v1 127.0.0.1": v1("127.0.0.1"),
    "v1 ::1": v1("::1"),
    "v1 mapped": v1("::ffff:127.0.0.1"),
    "v1 UNKNOWN": b"PROXY UNKNOWN\r\n",
    "v2 127.0.0.1": v2("127.0.0.1"),
    "v2 127.9.9.9": v2("127.9.9.9"),
    "v2 ::1": v2("::1"),
    "v2 mapped": v2("::ffff:127.0.0.1"),
    "v2 LOCAL": v2(None),
}
MALFORMED = {
    "no header": b"",
    "a wrong version": v2(CLIENT).replace(b"QUIT\n\x21", b"QUIT\n\x31"),
    "a line without its end": v1(CLIENT)[:-2] + b" " * 107,
    "bare LF": v1(CLIENT)[:-2] + b"\n",
    "a port too large": v1(CLIENT, 65536),
    "a length too large": v2(CLIENT)[:14] + b"\xff\xff",
    "two addresses in one": v1(CLIENT).replace(b" 192.0.2.1", b",192.0.2.1"),
}


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def broker(request: pytest.FixtureRequest) -> Iterator[leveret.Broker]:
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "asyncio":
            patched.setattr(embedded, "_new_loop", asyncio.new_event_loop)
        with leveret.Broker(BEHIND_PROXY) as running:
            yield running


def url_of(broker: leveret.Broker, scheme: str) -> str:
    return broker.node.endpoints[scheme]


def enters(broker: leveret.Broker, scheme: str, user: str, header: bytes, source: str | None = PROXY) -> bool:
    with connected(url_of(broker, scheme), source) as peer:
        return logs_in(peer, scheme, user, header)


def hosts(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: [each.name for each in broker.node.broker.registry.connections])


# ---- accepted connections


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("header", [v1(CLIENT), v2(CLIENT), v1("2001:db8::9"), v2("2001:db8::9")], ids=repr)
def test_a_client_logs_in_through_a_listed_proxy_and_guest_does_not(
    broker: leveret.Broker, scheme: str, header: bytes
) -> None:
    assert enters(broker, scheme, "ann", header)
    assert not enters(broker, scheme, "guest", header)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", LOCAL_CLAIMS)
def test_a_header_does_not_make_guest_local(broker: leveret.Broker, scheme: str, name: str) -> None:
    assert enters(broker, scheme, "ann", LOCAL_CLAIMS[name])
    assert not enters(broker, scheme, "guest", LOCAL_CLAIMS[name])


@pytest.mark.parametrize("name", LOCAL_CLAIMS)
def test_a_header_does_not_open_the_metrics(broker: leveret.Broker, name: str) -> None:
    with connected(url_of(broker, "http"), PROXY) as peer:
        peer.sendall(LOCAL_CLAIMS[name] + b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.recv(65536).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("scheme", ["amqp", "stomp"])
@pytest.mark.parametrize("header", [v1, v2])
def test_the_connection_has_the_name_of_the_client(broker: leveret.Broker, scheme: str, header: object) -> None:
    eventually(lambda: not hosts(broker))
    with connected(url_of(broker, scheme), PROXY) as peer:
        assert logs_in(peer, scheme, "ann", header(CLIENT, 56324))  # type: ignore[operator]
        port = url_of(broker, scheme).rpartition(":")[2]
        assert hosts(broker) == [f"{CLIENT}:56324 -> 127.0.0.1:{port}"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_header_may_come_byte_by_byte(broker: leveret.Broker, scheme: str) -> None:
    for header in (v1(CLIENT), v2(CLIENT)):
        with connected(url_of(broker, scheme), PROXY) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(len(header)):
                peer.sendall(header[at : at + 1])
            assert logs_in(peer, scheme, "ann")


# ---- refused connections


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", MALFORMED)
def test_a_listed_proxy_with_a_malformed_header_is_closed(broker: leveret.Broker, scheme: str, name: str) -> None:
    assert not enters(broker, scheme, "ann", MALFORMED[name])


def test_it_is_logged_once_a_minute_for_each_address(caplog: pytest.LogCaptureFixture) -> None:
    with leveret.Broker(BEHIND_PROXY) as broker:
        for _ in range(20):
            assert not enters(broker, "amqp", "ann", b"PROXY TCP5 nonsense\r\n")
    lines = [line for line in caplog.messages if "connection refused" in line]
    assert len(lines) == 1
    assert f"peer={PROXY}" in lines[0]
    assert "trusted_proxies" in lines[0]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_connection_from_this_machine_that_is_not_listed_needs_no_header(broker: leveret.Broker, scheme: str) -> None:
    """The command line, a health check: as if there were no proxy. A header is not accepted from there."""
    assert enters(broker, scheme, "guest", b"", None)
    for header in (v1(CLIENT), v2(CLIENT)):
        assert not enters(broker, scheme, "ann", header, None)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_address_that_is_not_listed_is_refused(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    here, proxy, stranger = "192.0.2.1", "192.0.2.18", "192.0.2.3"
    network = Network(here, proxy, stranger)
    try:
        settings = replace(BEHIND_PROXY, host=(here,), trusted_proxies=("192.0.2.16/30", "2001:db8::/32"))
        with network.inside(), leveret.Broker(settings) as broker:
            assert enters(broker, scheme, "ann", v2(CLIENT), proxy)
            for header in (b"", v1(CLIENT), v2(CLIENT), v2("127.0.0.1")):
                assert not enters(broker, scheme, "ann", header, stranger)
    finally:
        network.close()
    assert [line for line in caplog.messages if f"peer={stranger}" in line and "not a trusted proxy" in line]


@pytest.mark.parametrize("header", [b"", b"PROXY TCP4 203.0.", v2(CLIENT)[:20]], ids=repr)
def test_a_header_that_does_not_come_ends_the_connection(header: bytes) -> None:
    with leveret.Broker(replace(BEHIND_PROXY, handshake_timeout=0.3)) as broker:
        for scheme in SCHEMES:
            with connected(url_of(broker, scheme), PROXY) as peer:
                peer.sendall(header)
                assert peer.recv(1) == b""


def test_waiting_connections_do_not_keep_the_broker_from_stopping() -> None:
    with leveret.Broker(BEHIND_PROXY) as broker:
        peer = connected(url_of(broker, "amqp"), PROXY)
        peer.sendall(b"PROXY")
        assert enters(broker, "amqp", "ann", v2(CLIENT))
    with peer:
        assert peer.recv(1) == b""


# ---- TLS


@pytest.fixture(params=["uvloop", "asyncio"])
def sealed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[leveret.Broker, CertificateFiles]]:
    certificates = CertificateFiles(tmp_path)
    if request.param == "asyncio":
        monkeypatch.setattr(embedded, "_new_loop", asyncio.new_event_loop)
    given = {"https_port": 0, "stomps_port": 0, "login_failure_delay": 0.0, "bootstrap": BEHIND_PROXY.bootstrap}
    proxies = {"proxy_protocol": BEHIND_PROXY.proxy_protocol, "trusted_proxies": BEHIND_PROXY.trusted_proxies}
    with leveret.Broker(certificates.settings(**given, **proxies)) as running:
        yield running, certificates


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_header_comes_before_the_tls_handshake(
    sealed: tuple[leveret.Broker, CertificateFiles], scheme: str
) -> None:
    broker, certificates = sealed
    for header in (v1(CLIENT), v2(CLIENT)):
        for user, is_let_in in (("ann", True), ("guest", False)):
            with connected(url_of(broker, scheme + "s"), PROXY) as plain:
                plain.sendall(header)
                with wrapped(plain, certificates.client()) as peer:
                    assert logs_in(peer, scheme, user) is is_let_in


def test_a_tls_handshake_right_behind_the_header_is_not_lost(sealed: tuple[leveret.Broker, CertificateFiles]) -> None:
    """The header and the first bytes of TLS in one segment, as HAProxy may send them."""
    broker, certificates = sealed
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certificates.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with connected(url_of(broker, "amqps"), PROXY) as peer:
        unsent, is_done = v2(CLIENT), False
        while not is_done:
            try:
                tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                peer.sendall(unsent + outgoing.read())
                unsent = b""
                incoming.write(peer.recv(65536))


def test_a_client_certificate_logs_in_through_a_proxy(sealed: tuple[leveret.Broker, CertificateFiles]) -> None:
    broker, certificates = sealed
    client = RawClient(url_of(broker, "amqps"), source=PROXY)
    client.socket.sendall(v2(CLIENT))
    client.socket = wrapped(client.socket, certificates.client("ann"))
    with client:
        client.handshake(mechanism="EXTERNAL", response=b"")


def test_a_renewed_certificate_is_used_for_the_next_connection(sealed: tuple[leveret.Broker, CertificateFiles]) -> None:
    broker, certificates = sealed
    before = shown(url_of(broker, "amqps"), certificates)
    renewed = certificates.renew()
    assert renewed != before
    asyncio.run_coroutine_threadsafe(broker.node.reload(lambda: broker.settings), broker._loop).result(10)  # type: ignore[arg-type]
    assert shown(url_of(broker, "amqps"), certificates) == renewed


def test_the_api_names_the_client(broker: leveret.Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The log of a login has the client's address."""
    caplog.set_level(logging.INFO)
    body = json.dumps({"username": "ann", "password": "ann"}).encode()
    head = f"POST /api/login HTTP/1.1\r\nHost: x\r\nX-Requested-With: page\r\nContent-Length: {len(body)}\r\n\r\n"
    with connected(url_of(broker, "http"), PROXY) as peer:
        peer.sendall(v2(CLIENT) + head.encode() + body)
        assert peer.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert f"peer={CLIENT}" in caplog.text
