"""STOMP through the HTTP port: a WebSocket at /ws with one of STOMP's subprotocols."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from socket import SHUT_RDWR

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

import leveret
from leveret import Settings
from tests.support.management_api import as_guest
from tests.support.raw_client import eventually
from tests.support.stomp_client import StompFrame, made, taken

QUIET = Settings(amqp_port=None, http_port=0, stomp_port=None, shutdown_timeout=0.5, login_failure_delay=0.0)
LOGIN: dict[str, object] = {"accept-version": "1.0,1.1,1.2", "login": "guest", "passcode": "guest", "host": "/"}


@pytest.fixture
def broker() -> Iterator[leveret.Broker]:
    with leveret.Broker(QUIET) as running:
        yield running


def opened(broker: leveret.Broker, subprotocol: str = "v12.stomp") -> ClientConnection:
    url = broker.http_url.replace("http://", "ws://") + "/ws"
    return connect(url, subprotocols=[Subprotocol(subprotocol)], open_timeout=10)


def read(socket: ClientConnection) -> StompFrame:
    pending = b""
    while True:
        frame, pending = taken(pending)
        if frame is not None:
            return frame
        data = socket.recv(timeout=10)
        pending += data.encode() if isinstance(data, str) else data


@pytest.mark.parametrize("subprotocol", ["v10.stomp", "v11.stomp", "v12.stomp"])
@pytest.mark.feature("S3-03")
def test_stomp_is_spoken_over_websocket(broker: leveret.Broker, subprotocol: str) -> None:
    with opened(broker, subprotocol) as socket:
        assert socket.subprotocol == subprotocol
        socket.send(made("CONNECT", LOGIN).decode())
        assert read(socket).command == "CONNECTED"
        socket.send(made("SUBSCRIBE", {"destination": "/queue/q", "id": "1"}).decode())
        body = b"\xff\x00binary"
        socket.send(made("SEND", {"destination": "/queue/q", "content-length": len(body)}, body))
        assert read(socket).body == body


@pytest.mark.feature("S4-77")
def test_management_shows_who_came_over_websocket(broker: leveret.Broker) -> None:
    with opened(broker) as socket:
        socket.send(made("CONNECT", LOGIN))
        assert read(socket).command == "CONNECTED"
        (row,) = as_guest(broker).get("connections")[1]
        assert (row["protocol"], row["peer_host"]) == ("STOMP 1.2", "127.0.0.1")


def test_a_wrong_frame_is_answered_and_the_websocket_closed(broker: leveret.Broker) -> None:
    with opened(broker) as socket:
        socket.send("NONSENSE\n\n\0")
        assert read(socket)["message"] == "Bad command"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)


@pytest.mark.parametrize("size", [100_000, 3 << 20])
def test_a_message_comes_in_one_frame_however_large_it_is(broker: leveret.Broker, size: int) -> None:
    """The very first frame behind the login, too, which is larger than those of strangers may be."""
    with opened(broker) as socket:
        socket.send(made("CONNECT", LOGIN))
        assert read(socket).command == "CONNECTED"
        body = b"x" * size
        socket.send(made("SEND", {"destination": "/queue/q", "content-length": size, "receipt": "1"}, body))
        assert read(socket)["receipt-id"] == "1"
        socket.send(made("SUBSCRIBE", {"destination": "/queue/q", "id": "1"}))
        assert read(socket).body == body


def test_a_frame_that_no_message_needs_is_refused() -> None:
    with leveret.Broker(replace(QUIET, max_message_size=100_000)) as broker, opened(broker) as socket:
        socket.send(made("CONNECT", LOGIN))
        assert read(socket).command == "CONNECTED"
        socket.send(b"x" * 200_000)
        with pytest.raises(ConnectionClosedError) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == CloseCode.MESSAGE_TOO_BIG


def test_what_has_come_of_a_frame_is_memory(broker: leveret.Broker) -> None:
    def used() -> int:
        return broker.call(lambda: broker.node.broker.memory_users.unfinished.bytes)

    with opened(broker) as socket:
        socket.send(made("CONNECT", LOGIN))
        assert read(socket).command == "CONNECTED"
        before = used()
        socket.socket.sendall(b"\x82\xff" + (1_000_000).to_bytes(8, "big") + bytes(4) + b"x" * 500_000)
        eventually(lambda: used() == before + 500_000)
        socket.socket.shutdown(SHUT_RDWR)
        eventually(lambda: used() == before)
