"""A link has a limited number of channels: one for each consumer, and one for the requests or publishes of a queue."""

from __future__ import annotations

import pytest

from leveret.cells import link
from leveret.wire.methods import BasicAck, BasicCancel, ConfirmSelect
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client

QUEUES = [f"q{number}" for number in range(9)]


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> CellPair:
    monkeypatch.setattr(link, "MOST_CHANNELS", 6)
    monkeypatch.setattr(link, "MANY_CHANNELS", 3)
    pair = CellPair()
    for name in QUEUES:
        pair.declare(name)
    return pair


@pytest.fixture
def client(pair: CellPair) -> Client:
    return pair.here.client()


def test_more_queues_can_be_published_to_and_read_than_there_are_channels(pair: CellPair, client: Client) -> None:
    client.ask(ConfirmSelect())
    for number in range(3):
        for name in QUEUES:
            client.publish(name, b"%d" % number)
    assert sum(1 for each in client.heard() if isinstance(each, BasicAck)) == 3 * len(QUEUES)
    for number in range(3):
        assert [client.get(name, no_ack=True).body for name in QUEUES] == [b"%d" % number] * len(QUEUES)  # type: ignore[union-attr]


def test_a_channel_with_a_message_that_is_not_settled_stays(pair: CellPair, client: Client) -> None:
    for name in QUEUES:
        client.publish(name, b"1")
    held = client.get("q0")
    assert held is not None
    for name in QUEUES[1:]:
        assert client.get(name, no_ack=True) is not None
    client.ack(held.tag)
    assert (pair.home.queue("q0").ready, pair.home.queue("q0").unacked) == (0, 0)


def test_a_consumer_without_a_channel_is_refused(pair: CellPair, client: Client) -> None:
    """Without an answer, it would be accepted and never get a message."""
    client.publish("q0", b"1", b"2")
    for number in range(6):
        client.consume("q0", tag=f"tag {number}")
    late = pair.here.client()
    late.consume("q1")
    code, text = late.error()
    assert code == 406
    assert text.startswith("PRECONDITION_FAILED - no channel to home cell 'home' of queue 'q1' in vhost '/'")
    client.vanish()
    again = pair.here.client()
    again.consume("q1")
    pair.home.client().publish("q1", b"arrives")
    pair.here.rest()
    assert again.bodies() == [b"arrives"]


def test_a_consumer_that_finds_no_channel_when_the_link_is_back_is_cancelled(pair: CellPair, client: Client) -> None:
    for number in range(6):
        client.consume("q0", tag=f"tag {number}")
    pair.cut()
    late = pair.here.client()
    late.consume("q1")
    pair.connect()
    cancelled = [each for each in (*client.heard(), *late.heard()) if isinstance(each, BasicCancel)]
    assert len(cancelled) == 1
