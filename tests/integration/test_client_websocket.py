"""S3-03: AMQP over a WebSocket at /ws of the HTTP port: handshakes, frames in any slicing, the bounds of strangers.

The calls of a client over it are in test_client_transports.py.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from websockets.frames import CloseCode, Opcode

import leveret
from leveret.http.stream_listeners import LARGEST_PIECE
from leveret.session.limits import UNAUTHENTICATED_BYTES
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.http_api import QUIET, HttpApi
from tests.support.raw_client import RawClient, eventually, plain
from tests.support.ws_client import WsRawClient, WsSocket

BODY = bytes(64 << 10)


@pytest.fixture(scope="module")
def broker() -> Iterator[leveret.Broker]:
    with leveret.Broker(QUIET) as running:
        yield running


@pytest.fixture(autouse=True)
def nobody_else_is_harmed(bystander: RawClient) -> Iterator[None]:
    yield
    bystander.is_alive()


def opened(broker: leveret.Broker, path: str = "/ws", **how: object) -> WsSocket:
    made = WsSocket(broker.http_url, path, **how)  # type: ignore[arg-type]
    made.settimeout(5.0)
    return made


def refusal(ws: WsSocket) -> tuple[int, str]:
    ws.close()
    assert ws.answer is not None
    assert ws.answer.headers["Content-Type"] == "application/json"
    return ws.answer.status_code, json.loads(bytes(ws.answer.body or b""))["reason"]


def answers_in_amqp(ws: WsSocket) -> bool:
    ws.sendall(PROTOCOL_HEADER)
    heard = ws.recv(0)
    ws.close()
    return heard.startswith(b"\x01\x00\x00") and b"RabbitMQ" in heard


# ---- the handshake


@pytest.mark.feature("S3-03")
def test_the_subprotocol_is_amqp(broker: leveret.Broker) -> None:
    ws = opened(broker, subprotocols=("mqtt", "amqp"))
    assert ws.speech.subprotocol == "amqp"
    assert answers_in_amqp(ws)


@pytest.mark.feature("S3-03")
def test_without_a_subprotocol_amqp_is_meant(broker: leveret.Broker) -> None:
    ws = opened(broker, subprotocols=())
    assert ws.speech.subprotocol is None
    assert answers_in_amqp(ws)


@pytest.mark.feature("S3-03")
def test_an_unknown_subprotocol_is_refused_with_those_that_are_known(broker: leveret.Broker) -> None:
    status, reason = refusal(opened(broker, subprotocols=("mqtt", "wamp")))
    assert status == 400
    assert "unsupported subprotocol mqtt, wamp" in reason
    assert "amqp" in reason.partition("use one of")[2]


@pytest.mark.feature("S3-03")
def test_no_websocket_is_anywhere_else(broker: leveret.Broker) -> None:
    assert refusal(opened(broker, "/api/queues")) == (404, "no WebSocket endpoint at /api/queues: connect to /ws")


@pytest.mark.feature("S3-03")
def test_a_plain_request_is_told_what_the_path_is_for(broker: leveret.Broker) -> None:
    response, answer = HttpApi(broker.http_url, None).send("GET", "/ws")
    assert (response.status, response.getheader("upgrade")) == (426, "websocket")
    assert "needs a WebSocket" in json.loads(answer)["reason"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "https://{host}:{port}.evil.example", "null", "file://"]
)
@pytest.mark.feature("S3-03")
def test_a_page_of_another_site_is_refused(broker: leveret.Broker, origin: str) -> None:
    where = urlsplit(broker.http_url)
    named = origin.format(host=where.hostname, port=where.port)
    status, reason = refusal(opened(broker, origin=named))
    assert status == 403
    assert reason.startswith(f"pages of {named} may not connect")


@pytest.mark.feature("S3-03")
def test_a_page_that_the_port_itself_serves_may_connect(broker: leveret.Broker) -> None:
    assert answers_in_amqp(opened(broker, origin=broker.http_url))


SOUND = {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        pytest.param({"Sec-WebSocket-Version": "7"}, 400, id="an old version"),
        pytest.param({"Sec-WebSocket-Key": "short"}, 400, id="no key"),
        pytest.param({"Sec-WebSocket-Protocol": "amqp,,(;"}, 400, id="no list of names"),
        pytest.param({"Origin": "http://[bad"}, 403, id="an origin that is none"),
        pytest.param({"Origin": "http://a\r\nOrigin: http://b"}, 403, id="two origins"),
        pytest.param({"X-Long": "x" * 9_000}, 431, id="a line too long"),
    ],
)
def test_a_handshake_that_is_none_is_refused(broker: leveret.Broker, wrong: dict[str, str], status: int) -> None:
    where = urlsplit(broker.http_url)
    with RawClient(f"amqp://{where.netloc}") as peer:
        headers = {"Host": where.netloc, "Connection": "Upgrade", "Upgrade": "websocket", **SOUND, **wrong}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        peer.send_bytes(f"GET /ws HTTP/1.1\r\n{lines}\r\n".encode())
        heard = b""
        while part := peer.socket.recv(1 << 16):
            heard += part
        assert heard.startswith(b"HTTP/1.1 %d " % status)


# ---- frames


@pytest.mark.feature("S3-03")
def test_bytes_may_be_cut_into_frames_anywhere(broker: leveret.Broker) -> None:
    """One byte in a frame; then a message of three fragments with a ping between them."""
    with WsRawClient.open(broker.http_url) as peer:
        peer.send_slowly(method_frame(1, QueueDeclare("cut up", exclusive=True)))
        assert peer.expect(QueueDeclareOk).queue == "cut up"
        declare = method_frame(1, QueueDeclare("cut up", passive=True))
        peer.ws.send_frame(Opcode.BINARY, declare[:5], fin=False)
        peer.ws.send_frame(Opcode.CONT, declare[5:9], fin=False)
        peer.ws.send_frame(Opcode.PING, b"still there?")
        peer.ws.send_frame(Opcode.CONT, declare[9:])
        pong = peer.ws.next_frame()
        assert pong is not None
        assert (pong.opcode, bytes(pong.data)) == (Opcode.PONG, b"still there?")
        assert peer.expect(QueueDeclareOk).queue == "cut up"


def test_text_is_refused(broker: leveret.Broker) -> None:
    ws = opened(broker)
    ws.send_frame(Opcode.TEXT, PROTOCOL_HEADER)
    closed = ws.expect_close()
    assert (closed.code, closed.reason) == (CloseCode.UNSUPPORTED_DATA, "amqp needs binary messages")
    assert ws.next_frame() is None
    ws.close()


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"\x82\x05AMQP\x00", id="not masked"),
        pytest.param(b"\xf2\x80\x00\x00\x00\x00", id="bits of extensions"),
        pytest.param(b"\x83\x80\x00\x00\x00\x00", id="no such opcode"),
        pytest.param(b"\x80\x80\x00\x00\x00\x00", id="goes on with nothing"),
        pytest.param(b"\x89\xfe\x01\x00" + bytes(260), id="a ping too long"),
    ],
)
def test_what_is_no_frame_ends_the_connection(broker: leveret.Broker, garbage: bytes) -> None:
    ws = opened(broker)
    ws.send_raw(garbage)
    assert ws.expect_close().code == CloseCode.PROTOCOL_ERROR
    assert ws.next_frame() is None
    ws.close()


def test_a_stranger_may_not_send_large_frames(broker: leveret.Broker) -> None:
    """Refused by its head: no byte of the body has to come."""
    ws = opened(broker)
    ws.send_raw(b"\x82\xff" + struct.pack(">Q", UNAUTHENTICATED_BYTES + 1) + bytes(4))
    assert ws.expect_close().code == CloseCode.MESSAGE_TOO_BIG
    ws.close()


def test_who_has_logged_in_may_send_larger_ones_within_bounds(broker: leveret.Broker) -> None:
    with WsRawClient.open(broker.http_url) as peer:
        declares = method_frame(1, QueueDeclare("l", exclusive=True)) * 4_000
        assert UNAUTHENTICATED_BYTES < len(declares) < LARGEST_PIECE
        peer.send_bytes(declares)
        for _ in range(4_000):
            peer.expect(QueueDeclareOk)
        peer.ws.send_raw(b"\x82\xff" + struct.pack(">Q", LARGEST_PIECE + 1) + bytes(4))
        assert peer.ws.expect_close().code == CloseCode.MESSAGE_TOO_BIG


# ---- back-pressure


def unsent(broker: leveret.Broker) -> int:
    connections = broker.node.broker.registry.connections
    most: int = broker.call(lambda: max(each.peer.unsent() for each in connections))  # type: ignore[attr-defined]
    return most


def test_a_consumer_that_does_not_read_gets_no_more_than_fits(broker: leveret.Broker) -> None:
    number = 400
    with WsRawClient.open(broker.http_url, timeout=20.0) as peer, RawClient.open(broker.amqp_url) as other:
        peer.call(QueueDeclare("unread", exclusive=True), QueueDeclareOk)
        peer.call(BasicConsume("unread", no_ack=True), BasicConsumeOk)
        for _ in range(number):
            peer.publish("", "unread", BODY)
        eventually(lambda: unsent(broker) > 0)
        other.is_alive()
        assert unsent(broker) < 4 << 20
        for _ in range(number):
            assert peer.expect_content(BasicDeliver).body == BODY


def test_a_peer_that_pings_and_does_not_read_is_not_listened_to(broker: leveret.Broker) -> None:
    ws = opened(broker)
    assert ws.answer is not None
    ws.sendall(PROTOCOL_HEADER)
    ping = b"\x89\xfd" + bytes(4) + bytes(125)
    ws.settimeout(1.0)
    with pytest.raises(TimeoutError):
        ws.send_raw(ping * 200_000)
    assert unsent(broker) < 2 * QUIET.write_high_watermark
    ws.close()


# ---- the end


@pytest.mark.feature("S3-03")
def test_a_goodbye_of_the_peer_is_answered(broker: leveret.Broker) -> None:
    with WsRawClient.open(broker.http_url) as peer:
        peer.call(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
        peer.ws.speech.send_close(CloseCode.GOING_AWAY)
        peer.ws._flush()
        assert peer.ws.expect_close().code == CloseCode.GOING_AWAY
    with RawClient.open(broker.amqp_url) as other:
        other.call(QueueDeclare("mine", exclusive=True), QueueDeclareOk)


def test_a_peer_that_says_nothing_is_dropped_in_time() -> None:
    with leveret.Broker(QUIET) as broker:
        ws = opened(broker)
        broker.call(lambda: broker.node.apply(replace(QUIET, handshake_timeout=0.3)))
        assert ws.next_frame() is None
        ws.close()


def test_websockets_count_as_connections() -> None:
    with leveret.Broker(replace(QUIET, connection_max=1)) as broker, WsRawClient.open(broker.http_url) as first:
        second = opened(broker)
        assert second.speech.subprotocol == "amqp"
        assert second.next_frame() is None
        second.close()
        first.is_alive()


def test_an_idle_websocket_outlives_the_time_that_a_request_may_take() -> None:
    with leveret.Broker(QUIET) as broker:
        http_server = broker.node._http
        assert http_server is not None
        broker.call(lambda: http_server.set_head_timeout(2.0))  # the login that follows the head has more time
        with WsRawClient.open(broker.http_url) as peer:
            peer.ws.settimeout(2.5)
            with pytest.raises(TimeoutError):
                peer.ws.next_frame()
            peer.ws.settimeout(60.0)
            peer.is_alive()


def test_a_peer_that_may_not_log_in_hears_a_goodbye_and_is_rid_of_at_once(broker: leveret.Broker) -> None:
    """While a login is verified the broker does not listen; it must all the same hear the answer to its goodbye."""
    with WsRawClient(broker.http_url, timeout=3.0) as peer:
        peer.login(response=plain("guest", "wrong"), capabilities={})
        assert peer.ws.expect_close().code == CloseCode.NORMAL_CLOSURE
        assert peer.ws.next_frame() is None


@pytest.mark.feature("S4-72")
def test_guest_is_refused_to_a_page_whose_name_was_made_to_lead_here(broker: leveret.Broker) -> None:
    """It has the right origin for the host that it names, and comes from this machine."""
    page = f"http://evil.example:{urlsplit(broker.http_url).port}"
    socket = WsSocket(broker.http_url, named="evil.example", origin=page)
    assert socket.answer.status_code == 101
    with WsRawClient(broker.http_url, ws=socket) as peer:
        peer.login(capabilities={"authentication_failure_close": True})
        assert peer.expect(ConnectionClose, 0).reply_code == 403


def test_where_streams_are_not_wanted_on_the_http_port_there_are_none() -> None:
    with leveret.Broker(replace(QUIET, http_streams="off")) as broker:
        assert refusal(opened(broker)) == (
            404,
            "WebSocket connections are disabled: enable them with --http-streams on",
        )
        response, answer = HttpApi(broker.http_url, None).send("POST", "/api/tunnel")
        assert response.status == 404
        assert "--http-streams on" in json.loads(answer)["reason"]
        assert HttpApi(broker.http_url).get("/api/whoami")[0] == 200
