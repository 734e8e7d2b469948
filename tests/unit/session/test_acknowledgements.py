"""ack, nack, reject and recover as frames (S4-52, S4-55, S4-75)."""

from __future__ import annotations

import pytest

from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicNack,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ConnectionClose,
)
from tests.support.peer_pair import Client, Content, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    """With five deliveries unacked."""
    client = harness.client()
    client.declare("q")
    client.consume("q")
    client.publish("q", b"1", b"2", b"3", b"4", b"5")
    assert client.bodies() == [b"1", b"2", b"3", b"4", b"5"]
    return client


def again(client: Client) -> list[tuple[bytes, bool]]:
    return [(what.body, what.redelivered) for what in client.heard() if isinstance(what, Content)]


@pytest.mark.parametrize(
    ("acks", "left"),
    [
        ([BasicAck(1), BasicAck(2), BasicAck(3)], 2),
        ([BasicAck(3), BasicAck(1), BasicAck(2)], 2),
        ([BasicAck(3, multiple=True)], 2),
        ([BasicAck(1), BasicAck(4, multiple=True), BasicAck(5)], 0),
        ([BasicAck(5), BasicAck(3, multiple=True)], 1),
        ([BasicAck(2), BasicAck(0, multiple=True)], 0),
        ([BasicAck(5, multiple=True), BasicAck(0, multiple=True)], 0),
    ],
    ids=str,
)
@pytest.mark.feature("S4-52")
def test_acks_in_any_order_settle_what_they_name(
    harness: Harness, client: Client, acks: list[BasicAck], left: int
) -> None:
    client.send(*acks)
    assert client.heard() == []
    assert harness.queue("q").unacked == left
    assert harness.queue("q").counters.acked == 5 - left
    client.ack(0, multiple=True)
    harness.turn()
    assert harness.broker.gauge.used == 0


@pytest.mark.parametrize(
    "acks",
    [
        [BasicAck(6)],
        [BasicAck(6, multiple=True)],
        [BasicAck(0)],
        [BasicAck(1), BasicAck(1)],
        [BasicAck(2, multiple=True), BasicAck(1)],
        [BasicAck(2), BasicAck(2, multiple=True)],
        [BasicAck(1), BasicAck(2), BasicAck(9)],
        [BasicReject(6)],
        [BasicNack(6, multiple=True)],
    ],
    ids=str,
)
def test_an_unknown_tag_ends_the_channel(client: Client, acks: list[BasicAck]) -> None:
    client.send(*acks)
    (close,) = client.heard()
    assert isinstance(close, ChannelClose)
    assert (close.reply_code, close.reply_text) == (
        406,
        f"PRECONDITION_FAILED - unknown delivery tag {acks[-1].delivery_tag}",
    )
    assert (close.class_id, close.method_id) == acks[-1].id


def test_acks_that_come_after_the_end_of_their_channel_are_ignored(client: Client) -> None:
    client.send(BasicAck(9), BasicAck(1), BasicNack(2), BasicReject(3))
    assert client.error()[0] == 406
    client.open_channel(2)


def test_a_run_of_acks_ends_where_another_channel_speaks(harness: Harness, client: Client) -> None:
    client.open_channel(2)
    client.consume("q", channel=2)
    client.publish("q", b"6", channel=2)
    client.publish("q", b"7", channel=2)
    client.heard()
    frames = [(1, BasicAck(1)), (1, BasicAck(2)), (2, BasicAck(1)), (1, BasicAck(3))]
    client.feed(b"".join(method_frame(channel, ack) for channel, ack in frames))
    assert client.heard() == []
    assert harness.queue("q").counters.acked == 4


@pytest.mark.feature("S4-55", "S4-75")
def test_nack_with_requeue_gives_back_to_the_old_place(client: Client) -> None:
    client.nack(2)
    assert again(client) == [(b"2", True)]
    client.nack(4, multiple=True)
    assert again(client) == [(b"1", True), (b"3", True), (b"4", True)]


@pytest.mark.feature("S4-55")
def test_nack_and_reject_without_requeue_drop(harness: Harness, client: Client) -> None:
    client.nack(2, multiple=True, requeue=False)
    client.send(BasicReject(3, requeue=False))
    assert client.heard() == []
    assert (harness.queue("q").unacked, harness.queue("q").counters.dropped) == (2, 3)


@pytest.mark.feature("S4-55")
def test_reject_with_requeue_gives_back_one(client: Client) -> None:
    client.send(BasicReject(5, requeue=True))
    assert again(client) == [(b"5", True)]


def test_nacking_everything_at_once(client: Client) -> None:
    client.nack(0, multiple=True)
    assert again(client) == [(b"%d" % number, True) for number in range(1, 6)]


def test_recover_gives_everything_back_in_order(client: Client) -> None:
    client.ack(2)
    client.send(BasicRecover(requeue=True))
    answer, *deliveries = client.heard()
    assert answer == BasicRecoverOk()
    assert [(what.body, what.redelivered) for what in deliveries] == [  # type: ignore[union-attr]
        *((b"1", True), (b"3", True), (b"4", True), (b"5", True)),
    ]
    client.send(BasicRecoverAsync(requeue=True))
    assert len(again(client)) == 4


def test_recover_without_requeue_is_not_implemented(client: Client) -> None:
    client.send(BasicRecover(requeue=False))
    (close,) = client.heard()
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (540, 60, 110)


def test_messages_of_several_consumers_and_gets_return_to_one_order(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    client.qos(2)
    client.publish("q", *[b"%d" % number for number in range(6)])
    client.consume("q", "one")
    client.consume("q", "two")
    client.heard()
    assert client.get("q").body == b"4"  # type: ignore[union-attr]
    client.send(ChannelClose(200, ""))
    client.heard()
    client.open_channel(1)
    client.consume("q")
    assert again(client) == [(b"%d" % number, number < 5) for number in range(6)]


def test_the_queue_is_told_how_often_a_message_was_tried(harness: Harness, client: Client) -> None:
    client.nack(1)
    client.nack(6)
    client.send(BasicCancel("tag", nowait=True))
    client.nack(7)
    assert [(sequence, tries) for sequence, tries, _ in harness.queue("q").lane] == [(1, 3)]


def test_the_redelivered_flag_stays_for_good(client: Client) -> None:
    client.nack(1)
    client.nack(6)
    assert again(client) == [(b"1", True), (b"1", True)]


@pytest.mark.feature("S4-52")
def test_an_old_delivery_stays_unacked_however_many_later_ones_are_acked(harness: Harness) -> None:
    """One by one, in order, until the old one is kept apart from the others."""
    client = harness.client()
    client.declare("q")
    client.qos(50)
    client.consume("q")
    client.publish("q", b"old")
    client.heard()
    for _ in range(100):
        client.publish("q", *[b"new"] * 40)
        for delivered in client.heard():
            assert isinstance(delivered, Content)
            client.ack(delivered.tag)
    assert harness.queue("q").unacked == 1
    client.nack(1)
    assert again(client) == [(b"old", True)]
