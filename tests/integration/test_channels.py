"""Channels: many on one connection, independent of each other, opened and closed by either side."""

from __future__ import annotations

import pytest

import leveret
from leveret.config import Settings
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.raw_client import RawClient, eventually


@pytest.mark.feature("S4-05", "S4-58")
def test_2047_channels_are_open_at_once_and_all_work(broker: leveret.Broker) -> None:
    """Replies come on the channel that asked, whatever else is under way."""
    numbers = range(1, 2048)
    with RawClient.open(broker.amqp_url, channels=0) as client:
        client.send_bytes(b"".join(method_frame(number, ChannelOpen()) for number in numbers))
        for number in numbers:
            client.expect(ChannelOpenOk, number)
        asked = [method_frame(number, QueueDeclare(f"many.{number}", exclusive=True)) for number in reversed(numbers)]
        client.send_bytes(b"".join(asked))
        for number in reversed(numbers):
            assert client.expect(QueueDeclareOk, number).queue == f"many.{number}"
        client.publish("", "many.2047", b"first to last", channel=1)
        client.send(BasicGet("many.2047", no_ack=True), 2047)
        assert client.expect_content(BasicGetOk, 2047).body == b"first to last"
        client.close()


def test_channel_max_bounds_the_number_of_channels_not_their_numbers() -> None:
    """As in RabbitMQ: a client may number its channels as it likes."""
    settings = Settings(amqp_port=0, http_port=None, stomp_port=None, channel_max=3)
    with leveret.Broker(settings) as broker, RawClient.open(broker.amqp_url, channels=1) as client:
        for number in (65535, 7):
            client.open_channel(number)
        client.call(ChannelClose(200, "done"), ChannelCloseOk, 7)
        client.open_channel(9)
        client.send(ChannelOpen(), 2)
        told = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
        assert client.expect_close(530).reply_text == told


def test_a_client_may_ask_for_fewer_channels(broker: leveret.Broker) -> None:
    with RawClient.open(broker.amqp_url, channels=2, channel_max=2) as client:
        client.send(ChannelOpen(), 3)
        client.expect_close(530)


def test_a_closed_number_can_be_opened_again_and_starts_anew(client: RawClient) -> None:
    """Nothing of the old channel is left: delivery tags start at 1, its consumers and last queue are gone."""
    client.call(QueueDeclare("again"), QueueDeclareOk)
    client.call(BasicConsume("again", "old"), BasicConsumeOk)
    client.publish("", "again", b"kept")
    client.expect_content()
    client.call(ChannelClose(200, "done"), ChannelCloseOk)
    client.open_channel(1)
    client.send(BasicGet("again"))
    got = client.expect_content(BasicGetOk)
    assert isinstance(got.method, BasicGetOk)
    assert (got.method.delivery_tag, got.method.redelivered, got.body) == (1, True, b"kept")
    client.send(BasicGet(""))
    client.expect_channel_close(404)


def test_flow_on_is_answered(client: RawClient) -> None:
    assert client.call(ChannelFlow(True), ChannelFlowOk).active


@pytest.mark.feature("S4-58")
def test_many_requests_under_way_are_answered_in_order(client: RawClient) -> None:
    """A thousand declares on two channels without waiting."""
    asked = [(1 + number % 2, f"under.way.{number}") for number in range(1000)]
    client.send_bytes(b"".join(method_frame(on, QueueDeclare(name, exclusive=True)) for on, name in asked))
    for on, name in asked:
        assert client.expect(QueueDeclareOk, on).queue == name


