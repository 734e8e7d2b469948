"""STOMP through the HTTP port: a WebSocket at /ws with one of STOMP's subprotocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

import leveret
from leveret import Settings
from tests.support.management_api import as_guest
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
def test_s3_03_stomp_is_spoken_over_websocket(broker: leveret.Broker, subprotocol: str) -> None:
    with opened(broker, subprotocol) as socket:
        assert socket.subprotocol == subprotocol
        socket.send(made("CONNECT", LOGIN).decode())
        assert read(socket).command == "CONNECTED"
        socket.send(made("SUBSCRIBE", {"destination": "/queue/q", "id": "1"}).decode())
        body = b"\xff\x00binary"
        socket.send(made("SEND", {"destination": "/queue/q", "content-length": len(body)}, body))
        assert read(socket).body == body


def test_s4_77_management_shows_who_came_over_websocket(broker: leveret.Broker) -> None:
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
