"""Limits of WebSocket frames. Also run with the oldest websockets that is allowed (tests/environments)."""

from __future__ import annotations

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.uri import WebSocketURI

from leveret.http.websocket_frames import WebSocketFrames

LIMIT = 1000


@pytest.fixture
def ends() -> tuple[ClientProtocol, WebSocketFrames]:
    """After the handshake."""
    client = ClientProtocol(WebSocketURI(False, "localhost", 80, "/", ""), max_size=None)
    server = WebSocketFrames(LIMIT)
    client.send_request(client.connect())
    server.receive_data(b"".join(client.data_to_send()))
    (request,) = server.events_received()
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    client.receive_data(b"".join(server.data_to_send()))
    assert client.state is OPEN
    return client, server


def sizes(client: ClientProtocol, server: WebSocketFrames) -> list[int]:
    """Of the frames that the server has received."""
    server.receive_data(b"".join(client.data_to_send()))
    return [len(event.data) for event in server.events_received() if isinstance(event, Frame)]


def test_a_message_may_be_as_long_as_it_likes(ends: tuple[ClientProtocol, WebSocketFrames]) -> None:
    client, server = ends
    client.send_binary(bytes(LIMIT), fin=False)
    for _ in range(3):
        client.send_continuation(bytes(LIMIT), fin=False)
    client.send_continuation(bytes(LIMIT), fin=True)
    client.send_binary(bytes(LIMIT))
    assert sizes(client, server) == [LIMIT] * 6
    assert server.state is OPEN


@pytest.mark.parametrize("limit", [LIMIT, 3 * LIMIT])
def test_a_frame_above_the_limit_ends_the_connection(ends: tuple[ClientProtocol, WebSocketFrames], limit: int) -> None:
    client, server = ends
    server.limit(limit)
    client.send_binary(bytes(limit), fin=False)
    client.send_continuation(bytes(limit + 1), fin=True)
    assert sizes(client, server) == [limit]
    assert server.close_sent is not None
    assert server.close_sent.code == 1009
