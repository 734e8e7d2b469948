"""Answers that come after a message was taken back are ignored and counted; all other answers count (S4-53)."""

from __future__ import annotations

import pytest

from leveret.wire.methods import BasicCancel, TxCommit, TxRollback, TxSelect
from tests.support.peer_pair import Client, Content, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    made = harness.client()
    made.declare("q", arguments={"x-consumer-timeout": 10_000})
    return made


def given(client: Client) -> list[Content]:
    """What was delivered since the last time; nothing else may have been said."""
    heard = client.heard()
    assert all(isinstance(each, Content) for each in heard), heard
    return [each for each in heard if isinstance(each, Content)]


def lives(client: Client) -> bool:
    """Its channel answers."""
    return client.count("q") >= 0


def late(harness: Harness, client: Client, number: int = 1) -> None:
    """So many messages were taken away from the client; they are with somebody else now."""
    client.consume("q")
    client.publish("q", *[b"%d" % each for each in range(number)])
    assert len(given(client)) == number
    client.send(BasicCancel("tag", nowait=True))
    other = harness.client()
    other.consume("q")
    harness.advance(10)
    assert len(given(other)) == number


@pytest.mark.parametrize("requeue", [None, True, False], ids=["ack", "requeue", "drop"])
@pytest.mark.feature("S4-53")
def test_a_late_answer_is_ignored_and_counted(harness: Harness, client: Client, requeue: bool | None) -> None:
    """Whoever has the message now keeps it."""
    late(harness, client)
    if requeue is None:
        client.ack(1)
    else:
        client.nack(1, requeue=requeue)
    assert client.heard() == []
    assert (harness.queue("q").unacked, harness.queue("q").ready) == (1, 0)
    assert client.session.channels[1].unacked.late == 1
    assert lives(client)


def test_a_late_answer_to_several_settles_those_that_are_still_held(harness: Harness, client: Client) -> None:
    client.publish("q", b"a", b"b", b"c")
    client.get("q")
    client.get("q")
    harness.advance(5)
    client.get("q")
    harness.advance(5)
    client.ack(3, multiple=True)
    assert client.heard() == []
    assert client.session.channels[1].unacked.late == 2
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (2, 0)
    assert lives(client)


def test_a_late_answer_to_several_may_name_a_tag_that_has_lapsed(harness: Harness, client: Client) -> None:
    client.publish("q", b"a", b"b", b"c")
    client.get("q")
    client.get("q")
    harness.advance(5)
    client.get("q")
    harness.advance(5)
    client.ack(2, multiple=True)
    assert client.heard() == []
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (2, 1)
    client.ack(3)
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (2, 0)


def test_acks_behind_a_late_one_count(harness: Harness, client: Client) -> None:
    client.consume("q")
    client.publish("q", b"slow")
    harness.advance(5)
    client.publish("q", b"quick")
    given(client)
    client.send(BasicCancel("tag", nowait=True))
    harness.advance(5)
    client.ack(1)
    client.ack(2)
    assert client.heard() == []
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (1, 0)


def test_multiple_ack_of_an_unknown_tag_is_an_error_also_when_others_have_lapsed(
    harness: Harness, client: Client
) -> None:
    late(harness, client)
    client.ack(1000, multiple=True)
    assert client.error() == (406, "PRECONDITION_FAILED - unknown delivery tag 1000")


def test_an_ack_of_an_unknown_tag_is_an_error_also_when_others_have_lapsed(harness: Harness, client: Client) -> None:
    late(harness, client)
    client.ack(2)
    assert client.error()[0] == 406


def test_all_that_is_held_may_be_acked_when_some_have_lapsed(harness: Harness, client: Client) -> None:
    client.publish("q", b"a", b"b")
    client.get("q")
    harness.advance(5)
    client.get("q")
    harness.advance(5)
    client.ack(0, multiple=True)
    assert client.heard() == []
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (1, 0)


def test_a_late_ack_in_a_transaction_is_ignored(harness: Harness, client: Client) -> None:
    harness.client().publish("q", b"m")
    client.ask(TxSelect())
    client.get("q")
    harness.advance(10)
    other = harness.client()
    other.consume("q")
    client.ack(1)
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    assert harness.queue("q").unacked == 1


def test_a_message_that_lapses_before_the_commit_is_not_settled_by_it(harness: Harness, client: Client) -> None:
    client.ask(TxSelect())
    client.publish("q", b"m")
    client.ask(TxCommit())
    assert client.get("q") is not None
    client.ack(1)
    harness.advance(10)
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    assert (harness.queue("q").ready, harness.queue("q").unacked) == (1, 0)


def test_an_ack_that_was_rolled_back_stops_no_clock(harness: Harness, client: Client) -> None:
    client.ask(TxSelect())
    client.publish("q", b"m")
    client.ask(TxCommit())
    client.get("q")
    client.ack(1)
    client.ask(TxRollback())
    harness.advance(10)
    assert harness.queue("q").ready == 1
