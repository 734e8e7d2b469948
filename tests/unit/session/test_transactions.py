"""Transactions over publishes and acks."""

from __future__ import annotations

import pytest

from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    QueueDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)
from tests.support.peer_pair import Client, Harness


@pytest.fixture
def client(harness: Harness) -> Client:
    """In a transaction, with three deliveries unacked."""
    client = harness.client()
    client.declare("q")
    client.declare("out")
    client.publish("q", b"a", b"b", b"c")
    client.ask(TxSelect())
    client.consume("q")
    assert client.bodies() == [b"a", b"b", b"c"]
    return client


def test_publishes_arrive_with_the_commit_in_order(harness: Harness, client: Client) -> None:
    client.publish("out", b"1", b"2")
    client.publish("out", b"3")
    assert harness.queue("out").ready == 0
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    assert [client.get("out").body for _ in range(3)] == [b"1", b"2", b"3"]  # type: ignore[union-attr]


def test_a_rollback_forgets_publishes(client: Client) -> None:
    client.publish("out", b"1")
    assert client.ask(TxRollback()).NAME == "tx.rollback-ok"
    client.ask(TxCommit())
    assert client.count("out") == 0


def test_acks_count_from_the_commit(harness: Harness, client: Client) -> None:
    client.ack(2, multiple=True)
    assert harness.queue("q").unacked == 3
    client.ask(TxCommit())
    assert harness.queue("q").unacked == 1
    client.send(TxCommit(), TxSelect())
    client.heard()
    client.ack(3)
    client.ask(TxCommit())
    assert harness.queue("q").unacked == 0
    harness.turn()
    assert harness.broker.gauge.used == 0


def test_a_rollback_leaves_the_channel_as_if_nothing_had_been_acked(harness: Harness, client: Client) -> None:
    client.ack(0, multiple=True)
    client.ask(TxRollback())
    assert harness.queue("q").unacked == 3
    client.ack(3, multiple=True)
    client.ask(TxCommit())
    assert harness.queue("q").unacked == 0


def test_acking_twice_within_a_transaction_is_an_error(client: Client) -> None:
    client.ack(1)
    client.ack(1)
    assert client.error() == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_an_unknown_tag_is_refused_at_once_not_at_commit(client: Client) -> None:
    client.ack(9)
    assert client.error() == (406, "PRECONDITION_FAILED - unknown delivery tag 9")


def test_nacks_and_rejects_wait_for_the_commit_too(harness: Harness, client: Client) -> None:
    client.send(BasicNack(1, requeue=True), BasicReject(2, requeue=False), BasicNack(3, multiple=True, requeue=True))
    assert client.heard() == []
    client.send(TxCommit())
    answer, *again = client.heard()
    assert answer.NAME == "tx.commit-ok"  # type: ignore[union-attr]
    assert [(content.body, content.redelivered) for content in again] == [(b"a", True), (b"c", True)]  # type: ignore[union-attr]
    assert harness.queue("q").counters.dropped == 1


def test_a_channel_that_closes_rolls_back(harness: Harness, client: Client) -> None:
    client.publish("out", b"1")
    client.ack(1)
    client.send(ChannelClose(200, "bye"))
    client.heard()
    client.open_channel(1)
    assert (client.count("q"), client.count("out")) == (3, 0)


def test_recover_leaves_out_what_the_transaction_has_settled(harness: Harness, client: Client) -> None:
    client.ack(2)
    client.send(BasicRecover(requeue=True))
    assert client.bodies() == [b"a", b"c"]
    client.ask(TxCommit())
    assert (harness.queue("q").unacked, harness.queue("q").counters.acked) == (2, 1)


def test_a_rollback_makes_settled_messages_recoverable_again(client: Client) -> None:
    client.ack(0, multiple=True)
    client.send(BasicRecover(requeue=True))
    assert client.bodies() == []
    client.ask(TxRollback())
    client.send(BasicRecover(requeue=True))
    assert client.bodies() == [b"a", b"b", b"c"]


def test_commit_and_rollback_need_a_transaction(harness: Harness) -> None:
    for method in (TxCommit(), TxRollback()):
        client = harness.client()
        client.send(method)
        assert client.error() == (406, "PRECONDITION_FAILED - channel is not transactional")


def test_mandatory_messages_are_returned_with_the_commit(client: Client) -> None:
    client.feed(client.published("", "nowhere", b"back", mandatory=True))
    assert client.heard() == []
    client.send(TxCommit())
    returned, answer = client.heard()
    assert returned.body == b"back"  # type: ignore[union-attr]
    assert answer.NAME == "tx.commit-ok"  # type: ignore[union-attr]


@pytest.mark.feature("S0-01")
def test_a_queue_that_died_before_the_commit_is_skipped(harness: Harness, client: Client) -> None:
    """And costs no memory."""
    client.publish("out", b"lost")
    client.ask(QueueDelete("out"))
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    client.ack(0, multiple=True)
    client.ask(TxCommit())
    harness.turn()
    assert harness.broker.gauge.used == 0


