"""CWE-290, authentication bypass by spoofing: a peer that has reset its connection has no address, and an unknown
address is not this machine. ``guest`` may only log in from loopback."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

import leveret
from leveret.config import Settings
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.methods import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, QueueDeclare
from tests.support.http_api import basic
from tests.support.network import ADDRESS, Network

TRIES = 60
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close() sends RST
DELETE_USER = (
    f"DELETE /api/users/alice HTTP/1.1\r\nHost: localhost\r\nAuthorization: {basic('guest', 'guest')}\r\n\r\n"
).encode()
NEW_QUEUE = PROTOCOL_HEADER + b"".join(
    method_frame(channel, method)
    for channel, method in [
        (0, ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")),
        (0, ConnectionTuneOk(2047, 131072, 60)),
        (0, ConnectionOpen("/")),
        (1, ChannelOpen()),
        (1, QueueDeclare("eve")),
    ]
)


@pytest.fixture
def broker(network: Network) -> Iterator[leveret.Broker]:
    settings = Settings(host=(ADDRESS,), amqp_port=0, http_port=0, shutdown_timeout=0.5, login_failure_delay=0.0)
    with network.inside():
        running = leveret.Broker(settings).start()
    yield running
    running.stop()


def attack(network: Network, broker: leveret.Broker, port: int, request: bytes) -> None:
    """Every peer has reset its connection before the busy broker accepts it."""
    all_reset = threading.Event()
    broker.post(all_reset.wait)  # type: ignore[arg-type]
    for _ in range(TRIES):
        with network.inside():
            peer = socket.create_connection((ADDRESS, port), timeout=60)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        peer.sendall(request)
        peer.close()
    all_reset.set()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def test_resetting_the_connection_does_not_make_guest_local_over_http(network: Network, broker: leveret.Broker) -> None:
    users = broker.node.broker.users
    broker.call(lambda: users.add("alice", password="alice"))
    attack(network, broker, port_of(broker.http_url), DELETE_USER)
    with network.inside():
        assert answer(port_of(broker.http_url), DELETE_USER).startswith(b"HTTP/1.1 401 ")
    assert "alice" in users


def test_resetting_the_connection_does_not_make_guest_local_over_amqp(network: Network, broker: leveret.Broker) -> None:
    core = broker.node.broker
    core.users.authenticate("guest", "guest", core.clock.now())  # cached for a while, as after a local login
    attack(network, broker, port_of(broker.amqp_url), NEW_QUEUE)
    with network.inside():
        assert answer(port_of(broker.amqp_url), NEW_QUEUE)  # login refused, connection closed: all before is decided
    assert broker.call(lambda: list(core.vhosts["/"].queues)) == []


def answer(port: int, request: bytes) -> bytes:
    """All that the broker sends until it closes."""
    with socket.create_connection((ADDRESS, port), timeout=10) as peer:
        peer.sendall(request)
        received = b""
        while not received.startswith(b"HTTP") or b"\r\n" not in received:
            data = peer.recv(65536)
            if not data:
                break
            received += data
        return received


@pytest.mark.parametrize(("password", "is_warned"), [("guest", True), ("a better one", False)])
def test_a_broker_on_a_network_warns_of_the_password_guest(
    network: Network, caplog: pytest.LogCaptureFixture, password: str, is_warned: bool
) -> None:
    settings = Settings(host=(ADDRESS,), amqp_port=0, http_port=None, default_password=password)
    with network.inside(), leveret.Broker(settings):
        pass
    assert ("user guest still has the password guest" in caplog.text) is is_warned


def test_a_broker_on_loopback_does_not_warn_of_it(caplog: pytest.LogCaptureFixture) -> None:
    with leveret.Broker(Settings(amqp_port=0, http_port=None)):
        pass
    assert "guest" not in caplog.text
