"""CWE-290, authentication bypass by spoofing: a proxy on this machine connects from loopback for clients from anywhere.
``guest`` may only log in from this machine, and metrics without a login are for this machine only."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapUser
from tests.support.http_api import QUIET, HttpApi, basic
from tests.support.raw_client import RawClient, eventually
from tests.support.stomp_client import made, taken
from tests.support.ws_client import WsSocket

ANN = BootstrapUser("ann", password="ann", tags=frozenset({"administrator"}))
GUEST = f"Authorization: {basic('guest', 'guest')}\r\n"
HEADS = {  # what nginx and HAProxy can be made to pass on by a client that chooses its Host
    "Host: localhost": "HTTP/1.1\r\nHost: localhost\r\n",
    "Host: 127.0.0.1": "HTTP/1.1\r\nHost: 127.0.0.1:15672\r\n",
    "empty Host": "HTTP/1.1\r\nHost:\r\n",
    "HTTP/1.0 without Host": "HTTP/1.0\r\n",
    "HTTP/1.0 with Host": "HTTP/1.0\r\nHost: localhost\r\n",
}
LOCAL = ("Host: localhost", "Host: 127.0.0.1")  # those that a local client sends as well


pytestmark = pytest.mark.broker(replace(QUIET, bootstrap=Bootstrap(users=(ANN,))))


@pytest.fixture(scope="module")
def behind_proxy() -> Iterator[leveret.Broker]:
    with leveret.Broker(replace(QUIET, behind_proxy=True, bootstrap=Bootstrap(users=(ANN,)))) as running:
        yield running


def status(broker: leveret.Broker, path: str, rest: str) -> int:
    address = urlsplit(broker.http_url)
    with socket.create_connection((address.hostname, address.port or 0), timeout=10) as peer:
        peer.sendall(f"GET {path} {rest}\r\n".encode())
        return int(peer.recv(65536)[9:12])


@pytest.mark.parametrize("head", HEADS)
def test_only_a_request_with_a_host_that_names_this_machine_is_local(broker: leveret.Broker, head: str) -> None:
    expected = 200 if head in LOCAL else 401
    assert status(broker, "/api/whoami", HEADS[head] + GUEST) == expected
    assert status(broker, "/metrics", HEADS[head]) == expected


@pytest.mark.parametrize("head", HEADS)
def test_behind_a_proxy_no_request_is_local(behind_proxy: leveret.Broker, head: str) -> None:
    assert status(behind_proxy, "/api/whoami", HEADS[head] + GUEST) == 401
    assert status(behind_proxy, "/metrics", HEADS[head]) == 401
    ann = f"Authorization: {basic('ann', 'ann')}\r\n"
    assert status(behind_proxy, "/api/whoami", HEADS[head] + ann) == 200
    assert status(behind_proxy, "/metrics", HEADS[head] + ann) == 200


@pytest.mark.parametrize(("name", "password", "expected"), [("guest", "guest", 401), ("ann", "ann", 200)])
def test_behind_a_proxy_guest_does_not_log_in_to_the_management_ui(
    behind_proxy: leveret.Broker, name: str, password: str, expected: int
) -> None:
    api = HttpApi(behind_proxy.http_url, None)
    api.headers["X-Requested-With"] = "page"
    assert api.post("/api/login", {"username": name, "password": password})[0] == expected
    api.headers["Authorization"] = basic(name, password)  # which the proxy adds
    assert api.get("/api/login")[0] == expected


@pytest.mark.parametrize(("proxied", "answer"), [(False, "CONNECTED"), (True, "ERROR")])
def test_behind_a_proxy_no_websocket_is_local(
    broker: leveret.Broker, behind_proxy: leveret.Broker, proxied: bool, answer: str
) -> None:
    login: dict[str, object] = {"accept-version": "1.2", "login": "guest", "passcode": "guest", "host": "/"}
    client = WsSocket((behind_proxy if proxied else broker).http_url, subprotocols=("v12.stomp",))
    client.sendall(made("CONNECT", login))
    frame, _ = taken(client.recv(65536))
    client.socket.close()
    assert frame is not None
    assert frame.command == answer


def test_behind_a_proxy_no_tunnel_is_local(behind_proxy: leveret.Broker) -> None:
    def hosts() -> list[str]:
        return [each.peer.host for each in behind_proxy.node.broker.registry.connections]  # type: ignore[attr-defined]

    eventually(lambda: not behind_proxy.call(hosts))
    api = HttpApi(behind_proxy.http_url, None)
    tunnel = api.post("/api/tunnel", None)[1]["id"]
    assert behind_proxy.call(hosts) == ["127.0.0.1 for a client behind a proxy"]
    api.send("DELETE", f"/api/tunnel/{tunnel}")


def test_behind_a_proxy_guest_still_connects_over_amqp_from_this_machine(behind_proxy: leveret.Broker) -> None:
    """AMQP has its own rule: the PROXY protocol."""
    with RawClient.open(behind_proxy.amqp_url):
        pass