@pytest.mark.parametrize("how", ["cut", "close"])
@pytest.mark.feature("S4-61")
def test_a_vanished_client_leaves_nothing_behind(how: str, broker: leveret.Broker) -> None:
    """Channels, consumers and exclusive queues go, unacked messages return; close or not."""
    with RawClient.open(broker.amqp_url) as witness:
        witness.call(QueueDeclare(f"left.{how}"), QueueDeclareOk)
        with RawClient.open(broker.amqp_url, channels=3) as client:
            client.call(QueueDeclare(f"own.{how}", exclusive=True), QueueDeclareOk)
            client.call(BasicConsume(f"left.{how}"), BasicConsumeOk, 2)
            client.publish("", f"left.{how}", b"unacked")
            client.expect_content(BasicDeliver, 2)
            getattr(client, how)()

        def is_clean() -> bool:
            kept = witness.call(QueueDeclare(f"left.{how}", passive=True), QueueDeclareOk)
            return (kept.message_count, kept.consumer_count) == (1, 0)

        eventually(is_clean)
        witness.send(BasicGet(f"left.{how}"))
        got = witness.expect_content(BasicGetOk).method
        assert isinstance(got, BasicGetOk)
        assert got.redelivered
        witness.send(QueueDeclare(f"own.{how}", passive=True))
        witness.expect_channel_close(404)


@pytest.mark.feature("S4-61")
def test_a_client_that_vanishes_in_the_middle_of_a_message_publishes_nothing(broker: leveret.Broker) -> None:
    """And the bytes of the unfinished message are given back."""
    core = broker.node.broker

    def held() -> int:
        return broker.call(lambda: core.gauge.used + core.memory_users.unfinished.bytes)

    with RawClient.open(broker.amqp_url) as witness:
        witness.call(QueueDeclare("halves"), QueueDeclareOk)
        before = held()
        with RawClient.open(broker.amqp_url) as client:
            client.publish("", "halves", b"x" * 100_000, piece=1000)
            half = bytearray()
            whole, client.send_bytes = client.send_bytes, half.extend  # type: ignore[method-assign]
            client.publish("", "halves", b"x" * 100_000, piece=1000)
            whole(bytes(half[: len(half) // 2]))
            eventually(lambda: held() > before + 140_000)
        witness.send(BasicGet("halves", no_ack=True))
        assert witness.expect_content(BasicGetOk).body == b"x" * 100_000
        eventually(lambda: held() == before)
        witness.call(BasicGet("halves"), BasicGetEmpty)


def test_everything_on_a_closing_channel_is_ignored_until_close_ok(client: RawClient) -> None:
    """Acks, publishes and whole messages that crossed with our close were sent in good faith."""
    client.send(QueueDeclare("crossing", nowait=True))
    client.publish("", "crossing", b"one")
    client.call(BasicConsume("crossing", "c"), BasicConsumeOk)
    tag = client.expect_content().method
    assert isinstance(tag, BasicDeliver)
    client.send(QueueDeclare("none", passive=True))
    crossing = [BasicAck(tag.delivery_tag), BasicNack(99), BasicReject(99), BasicGet("crossing"), BasicAck(99, True)]
    for method in crossing:
        client.send(method)
    client.publish("", "crossing", b"two")
    closed = client.expect(ChannelClose)
    assert closed.reply_code == 404
    client.is_alive(2)
    client.send(ChannelCloseOk())
    client.open_channel(1)
    assert (
        client.call(QueueDeclare("crossing", passive=True), QueueDeclareOk).message_count == 1
    )  # the ack came too late


@pytest.mark.parametrize("late", [BasicAck(1), BasicNack(1), BasicReject(1)], ids=lambda late: late.NAME)
def test_acks_for_a_channel_that_is_closed_are_ignored(late: Method, client: RawClient) -> None:
    client.call(ChannelClose(200, "done"), ChannelCloseOk)
    client.send(late)
    client.is_alive(2)
    client.send(QueueDeclare("none", passive=True), 2)
    client.expect_channel_close(404, 2)
    client.send(late, 2)  # after our close-ok
    client.open_channel(1)
    client.is_alive(1)


def test_other_methods_on_a_closed_channel_are_a_channel_error(client: RawClient) -> None:
    client.call(ChannelClose(200, "done"), ChannelCloseOk)
    client.send(QueueDeclare("q"))
    assert client.expect_close(504).method_id == QueueDeclare.METHOD_ID


def test_a_close_that_crosses_ours_is_answered(client: RawClient) -> None:
    client.send_bytes(method_frame(1, QueueDeclare("none", passive=True)) + method_frame(1, ChannelClose(200, "done")))
    assert client.expect(ChannelClose).reply_code == 404
    client.expect(ChannelCloseOk)
    client.send(ChannelCloseOk())
    client.open_channel(1)
    client.is_alive(1)
