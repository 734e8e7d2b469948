"""S4-72: ``guest`` may come from this machine only. A proxy here speaks from this machine, for anybody."""

from __future__ import annotations

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

import leveret
from tests.support.http_api import HttpApi
from tests.support.raw_client import eventually
from tests.support.stomp_client import made, taken

LOGIN: dict[str, object] = {"accept-version": "1.2", "login": "guest", "passcode": "guest", "host": "/"}
OWN = {"X-Requested-With": "a program"}
PROXIES = [
    {"X-Forwarded-For": "10.1.2.3"},
    {"Forwarded": "for=10.1.2.3"},
    {"X-Real-IP": "10.1.2.3"},
    {"Host": "192.168.7.7"},  # as its client named it
]


pytestmark = pytest.mark.broker


@pytest.mark.parametrize("headers", PROXIES)
def test_guest_does_not_come_through_a_proxy_to_the_api(broker: leveret.Broker, headers: dict[str, str]) -> None:
    api = HttpApi(broker.http_url)
    assert api.send("GET", "/api/whoami")[0].status == 200
    api.headers = api.headers | headers
    assert api.send("GET", "/api/whoami")[0].status == 401
    del api.headers["Authorization"]
    assert api.send("GET", "/metrics")[0].status == 401


@pytest.mark.parametrize(("headers", "answer"), [(OWN, "CONNECTED"), *[(each, "ERROR") for each in PROXIES[:3]]])
def test_guest_does_not_come_through_a_proxy_over_websocket(
    broker: leveret.Broker, headers: dict[str, str], answer: str
) -> None:
    url = broker.http_url.replace("http://", "ws://") + "/ws"
    with connect(url, subprotocols=[Subprotocol("v12.stomp")], additional_headers=headers) as socket:
        socket.send(made("CONNECT", LOGIN))
        data = socket.recv(timeout=10)
        frame, _ = taken(data.encode() if isinstance(data, str) else data)
        assert frame is not None
        assert frame.command == answer


@pytest.mark.parametrize("headers", PROXIES)
def test_nobody_in_a_tunnel_is_taken_for_the_proxy(broker: leveret.Broker, headers: dict[str, str]) -> None:
    def hosts() -> list[str]:
        return [each.peer.host for each in broker.node.broker.registry.connections]  # type: ignore[attr-defined]

    eventually(lambda: not broker.call(hosts))  # those of other tests are gone
    api = HttpApi(broker.http_url, None)
    api.headers = {**api.headers, **headers}
    tunnel = api.post("/api/tunnel", None)[1]["id"]
    assert [host.startswith("127.0.0.1 for ") for host in broker.call(hosts)] == [True]
    api.send("DELETE", f"/api/tunnel/{tunnel}")
