"""Real nginx and HAProxy in front of the broker, with the configuration files of the guide (docs/guide/proxies).

CWE-290, authentication bypass by spoofing: no client behind a proxy is local. CWE-444, request smuggling: no request
that a client hides in another is answered to a third."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

import leveret
from tests.support.certificates import CertificateFiles
from tests.support.http_api import QUIET, basic
from tests.support.proxied import BEHIND_PROXY, connected, logs_in, wrapped
from tests.support.proxies import GUIDE, Proxy, haproxy, nginx
from tests.support.raw_client import eventually
from tests.support.smuggling import AMBIGUOUS
from tests.support.stomp_client import made, taken

PORTS = {"amqp": 5672, "amqps": 5671, "stomp": 61613, "stomps": 61614, "http": 15672, "https": 15671}
CLIENT = "127.0.0.7"
HAPROXY, NGINX = (GUIDE / "haproxy.cfg").read_text(), (GUIDE / "nginx.conf").read_text()
SMALLEST_NGINX = """
events {}
http {
    server {
        listen 443;
        location / { proxy_pass http://127.0.0.1:15672; }
    }
}
"""
SMALLEST_HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 5m
    timeout server 5m
listen http
    bind :15672
    server leveret 10.0.0.9:15672
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    """Behind HAProxy, at all of its listeners."""
    files = {"tls_cert": certificates.certificate, "tls_key": certificates.key}
    ports = {"amqps_port": 0, "https_port": 0, "stomps_port": 0}
    settings = replace(BEHIND_PROXY, trusted_proxies=("127.0.0.1/32",), **files, **ports)  # type: ignore[arg-type]
    with leveret.Broker(settings) as running:
        yield running


@pytest.fixture(scope="module", params=["send-proxy", "send-proxy-v2"])
def through_haproxy(
    request: pytest.FixtureRequest, broker: leveret.Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    text = HAPROXY.replace("send-proxy-v2", request.param)
    brokers = {PORTS[scheme]: port_of(url) for scheme, url in broker.node.endpoints.items()}
    with haproxy(tmp_path_factory.mktemp("haproxy"), text, brokers) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def web_broker() -> Iterator[leveret.Broker]:
    """Behind a proxy for HTTP that does not speak the PROXY protocol."""
    with leveret.Broker(replace(QUIET, bootstrap=BEHIND_PROXY.bootstrap, behind_proxy=True)) as running:
        yield running


@pytest.fixture(scope="module")
def through_nginx(
    web_broker: leveret.Broker, certificates: CertificateFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    with nginx(folder, NGINX, port_of(web_broker.http_url), certificates.certificate, certificates.key) as proxy:
        yield proxy


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def names(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: [each.name for each in broker.node.broker.registry.connections])


# ---- HAProxy


@pytest.mark.parametrize("scheme", PORTS)
def test_a_client_logs_in_through_haproxy_with_its_own_address(
    broker: leveret.Broker, through_haproxy: Proxy, certificates: CertificateFiles, scheme: str
) -> None:
    eventually(lambda: not names(broker))
    plain = scheme.removesuffix("s")
    for user, is_let_in in (("guest", False), ("ann", True)):
        with connected(f"tcp://127.0.0.1:{through_haproxy.ports[PORTS[scheme]]}", CLIENT) as peer:
            client = wrapped(peer, certificates.client()) if plain != scheme else peer
            with client:
                assert logs_in(client, plain, user) is is_let_in
                if user == "ann" and plain != "http":
                    assert any(name.startswith(f"{CLIENT} for a client behind a proxy:") for name in names(broker))


def test_a_client_that_goes_around_haproxy_is_refused(broker: leveret.Broker, through_haproxy: Proxy) -> None:
    """From the address of the proxy, without a header."""
    with connected(broker.node.endpoints["amqp"]) as peer:
        assert not logs_in(peer, "amqp", "ann")


# ---- the management UI


def page(proxy: Proxy, certificates: CertificateFiles | None) -> http.client.HTTPConnection:
    """A browser at the proxy: over TLS at nginx, plain at HAProxy."""
    if certificates is None:
        return http.client.HTTPConnection("127.0.0.1", proxy.ports[15672], timeout=10)
    return http.client.HTTPSConnection("127.0.0.1", proxy.ports[443], timeout=10, context=certificates.client())


def log_in(browser: http.client.HTTPConnection, origin: str, user: str) -> http.client.HTTPResponse:
    body = json.dumps({"username": user, "password": user})
    browser.request("POST", "/api/login", body, {"Origin": origin, "Content-Type": "application/json"})
    answer = browser.getresponse()
    answer.read()
    return answer


@pytest.mark.parametrize("with_nginx", [False, True])
def test_users_log_in_to_the_management_ui_through_a_proxy(
    through_haproxy: Proxy, through_nginx: Proxy, certificates: CertificateFiles, with_nginx: bool
) -> None:
    proxy = through_nginx if with_nginx else through_haproxy
    browser = page(proxy, certificates if with_nginx else None)
    origin = f"{'https' if with_nginx else 'http'}://127.0.0.1:{browser.port}"
    assert log_in(browser, origin, "guest").status == 401
    answer = log_in(browser, origin, "ann")
    assert answer.status == 200
    cookie = answer.headers["set-cookie"]
    assert ("Secure" in cookie) is with_nginx
    browser.request("GET", "/api/whoami", headers={"Cookie": cookie.partition(";")[0]})
    answer = browser.getresponse()
    assert json.loads(answer.read())["name"] == "ann"
    browser.close()


@pytest.mark.parametrize("user", ["ann", "guest"])
@pytest.mark.parametrize("with_nginx", [False, True])
def test_a_websocket_is_opened_through_a_proxy(
    through_haproxy: Proxy, through_nginx: Proxy, certificates: CertificateFiles, with_nginx: bool, user: str
) -> None:
    port = through_nginx.ports[443] if with_nginx else through_haproxy.ports[15672]
    url = f"{'wss' if with_nginx else 'ws'}://127.0.0.1:{port}/ws"
    tls = certificates.client() if with_nginx else None
    with connect(url, subprotocols=[Subprotocol("v12.stomp")], ssl=tls) as client:
        client.send(made("CONNECT", {"accept-version": "1.2", "login": user, "passcode": user, "host": "/"}))
        data = client.recv(timeout=10)
        frame, _ = taken(data.encode() if isinstance(data, str) else data)
        assert frame is not None
        assert frame.command == ("CONNECTED" if user == "ann" else "ERROR")


# ---- attacks through a proxy


def status(peer: socket.socket, path: str, host: str, user: str | None) -> int:
    login = f"Authorization: {basic(user, user)}\r\n" if user else ""
    peer.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{login}Connection: close\r\n\r\n".encode())
    return int(peer.recv(65536)[9:12])


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:15672", "broker.example"])
@pytest.mark.parametrize(("path", "user"), [("/api/whoami", "guest"), ("/metrics", None)])
def test_nobody_is_local_behind_nginx(
    through_nginx: Proxy, certificates: CertificateFiles, host: str, path: str, user: str | None
) -> None:
    with wrapped(connected(f"tcp://127.0.0.1:{through_nginx.ports[443]}"), certificates.client()) as peer:
        assert status(peer, path, host, user) == 401


@pytest.mark.parametrize("host", ["localhost", "broker.example"])
@pytest.mark.parametrize(("path", "user"), [("/api/whoami", "guest"), ("/metrics", None)])
def test_nobody_is_local_behind_an_nginx_that_sets_nothing(
    tmp_path: Path, host: str, path: str, user: str | None
) -> None:
    """It sends ``Host: 127.0.0.1`` over HTTP/1.0, whatever its client sends. Without ``behind_proxy``."""
    with leveret.Broker(QUIET) as broker, nginx(tmp_path, SMALLEST_NGINX, port_of(broker.http_url)) as proxy:
        with connected(f"tcp://127.0.0.1:{proxy.ports[443]}") as peer:
            assert status(peer, path, host, user) == 401


@pytest.mark.parametrize(("path", "user"), [("/api/whoami", "guest"), ("/metrics", None)])
def test_nobody_is_local_behind_an_haproxy_that_sets_nothing(
    web_broker: leveret.Broker, tmp_path: Path, path: str, user: str | None
) -> None:
    """It passes ``Host: localhost`` on, as a local client sends it: ``behind_proxy`` is needed."""
    with haproxy(tmp_path, SMALLEST_HAPROXY, {15672: port_of(web_broker.http_url)}) as proxy:
        with connected(f"tcp://127.0.0.1:{proxy.ports[15672]}") as peer:
            assert status(peer, path, "localhost", user) == 401


@pytest.mark.parametrize("name", AMBIGUOUS)
@pytest.mark.parametrize("with_nginx", [False, True])
def test_no_request_is_smuggled_through_a_proxy(
    through_haproxy: Proxy, through_nginx: Proxy, certificates: CertificateFiles, with_nginx: bool, name: str
) -> None:
    """Clients that come after get the answers to their own requests."""

    def opened() -> socket.socket:
        if not with_nginx:
            return connected(f"tcp://127.0.0.1:{through_haproxy.ports[15672]}")
        return wrapped(connected(f"tcp://127.0.0.1:{through_nginx.ports[443]}"), certificates.client())

    with opened() as attacker:
        attacker.settimeout(0.2)
        try:
            attacker.sendall(AMBIGUOUS[name])
            while attacker.recv(65536):
                pass
        except (OSError, ssl.SSLError):
            pass
        for _ in range(3):
            with opened() as client:
                request = f"GET /api/vhosts/%2F HTTP/1.1\r\nHost: x\r\nAuthorization: {basic('ann', 'ann')}\r\n\r\n"
                client.sendall(request.encode())
                answer = http.client.HTTPResponse(client)
                answer.begin()
                assert json.loads(answer.read())["name"] == "/"


def test_the_guide_shows_parts_of_these_files() -> None:
    page = (GUIDE.parent / "proxies.md").read_text()
    for text, begin, end in ((HAPROXY, "listen amqps", "check"), (NGINX, "        location / {", "        }")):
        at = text.index(begin)
        part = text[at : text.index(end, at) + len(end)]
        assert "\n".join(line.removeprefix("        ") for line in part.split("\n")) in page or part in page
