"""tx.commit-ok waits for queues that answer later; what they refuse or lose fails the commit."""

from __future__ import annotations

import pytest

from leveret.wire.methods import ChannelClose, ExchangeDeclare, QueueBind, QueueDelete, TxCommit, TxRollback, TxSelect
from tests.support.peer_pair import Client, Content, Harness
from tests.support.remote_queues import ManualLog, make_remote
from tests.support.spies import SpyLog


@pytest.fixture
def client(harness: Harness) -> Client:
    """In a transaction, with two deliveries of queue q unacknowledged."""
    client = harness.client()
    for name in ("q", "slow", "quick"):
        client.declare(name)
    client.publish("q", b"a", b"b")
    client.ask(TxSelect())
    client.consume("q")
    assert client.bodies() == [b"a", b"b"]
    return client


@pytest.fixture
def log(harness: Harness, client: Client) -> ManualLog:
    return make_remote(harness.vhost, "slow")


def names(client: Client) -> list[str]:
    """Answers of a log arrive outside of any client's input: the broker has a tick first."""
    client.harness.rest()
    return [each.method.NAME if isinstance(each, Content) else each.NAME for each in client.heard()]


def test_a_commit_is_answered_when_the_queue_has_its_messages(client: Client, log: ManualLog) -> None:
    client.publish("slow", b"1")
    client.send(TxCommit())
    assert names(client) == []
    log.receive()
    assert names(client) == []
    log.grant()
    assert names(client) == ["tx.commit-ok"]
    assert client.count("slow") == 1


def test_a_commit_waits_for_every_queue(harness: Harness, client: Client, log: ManualLog) -> None:
    other = make_remote(harness.vhost, "quick")
    client.publish("slow", b"1")
    client.publish("quick", b"2")
    client.send(TxCommit())
    other.let_in()
    assert names(client) == []
    log.let_in()
    assert names(client) == ["tx.commit-ok"]


def test_messages_are_acknowledged_with_the_commit_ok_not_before(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    client.publish("slow", b"1")
    client.ack(1)
    client.send(TxCommit())
    assert harness.queue("q").unacked == 2
    log.let_in()
    assert names(client) == ["tx.commit-ok"]
    assert harness.queue("q").unacked == 1


@pytest.mark.parametrize("end", ["refuse", "lose"])
def test_a_commit_that_a_queue_refuses_or_loses_closes_the_channel_and_acknowledges_nothing(
    harness: Harness, client: Client, log: ManualLog, end: str
) -> None:
    client.publish("slow", b"1")
    client.ack(1)
    client.send(TxCommit())
    getattr(log, end)()
    harness.rest()
    (closed,) = client.heard()
    assert isinstance(closed, ChannelClose)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (406, *TxCommit.id)
    assert closed.reply_text.startswith("PRECONDITION_FAILED - partial tx completion")
    assert harness.queue("q").ready == 2


def test_a_deleted_queue_fails_the_commit_that_waits_for_it(harness: Harness, client: Client, log: ManualLog) -> None:
    client.publish("slow", b"1")
    client.send(TxCommit())
    harness.client().ask(QueueDelete("slow"))
    assert names(client) == ["channel.close"]


def test_a_mandatory_message_that_no_queue_received_is_returned_and_the_commit_succeeds(
    client: Client, log: ManualLog
) -> None:
    client.feed(client.published("", "slow", b"m", mandatory=True))
    client.send(TxCommit())
    log.lose()
    assert names(client) == ["basic.return", "tx.commit-ok"]


def test_commits_are_answered_in_their_order(harness: Harness, client: Client, log: ManualLog) -> None:
    other = make_remote(harness.vhost, "quick")
    client.publish("slow", b"1")
    client.send(TxCommit())
    client.publish("quick", b"2")
    client.ack(1)
    client.send(TxCommit())
    other.let_in()
    assert names(client) == []
    assert harness.queue("q").unacked == 2
    log.let_in()
    assert names(client) == ["tx.commit-ok", "tx.commit-ok"]
    assert harness.queue("q").unacked == 1


@pytest.mark.parametrize("rolls_back", [True, False])
def test_a_tag_of_a_pending_commit_cannot_be_settled_again(client: Client, log: ManualLog, rolls_back: bool) -> None:
    client.publish("slow", b"1")
    client.ack(1)
    client.send(TxCommit())
    if rolls_back:
        client.ask(TxRollback())
    client.ack(1)
    assert client.error()[0] == 406


def test_a_commit_of_a_closed_channel_is_not_answered_and_its_acks_are_void(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    client.publish("slow", b"1")
    client.ack(1)
    client.send(TxCommit())
    client.ask(ChannelClose(200, ""))
    log.let_in()
    assert names(client) == []
    assert (harness.queue("q").ready, harness.queue("slow").ready) == (2, 1)


def test_a_commit_waits_for_the_log_of_the_broker_too() -> None:
    own_log = SpyLog(grants=False)
    harness = Harness(log=own_log)
    client = harness.client()
    client.send(ExchangeDeclare("ex", "fanout"))
    for name in ("kept", "slow"):
        harness.vhost.declare_queue(name, durable=name == "kept")
        client.send(QueueBind(name, "ex"))
    log = make_remote(harness.vhost, "slow")
    client.send(TxSelect())
    client.heard()
    client.feed(client.published("ex", "", b"m", delivery_mode=2))
    client.send(TxCommit())
    log.let_in()
    assert names(client) == []
    harness.broker.granted(own_log.issued)
    assert names(client) == ["tx.commit-ok"]
