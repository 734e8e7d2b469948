"""Contents: any legal size in any legal pieces, from any peer to any other, however the bytes are cut on the way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import leveret
from leveret.config import Settings
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER
from leveret.wire.frames import CONTENT_HEADER, frame, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties
from tests.support.raw_client import Content, RawClient, publish_bytes

LARGE = bytes(range(256)) * 1200  # 300 KiB: several frames for everybody
EVERYTHING = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"text": "grüß", "deep": {"list": [1, True, None, Decimal("1.5"), b"\0\1"]}, "big": 1 << 40},
    delivery_mode=2,
    priority=3,
    correlation_id="c-1",
    reply_to="elsewhere",
    expiration="600000",
    message_id="m-1",
    timestamp=datetime(2026, 1, 31, 12, 0, tzinfo=UTC),
    type="greeting",
    user_id="guest",
    app_id="tests",
    cluster_id="none",
)


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[RawClient]:
    """Channels 1 and 2; messages for the queue ``inbox`` are delivered on 1."""
    with RawClient.open(broker.amqp_url, channels=2) as made:
        made.call(QueueDeclare("inbox", exclusive=True), QueueDeclareOk)
        made.call(BasicConsume("inbox", no_ack=True), BasicConsumeOk)
        yield made


@pytest.mark.parametrize("size", [0, 1, 2, 255, 4087, 4088, 4089, 8176, 131063, 131064, 131065, 262128, 300_000])
@pytest.mark.feature("S4-09")
def test_bodies_of_any_size_arrive_whole(size: int, client: RawClient) -> None:
    """A binary body, from nothing to several frames."""
    body = (LARGE * 2)[:size]
    client.publish("", "inbox", body)
    assert client.expect_content().body == body


@pytest.mark.parametrize("piece", [1, 2, 7, 100, 4088, 50_000, 131064])
def test_bodies_in_pieces_of_any_size_arrive_whole(piece: int, client: RawClient) -> None:
    body = LARGE[: 300 if piece < 10 else 300_000]
    client.publish("", "inbox", body, EVERYTHING, piece=piece)
    content = client.expect_content()
    assert (content.body, content.properties) == (body, EVERYTHING)


def test_empty_body_frames_among_others_change_nothing(client: RawClient) -> None:
    said = method_frame(1, BasicPublish("", "inbox"))
    said += frame(FRAME_HEADER, 1, CONTENT_HEADER.pack(60, 0, 4) + b"\0\0")
    for part in (b"", b"ab", b"", b"", b"cd"):
        said += frame(FRAME_BODY, 1, part)
    client.send_bytes(said)
    assert client.expect_content().body == b"abcd"


def test_a_body_in_very_small_frames_costs_no_more_than_its_size(broker: leveret.Broker, client: RawClient) -> None:
    """Unfinished and finished: 200,000 frames of a byte or two, with a larger one among them."""
    pieces = [b"ab", b"c"] * 50_000 + [b"large" * 100] + [b"z"] * 100_000
    body = b"".join(pieces)
    said = method_frame(1, BasicPublish("", "inbox"))
    said += frame(FRAME_HEADER, 1, CONTENT_HEADER.pack(60, 0, len(body)) + b"\0\0")
    client.send_bytes(said + b"".join(frame(FRAME_BODY, 1, piece) for piece in pieces[:-1]))
    client.is_alive(2)
    assert broker.call(lambda: broker.node.broker.memory_users.unfinished.bytes) < 1.1 * len(body)
    client.send_frame(FRAME_BODY, 1, pieces[-1])
    assert client.expect_content().body == body


def test_a_header_as_large_as_a_frame_arrives_whole(client: RawClient) -> None:
    properties = Properties(headers={f"h{number}": "x" * 1000 for number in range(120)})
    client.publish("", "inbox", b"small", properties)
    content = client.expect_content()
    assert (content.body, content.properties) == (b"small", properties)


@pytest.mark.feature("S4-09", "S4-10", "S4-11")
def test_every_property_arrives_as_it_was_and_none_is_invented(client: RawClient) -> None:
    """Also with a message_id of the application's own, also without any properties."""
    client.publish("", "inbox", b"x", EVERYTHING)
    assert client.expect_content().properties == EVERYTHING
    client.publish("", "inbox", b"x")
    assert client.expect_content().properties == Properties()