@pytest.mark.feature("S0-08")
def test_a_mandatory_message_is_returned_when_its_queue_died_before_the_commit(client: Client) -> None:
    client.feed(client.published("", "out", b"back", mandatory=True))
    client.ask(QueueDelete("out"))
    client.send(TxCommit())
    assert client.bodies() == [b"back"]


def test_a_refused_message_does_not_delay_what_follows_the_large_one_behind_it() -> None:
    """Seen: the size of the second message was taken for that of its body frame, and the close-ok was not read."""
    harness = Harness(memory_high_watermark=1)
    client = harness.client()
    client.session.least_held = 0
    client.ask(TxSelect())
    data = client.published("", "out", b"refused") + client.published("", "out", bytes(60_000))
    client.feed(data[:-40_000])
    assert client.error()[0] == 406
    client.feed(data[-40_000:])
    client.send(ChannelCloseOk(), ChannelOpen())
    assert [answer.NAME for answer in client.heard()] == ["channel.open-ok"]  # type: ignore[union-attr]


def test_an_expiration_counts_from_the_commit(harness: Harness, client: Client) -> None:
    client.publish("out", b"1", expiration="1000")
    harness.advance(5)
    client.ask(TxCommit())
    harness.advance(0.9)
    assert harness.queue("out").ready == 1
    harness.advance(0.2)
    assert harness.queue("out").ready == 0


def test_a_transaction_does_not_postpone_a_scheduled_message(harness: Harness, client: Client) -> None:
    """x-deliver-at names a moment, not a time in the queue."""
    due = int((harness.clock.wall() + 1) * 1000)
    client.publish("out", b"1", headers={"x-deliver-at": due}, expiration="500")
    harness.advance(0.9)
    client.ask(TxCommit())
    harness.advance(0.2)
    assert harness.queue("out").ready == 1


def test_acks_in_and_out_of_transactions_do_not_disturb_each_other(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    client.publish("q", b"a", b"b")
    client.consume("q")
    client.heard()
    client.ack(1)
    client.ask(TxSelect())
    client.send(BasicAck(2))
    assert harness.queue("q").unacked == 1
    client.ask(TxCommit())
    assert harness.queue("q").unacked == 0


FULL = {"x-max-length": 2, "x-overflow": "reject-publish"}


def test_a_commit_is_refused_whole_if_a_queue_has_no_room_for_its_part(harness: Harness, client: Client) -> None:
    client.declare("full", arguments=FULL)
    client.publish("out", b"1")
    client.publish("full", b"2", b"3")
    client.publish("out", b"4")
    client.publish("full", b"5")
    client.ack(1)
    client.send(TxCommit())
    code, text = client.error()
    assert (code, "'full'" in text) == (406, True)
    assert [harness.queue(name).ready for name in ("q", "out", "full")] == [3, 0, 0]


def test_a_commit_that_just_fits_is_taken(harness: Harness, client: Client) -> None:
    client.declare("full", arguments=FULL)
    client.publish("full", b"1")
    client.publish("full", b"2")
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    assert harness.queue("full").ready == 2


def test_a_commit_is_refused_by_a_limit_in_bytes_too(harness: Harness, client: Client) -> None:
    client.declare("full", arguments={"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    client.publish("full", b"12345", b"67890")
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    client.publish("out", b"1")
    client.publish("full", b"x")
    client.send(TxCommit())
    assert client.error()[0] == 406
    assert (harness.queue("out").ready, harness.queue("full").ready) == (0, 2)


def test_consumers_take_what_they_can_before_a_commit_is_refused(harness: Harness, client: Client) -> None:
    client.declare("full", arguments=FULL)
    other = harness.client()
    other.publish("full", b"1", b"2")
    frames = method_frame(1, BasicConsume("full", "c", no_ack=True, nowait=True))
    frames += client.published("", "full", b"3") + client.published("", "full", b"4")
    client.feed(frames + method_frame(1, TxCommit()))
    assert client.bodies() == [b"1", b"2", b"3", b"4"]


def test_duplicates_need_no_room_at_a_commit(harness: Harness, client: Client) -> None:
    client.declare("full", arguments={**FULL, "x-message-deduplication": True})
    client.publish("full", b"1", b"2", headers={"x-deduplication-header": "same"})
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    client.publish("full", b"3", headers={"x-deduplication-header": "other"})
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    client.publish("full", b"again", headers={"x-deduplication-header": "other"})
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    assert harness.queue("full").ready == 2


def test_a_queue_that_drops_its_head_refuses_no_commit(harness: Harness, client: Client) -> None:
    client.declare("short", arguments={"x-max-length": 1, "x-message-deduplication": True})
    client.publish("short", b"1", b"2")
    assert client.ask(TxCommit()).NAME == "tx.commit-ok"
    assert harness.queue("short").ready == 1
