"""More time for a message, asked for by a publish on the channel that holds it."""

from __future__ import annotations

import pytest

from leveret.session.ack_timeout_extension import EXTEND
from leveret.wire.methods import BasicAck, ChannelClose, ConfirmSelect
from tests.support.peer_pair import Client, Content, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    """With two deliveries that may be held for ten seconds."""
    client = harness.client()
    client.declare("q", arguments={"x-consumer-timeout": 10_000})
    client.consume("q")
    client.publish("q", b"1", b"2")
    assert client.bodies() == [b"1", b"2"]
    return client


def again(client: Client) -> list[bytes]:
    return [what.body for what in client.heard() if isinstance(what, Content) and what.redelivered]


@pytest.mark.feature("S4-53")
def test_one_message_is_kept_for_longer_the_other_goes_back(harness: Harness, client: Client) -> None:
    harness.advance(9)
    client.publish(EXTEND, b"", headers={"delivery-tag": 1, "timeout": 60_000})
    harness.advance(1)
    assert again(client) == [b"2"]
    harness.advance(58.9)
    assert b"1" not in again(client)
    harness.advance(0.1)
    assert b"1" in again(client)


def test_without_a_time_it_is_the_queues_own_again(harness: Harness, client: Client) -> None:
    client.send(BasicAck(2))
    harness.advance(9)
    client.publish(EXTEND, b"", headers={"delivery-tag": 1})
    harness.advance(9.9)
    assert again(client) == []
    harness.advance(0.1)
    assert again(client) == [b"1"]


def test_it_is_confirmed_like_a_publish_and_an_ack_ends_it(harness: Harness, client: Client) -> None:
    client.ask(ConfirmSelect())
    client.publish(EXTEND, b"", headers={"delivery-tag": 1, "timeout": 60_000})
    assert client.heard() == [BasicAck(1)]
    client.send(BasicAck(2, multiple=True))
    harness.advance(100)
    assert client.heard() == []
    assert harness.queue("q").unacked == 0


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, "'delivery-tag' is None"),
        ({"delivery-tag": "1"}, "'delivery-tag' is '1'"),
        ({"delivery-tag": 7}, "unknown delivery tag 7"),
        ({"delivery-tag": 1, "timeout": 0}, "'timeout' is 0"),
        ({"delivery-tag": 1, "timeout": "soon"}, "'timeout' is 'soon'"),
    ],
    ids=str,
)
def test_nonsense_is_refused_with_the_reason(client: Client, headers: dict[str, object], why: str) -> None:
    client.publish(EXTEND, b"", headers=headers)
    (close,) = client.heard()
    assert isinstance(close, ChannelClose)
    assert close.reply_code == 406
    assert why in close.reply_text


def test_a_moment_too_late_does_no_harm_and_no_good(harness: Harness, client: Client) -> None:
    harness.advance(10)
    assert again(client) == [b"1", b"2"]
    client.publish(EXTEND, b"", headers={"delivery-tag": 1, "timeout": 60_000})
    assert client.heard() == []
    assert client.session.channels[1].unacked.late == 1
    harness.advance(10)
    assert again(client) == [b"1", b"2"]


def test_a_queue_without_timeout_has_nothing_to_extend(harness: Harness) -> None:
    client = harness.client()
    client.declare("plain")
    client.publish("plain", b"1")
    assert client.get("plain") is not None
    client.publish(EXTEND, b"", headers={"delivery-tag": 1})
    (close,) = client.heard()
    assert isinstance(close, ChannelClose)
    assert "has no x-consumer-timeout" in close.reply_text