@pytest.mark.parametrize("publisher_max", [4096, 10_000, 131072])
@pytest.mark.parametrize("consumer_max", [4096, 10_000, 131072])
@pytest.mark.parametrize("channel", [1, 900])
def test_peers_with_different_frames_and_channels_understand_each_other(
    channel: int, consumer_max: int, publisher_max: int, broker: leveret.Broker
) -> None:
    """Each gets frames of its own size on its own channel, by push, by get and by redelivery."""
    sizes = [0, 1, 4000, 4088, 4089, 9000, 9992, 131064, 200_000]
    with (
        RawClient.open(broker.amqp_url, frame_max=publisher_max) as publisher,
        RawClient.open(broker.amqp_url, frame_max=consumer_max) as consumer,
    ):
        if channel > 1:
            consumer.open_channel(channel)
        consumer.call(QueueDeclare("fitted", auto_delete=True), QueueDeclareOk, channel)
        for size in sizes:
            publisher.publish("", "fitted", LARGE[:size], EVERYTHING)
        publisher.is_alive()
        consumer.send(BasicGet("fitted"), channel)
        assert consumer.expect_content(BasicGetOk, channel).body == b""
        consumer.call(BasicConsume("fitted", "first"), BasicConsumeOk, channel)
        for size in sizes[1:]:
            content = consumer.expect_content(channel=channel)
            assert (content.body, content.properties) == (LARGE[:size], EVERYTHING)
        with RawClient.open(broker.amqp_url, frame_max=consumer_max) as second:
            second.call(BasicConsume("fitted", "second"), BasicConsumeOk)
            consumer.cut()
            assert [len(second.expect_content().body) for _ in sizes] == sizes  # again, in order


@pytest.mark.feature("S4-05")
def test_contents_on_several_channels_interleave(client: RawClient) -> None:
    """Frames of one channel stand between those of another; also heartbeats and methods."""
    first, second = b"first" * 1000, b"second" * 1000

    def parts(channel: int, body: bytes) -> list[bytes]:
        header = frame(FRAME_HEADER, channel, CONTENT_HEADER.pack(60, 0, len(body)) + b"\0\0")
        bodies = [frame(FRAME_BODY, channel, body[at : at + 500]) for at in range(0, len(body), 500)]
        return [method_frame(channel, BasicPublish("", "inbox")), header, *bodies]

    heartbeat = frame(8, 0, b"")
    woven = [part for pair in zip(parts(1, first), parts(2, second), strict=False) for part in (*pair, heartbeat)]
    rest = parts(2, second)[len(parts(1, first)) :]
    client.send_bytes(b"".join(woven))
    assert client.expect_content().body == first
    client.open_channel(3)
    client.send_bytes(b"".join(rest))
    assert client.expect_content().body == second


def test_messages_that_come_one_byte_at_a_time_arrive_whole(client: RawClient) -> None:
    said = publish_bytes(BasicPublish("", "inbox"), b"slow", EVERYTHING) + publish_bytes(BasicPublish("", "inbox"), b"")
    client.send_slowly(said)
    assert client.expect_content().body == b"slow"
    assert client.expect_content().body == b""


# ---- runs of publishes, cut everywhere

