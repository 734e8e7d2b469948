"""Every error of the wire: its code, whether it closes the channel or the connection, and that nobody else is harmed.

The table is that of docs/compat.md (RabbitMQ's behaviour). Those that close a channel are in
test_channel_errors.py, those before a connection is open in test_handshake.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import leveret
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, frame, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelFlow,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
)
from tests.support.raw_client import RawClient

Talk = Callable[[RawClient], None]
NOTHING = (0, 0)


def header(size: int, class_id: int = 60, flags: bytes = b"\0\0") -> bytes:
    return CONTENT_HEADER.pack(class_id, 0, size) + flags


def says(*frames: bytes | Method) -> Talk:
    def talk(client: RawClient) -> None:
        client.send_bytes(b"".join(each if isinstance(each, bytes) else method_frame(1, each) for each in frames))

    return talk


def on(channel: int, method: Method) -> bytes:
    return method_frame(channel, method)


PUBLISH = BasicPublish("", "nowhere")
HEADER_5 = frame(FRAME_HEADER, 1, header(5))
BAD_SHORT = frame(FRAME_METHOD, 1, QueueDeclare("qq").encode().replace(b"qq", b"\xff\xfe"))
NESTED = frame(FRAME_METHOD, 1, b"\x00\x32\x00\x0a\x00\x00\x01q\x00\xff\xff\xff\xff")

CONNECTION_ERRORS: dict[str, tuple[Talk, int, tuple[int, int], str]] = {
    "unknown frame type": (says(frame(5, 1, b"")), 501, NOTHING, "frame type 5"),
    "frame end is not 0xCE": (says(method_frame(1, BasicGet("q"))[:-1] + b"\xcd"), 501, NOTHING, ""),
    "payload over frame_max": (says(ENVELOPE.pack(3, 1, 131073) + b"x"), 501, NOTHING, "131073"),
    "payload of four gigabytes": (says(ENVELOPE.pack(1, 1, 0xFFFFFFFF) + b"x"), 501, NOTHING, ""),
    "body over the hard ceiling": (says(PUBLISH, frame(FRAME_HEADER, 1, header((512 << 20) + 1))), 501, NOTHING, ""),
    "more body than announced": (says(PUBLISH, HEADER_5, frame(FRAME_BODY, 1, b"sixsix")), 501, NOTHING, ""),
    "more body in a second frame": (
        says(PUBLISH, HEADER_5, frame(FRAME_BODY, 1, b"four"), frame(FRAME_BODY, 1, b"xx")),
        *(501, NOTHING, ""),
    ),
    "method frame without a method": (says(frame(FRAME_METHOD, 1, b"\0\x32")), 501, NOTHING, ""),
    "method cut short": (says(frame(FRAME_METHOD, 1, QueueDeclare("q").encode()[:-3])), 501, QueueDeclare.id, ""),
    "method with bytes behind it": (says(frame(FRAME_METHOD, 1, TxSelect().encode() + b"x")), 501, TxSelect.id, ""),
    "publish cut short": (says(frame(FRAME_METHOD, 1, BasicPublish("", "k").encode()[:-2])), 501, PUBLISH.id, ""),
    "ack cut short": (says(frame(FRAME_METHOD, 1, BasicAck(1).encode()[:-1])), 501, BasicAck.id, ""),
    "table longer than its frame": (says(NESTED), 501, QueueDeclare.id, ""),
    "bad UTF-8 in a short string": (says(BAD_SHORT), 501, QueueDeclare.id, ""),
    "content header cut short": (says(PUBLISH, frame(FRAME_HEADER, 1, b"\0\x3c\0\0")), 501, NOTHING, ""),
    "properties cut short": (says(PUBLISH, frame(FRAME_HEADER, 1, header(0, flags=b"\x80\0"))), 501, NOTHING, ""),
    "heartbeat with a payload": (says(frame(FRAME_HEARTBEAT, 0, b"x")), 501, NOTHING, ""),
    "unknown class": (says(frame(FRAME_METHOD, 1, b"\x03\xe7\0\x0a")), 540, (999, 10), ""),
    "unknown method": (says(frame(FRAME_METHOD, 1, b"\0\x32\x03\xe7")), 540, (50, 999), ""),
    "unknown method on channel 0": (says(frame(FRAME_METHOD, 0, b"\0\x0a\x03\xe7")), 540, (10, 999), ""),
    "channel method on channel 0": (says(on(0, QueueDeclare("q"))), 503, QueueDeclare.id, ""),
    "connection method elsewhere": (says(on(1, ConnectionOpen("/"))), 503, ConnectionOpen.id, ""),
    "a method only servers send": (says(QueueDeclareOk("q", 0, 0)), 503, QueueDeclareOk.id, ""),
    "method on an unopened channel": (says(on(9, QueueDeclare("q"))), 504, QueueDeclare.id, ""),
    "publish on an unopened channel": (says(on(9, PUBLISH)), 504, PUBLISH.id, ""),
    "ack on a channel never open": (says(on(9, BasicAck(1))), 504, BasicAck.id, ""),
    "second channel.open": (says(ChannelOpen()), 504, ChannelOpen.id, "second"),
    "start-ok when open": (says(on(0, ConnectionStartOk())), 504, ConnectionStartOk.id, ""),
    "tune-ok when open": (says(on(0, ConnectionTuneOk(2047, 131072, 0))), 504, ConnectionTuneOk.id, ""),
    "open when open": (says(on(0, ConnectionOpen("/"))), 504, ConnectionOpen.id, ""),
    "heartbeat on channel 1": (says(frame(FRAME_HEARTBEAT, 1, b"")), 505, NOTHING, ""),
    "header without a publish": (says(HEADER_5), 505, NOTHING, ""),
    "body without a publish": (says(frame(FRAME_BODY, 1, b"x")), 505, NOTHING, ""),
    "body before its header": (says(PUBLISH, frame(FRAME_BODY, 1, b"x")), 505, NOTHING, ""),
    "header twice": (says(PUBLISH, HEADER_5, HEADER_5), 505, NOTHING, ""),
    "method instead of a header": (says(PUBLISH, QueueDeclare("q")), 505, QueueDeclare.id, ""),
    "publish instead of a body": (says(PUBLISH, HEADER_5, PUBLISH), 505, PUBLISH.id, ""),
    "ack instead of a body": (says(PUBLISH, HEADER_5, BasicAck(1)), 505, BasicAck.id, ""),
    "wrong class in the header": (says(PUBLISH, frame(FRAME_HEADER, 1, header(0, 50))), 505, NOTHING, ""),
    "header on channel 0": (says(frame(FRAME_HEADER, 0, header(0))), 505, NOTHING, ""),
    "body on channel 0": (says(frame(FRAME_BODY, 0, b"x")), 505, NOTHING, ""),
    "body on an unopened channel": (says(frame(FRAME_BODY, 9, b"x")), 505, NOTHING, ""),
    "reused consumer tag": (
        says(QueueDeclare("tags", nowait=True), *[BasicConsume("tags", "t", nowait=True)] * 2),
        *(530, BasicConsume.id, "NOT_ALLOWED - attempt to reuse consumer tag 't'"),
    ),
    "immediate": (says(BasicPublish("", "q", immediate=True)), 540, PUBLISH.id, "NOT_IMPLEMENTED - immediate=true"),
    "prefetch_size": (says(BasicQos(1, 1)), 540, BasicQos.id, "NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
    "recover without requeue": (says(BasicRecover(False)), 540, BasicRecover.id, "requeue=false"),
    "recover-async without requeue": (says(BasicRecoverAsync(False)), 540, BasicRecoverAsync.id, "requeue=false"),
    "flow off": (says(ChannelFlow(False)), 540, ChannelFlow.id, "NOT_IMPLEMENTED - active=false"),
}


@pytest.mark.parametrize("row", CONNECTION_ERRORS)
@pytest.mark.feature("S4-56", "S4-81")
def test_connection_errors_close_that_connection_only(
    row: str, broker: leveret.Broker, client: RawClient, bystander: RawClient
) -> None:
    """One code and text per cause, the method named, other connections untouched."""
    talk, code, method, text = CONNECTION_ERRORS[row]
    talk(client)
    closed = client.expect_close(code)
    assert (closed.class_id, closed.method_id) == method
    assert text in closed.reply_text
    bystander.is_alive()
    with RawClient.open(broker.amqp_url) as another:
        another.is_alive()


@pytest.mark.parametrize("row", CONNECTION_ERRORS)
def test_connection_errors_are_the_same_when_bytes_come_one_at_a_time(row: str, client: RawClient) -> None:
    talk, code, method, text = CONNECTION_ERRORS[row]
    said: list[bytes] = []
    whole, client.send_bytes = client.send_bytes, said.append  # type: ignore[method-assign]
    talk(client)
    for byte in b"".join(said):
        whole(bytes((byte,)))
    client.send_bytes = whole  # type: ignore[method-assign]
    closed = client.expect_close(code)
    assert (closed.class_id, closed.method_id) == method
    assert text in closed.reply_text


def test_admin_close_and_shutdown_are_320(bystander: RawClient) -> None:
    with leveret.Broker() as broker, RawClient.open(broker.amqp_url) as first, RawClient.open(broker.amqp_url) as last:
        registry = broker.node.broker.registry
        chosen = broker.call(lambda: next(iter(registry.connections)))
        broker.call(lambda: chosen.force_close("closed by the admin"))
        assert first.expect_close(320).reply_text == "CONNECTION_FORCED - closed by the admin"
        last.is_alive()
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        closed = last.expect_close(320)
        stopping.join(5)
    assert closed.reply_text.startswith("CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")
    bystander.is_alive()


def test_a_bug_of_ours_is_541_and_costs_one_connection(broker: leveret.Broker, client: RawClient) -> None:
    """Whatever an interceptor does wrong: logged, answered, and nobody else notices."""

    def broken(context: object, method: Method) -> Method:
        raise ZeroDivisionError

    unregister = broker.call(lambda: broker.node.broker.interceptors.register(ExchangeDeclare, broken))
    try:
        with RawClient.open(broker.amqp_url) as victim:
            victim.send(ExchangeDeclare("e"))
            closed = victim.expect_close(541)
            assert (closed.class_id, closed.method_id) == ExchangeDeclare.id
    finally:
        broker.call(unregister)
    client.call(ExchangeDeclare("e"), ExchangeDeclareOk)


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), id="TLS hello"),
        pytest.param(b"AMQP\x00\x00\x09\x00", id="AMQP 0-9"),
        pytest.param(b"AMQP\x00\x01\x00\x00", id="AMQP 1.0"),
        pytest.param(b"AMQP\x03\x01\x00\x00", id="SASL of AMQP 1.0"),
        pytest.param(b"x", id="one wrong byte"),
    ],
)
def test_other_protocols_are_told_ours_and_closed(
    greeting: bytes, broker: leveret.Broker, bystander: RawClient
) -> None:
    with RawClient(broker.amqp_url) as stranger:
        stranger.send_bytes(greeting)
        stranger.expect_raw(PROTOCOL_HEADER)
    bystander.is_alive()
