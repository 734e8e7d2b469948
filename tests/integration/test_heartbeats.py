"""Heartbeats both ways: the broker sends its own, drops a peer that went silent, and no other."""

from __future__ import annotations

import time

import pytest

import leveret
from leveret.wire.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.raw_client import Frame, RawClient


@pytest.mark.quiet
def test_the_broker_sends_heartbeats_while_it_has_nothing_to_say(broker: leveret.Broker) -> None:
    """Often enough that a peer which waits two intervals never gives up."""
    with RawClient.open(broker.amqp_url, heartbeat=1) as client:
        begun = time.monotonic()
        frames = client.frames()
        for _ in range(2):
            assert next(frames) == Frame(FRAME_HEARTBEAT, 0, b"")
            client.send_bytes(HEARTBEAT_FRAME)
        assert time.monotonic() - begun < 2.5


@pytest.mark.feature("S4-61")
def test_a_silent_peer_is_dropped_and_one_that_beats_is_not(broker: leveret.Broker) -> None:
    """Half-open, as after a pulled plug: the socket is there and nothing comes. What it held is free again."""
    with (
        RawClient.open(broker.amqp_url, heartbeat=1) as silent,
        RawClient.open(broker.amqp_url, heartbeat=1) as beating,
        RawClient.open(broker.amqp_url, heartbeat=0) as without,
    ):
        silent.call(QueueDeclare("held"), QueueDeclareOk)
        silent.call(BasicConsume("held"), BasicConsumeOk)
        silent.publish("", "held", b"unacked")
        silent.expect_content()
        begun, beats = time.monotonic(), 0
        for frame in silent.frames():  # ends when the broker has dropped it
            assert frame.kind == FRAME_HEARTBEAT
            beating.send_bytes(HEARTBEAT_FRAME)
            beats += 1
        assert time.monotonic() - begun >= 1.5
        assert beats <= 8  # within 4 s: the broker sends one every half interval
        beating.is_alive()
        held = without.call(QueueDeclare("held", passive=True), QueueDeclareOk)
        assert (held.message_count, held.consumer_count) == (1, 0)


def test_any_bytes_count_as_a_sign_of_life(broker: leveret.Broker) -> None:
    with RawClient.open(broker.amqp_url, heartbeat=1) as client:
        begun = time.monotonic()
        frames = client.frames()
        while time.monotonic() - begun < 2.6:
            assert next(frames).kind == FRAME_HEARTBEAT
            client.send_bytes(HEARTBEAT_FRAME[:4])  # half a frame, then the other half
            assert next(frames).kind == FRAME_HEARTBEAT
            client.send_bytes(HEARTBEAT_FRAME[4:])


def test_a_peer_we_do_not_read_is_not_silent() -> None:
    """Blocked by the memory alarm a publisher cannot be heard: it is not dropped, and goes on afterwards."""
    with (
        leveret.Broker() as broker,
        RawClient.open(broker.amqp_url, heartbeat=1) as publisher,
        RawClient.open(broker.amqp_url) as cleaner,
    ):
        memory = broker.node.broker.memory
        broker.call(lambda: setattr(memory, "high_watermark", 1 << 20))
        publisher.call(QueueDeclare("filled"), QueueDeclareOk)
        publisher.publish("", "filled", bytes(2 << 20))
        publisher.is_alive()
        publisher.publish("", "filled")
        publisher.expect(ConnectionBlocked, 0)
        begun = time.monotonic()
        frames = publisher.frames()
        while time.monotonic() - begun < 3:  # more than two intervals; the broker's own heartbeats still come
            assert next(frames).kind == FRAME_HEARTBEAT
        cleaner.call(QueuePurge("filled"), QueuePurgeOk)
        publisher.expect(ConnectionUnblocked, 0)
        publisher.is_alive()