PLAIN_ONES = [(BasicPublish("", "inbox"), body, Properties(), 131072) for body in (b"a1", b"b2", b"c3", b"d4", b"e5")]
MIXED = [
    (BasicPublish("", "inbox"), b"same", Properties(delivery_mode=2), 131072),
    (BasicPublish("", "inbox"), b"same", Properties(delivery_mode=2), 131072),
    (BasicPublish("amq.fanout", "elsewhere"), b"in pieces", Properties(headers={"h": 1}), 12),
    (BasicPublish("", "inbox"), b"", Properties(), 131072),
    (BasicPublish("", "inbox"), b"\xce\0\x3c\0\x28", Properties(message_id="\x01\x02", expiration="600000"), 131072),
]
ALIKE_BUT_LENGTH = [(BasicPublish("", "inbox"), b"x" * size, Properties(), 131072) for size in (1, 2, 2, 1, 3)]


@pytest.mark.parametrize("messages", [PLAIN_ONES, MIXED, ALIKE_BUT_LENGTH], ids=["plain", "mixed", "lengths"])
@pytest.mark.feature("S4-56")
def test_a_run_of_publishes_cut_at_any_byte_is_the_same_run(
    messages: list[tuple[BasicPublish, bytes, Properties, int]], broker: leveret.Broker
) -> None:
    """Five messages in two pieces, cut at every place there is; what arrives is always the same."""
    chunk = b"".join(publish_bytes(method, body, props, 1, size) for method, body, props, size in messages)
    wanted = [(method.exchange, method.routing_key, body, props) for method, body, props, _ in messages]
    with RawClient.open(broker.amqp_url, channels=2) as client:
        client.call(QueueDeclare("inbox", exclusive=True), QueueDeclareOk)
        client.call(QueueBind("inbox", "amq.fanout", ""), QueueBindOk)
        client.call(BasicConsume("inbox", no_ack=True), BasicConsumeOk, 2)
        client.call(ConfirmSelect(), ConfirmSelectOk)
        confirmed = 0
        for cut in range(len(chunk)):
            client.send_bytes(chunk[:cut])
            for _ in range(2):
                broker.call(lambda: None)  # the first piece has been read by then
            client.send_bytes(chunk[cut:])
            got, confirmed = receive(client, len(messages), confirmed)
            seen = [(each.method.exchange, each.method.routing_key, each.body, each.properties) for each in got]
            assert seen == wanted, f"cut at byte {cut}"


def receive(client: RawClient, number: int, confirmed: int) -> tuple[list[Content], int]:
    """So many deliveries on channel 2 and confirms on channel 1, in whatever order the two come."""
    got: list[Content] = []
    target = confirmed + number
    while len(got) < number or confirmed < target:
        found = client.next_frame()
        client.unread(found)
        if found.channel == 1:
            ack = client.expect(BasicAck)
            assert ack.delivery_tag > confirmed
            assert ack.multiple or ack.delivery_tag == confirmed + 1
            confirmed = ack.delivery_tag
        else:
            got.append(client.expect_content(channel=2))
    return got, confirmed


def test_a_long_run_in_slices_of_many_sizes_arrives_in_order(client: RawClient) -> None:
    bodies = [b"%d" % number * (number % 50) for number in range(500)]
    said = b"".join(publish_bytes(BasicPublish("", "inbox"), body) for body in bodies)
    at = 0
    for turn in range(1, 100_000):
        client.send_bytes(said[at : at + turn * 37 % 997])
        at += turn * 37 % 997
        if at >= len(said):
            break
    assert [client.expect_content().body for _ in bodies] == bodies


def test_a_message_of_the_hard_ceiling_may_be_allowed() -> None:
    """The setting goes up to 512 MiB; here 20 MiB, more than the default allows, through 4 KiB frames."""
    settings = Settings(amqp_port=0, http_port=None, stomp_port=None, max_message_size=512 << 20)
    body = LARGE * 70
    with leveret.Broker(settings) as broker, RawClient.open(broker.amqp_url, frame_max=4096) as client:
        client.call(QueueDeclare("huge"), QueueDeclareOk)
        client.publish("", "huge", body)
        client.send(BasicGet("huge", no_ack=True))
        assert client.expect_content(BasicGetOk).body == body
