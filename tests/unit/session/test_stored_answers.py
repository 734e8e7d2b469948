"""Answers that wait for the disk: in order on their channel, and nobody else waits with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
)
from tests.support.peer_pair import Client, Content, Harness
from tests.support.receipt_log import ReceiptLog


@pytest.fixture
def log() -> ReceiptLog:
    return ReceiptLog()


@pytest.fixture
def harness(log: ReceiptLog) -> Harness:
    """With one durable queue and exchange, bound, and one that is not."""
    harness = Harness(log=log)
    client = harness.client()
    client.send(QueueDeclare("d", durable=True), ExchangeDeclare("x", "topic", durable=True))
    client.send(ExchangeDeclare("y", "topic", durable=True), QueueBind("d", "x", "old"), ExchangeBind("y", "x", "old"))
    client.send(QueueDeclare("t"), ExchangeDeclare("z", "topic"), QueueBind("t", "z", "old"))
    log.grant()
    harness.rest()
    assert len(client.heard()) == 8
    return harness


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.client()


def granted(harness: Harness, log: ReceiptLog, upto: int | None = None) -> None:
    log.grant(upto)
    harness.rest()


LASTING: list[tuple[Method, Method]] = [
    (QueueDeclare("new", durable=True), QueueDeclareOk("new", 0, 0)),
    (QueueDelete("d"), QueueDeleteOk(1)),
    (QueuePurge("d"), QueuePurgeOk(1)),
    (QueueBind("d", "x", "new"), QueueBindOk()),
    (QueueUnbind("d", "x", "old"), QueueUnbindOk()),
    (ExchangeDeclare("new", "fanout", durable=True), ExchangeDeclareOk()),
    (ExchangeDelete("x"), ExchangeDeleteOk()),
    (ExchangeBind("y", "x", "new"), ExchangeBindOk()),
    (ExchangeUnbind("y", "x", "old"), ExchangeUnbindOk()),
]
PASSING: list[tuple[Method, Method]] = [
    (QueueDeclare("new"), QueueDeclareOk("new", 0, 0)),
    (QueueDeclare("new", durable=True, exclusive=True), QueueDeclareOk("new", 0, 0)),
    (QueueDeclare("d", passive=True), QueueDeclareOk("d", 1, 0)),
    (QueueDelete("t"), QueueDeleteOk(1)),
    (QueueDelete("nothing"), QueueDeleteOk(0)),
    (QueuePurge("t"), QueuePurgeOk(1)),
    (QueueBind("t", "x", "new"), QueueBindOk()),
    (QueueBind("d", "z", "new"), QueueBindOk()),
    (QueueUnbind("t", "z", "old"), QueueUnbindOk()),
    (QueueUnbind("d", "x", "never"), QueueUnbindOk()),
    (ExchangeDeclare("new", "fanout"), ExchangeDeclareOk()),
    (ExchangeDeclare("x", passive=True), ExchangeDeclareOk()),
    (ExchangeDelete("z"), ExchangeDeleteOk()),
    (ExchangeDelete("nothing"), ExchangeDeleteOk()),
    (ExchangeBind("y", "z", "new"), ExchangeBindOk()),
    (BasicQos(0, 5), BasicQosOk()),
]


def named(pair: object) -> str | None:
    return f"{pair.NAME}{len(str(pair))}" if isinstance(pair, Method) else None


@pytest.mark.parametrize(("method", "answer"), LASTING, ids=named)
@pytest.mark.feature("S4-15")
def test_what_lasts_is_answered_when_it_is_on_disk(
    harness: Harness, client: Client, log: ReceiptLog, method: Method, answer: Method
) -> None:
    client.publish("d", b"m")
    client.send(method)
    assert client.heard() == []
    granted(harness, log)
    assert client.heard() == [answer]
    assert not harness.broker.awaiting


@pytest.mark.parametrize(("method", "answer"), PASSING, ids=named)
def test_what_does_not_last_is_answered_at_once(
    harness: Harness, client: Client, log: ReceiptLog, method: Method, answer: Method
) -> None:
    """Also while somebody else waits for the disk."""
    client.publish("d", b"m")
    client.publish("t", b"m")
    other = harness.client()
    other.send(QueueDeclare("slow", durable=True))
    assert client.ask(method) == answer
    assert other.heard() == []


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare("new", durable=True, nowait=True),
        QueueDelete("d", nowait=True),
        QueuePurge("d", nowait=True),
        QueueBind("d", "x", "new", nowait=True),
        ExchangeDeclare("new", "fanout", durable=True, nowait=True),
        ExchangeDelete("x", nowait=True),
        ExchangeBind("y", "x", "new", nowait=True),
        ExchangeUnbind("y", "x", "old", nowait=True),
    ],
    ids=named,
)
def test_nowait_is_never_answered(harness: Harness, client: Client, log: ReceiptLog, method: Method) -> None:
    client.send(method)
    granted(harness, log)
    assert client.heard() == []
    assert not harness.broker.awaiting


def test_an_empty_durable_queue_is_purged_at_once(client: Client) -> None:
    assert client.ask(QueuePurge("d")) == QueuePurgeOk(0)


# ---- order


def test_answers_of_a_channel_keep_their_order(harness: Harness, client: Client, log: ReceiptLog) -> None:
    """Also those that need no disk."""
    client.send(QueueDeclare("a", durable=True), QueueDeclare("b"), BasicQos(0, 1), ExchangeDeclare("c", durable=True))
    assert client.heard() == []
    granted(harness, log)
    answers = [QueueDeclareOk("a", 0, 0), QueueDeclareOk("b", 0, 0), BasicQosOk(), ExchangeDeclareOk()]
    assert client.heard() == answers
    assert client.ask(BasicQos(0, 2)) == BasicQosOk()


def test_a_grant_answers_as_far_as_it_reaches(harness: Harness, client: Client, log: ReceiptLog) -> None:
    client.send(QueueDeclare("a", durable=True))
    first = log.issued
    client.send(BasicQos(0, 1), QueueDeclare("b", durable=True), BasicQos(0, 2))
    granted(harness, log, first)
    assert client.heard() == [QueueDeclareOk("a", 0, 0), BasicQosOk()]
    granted(harness, log)
    assert client.heard() == [QueueDeclareOk("b", 0, 0), BasicQosOk()]


def test_other_channels_and_connections_are_not_held_up(harness: Harness, client: Client, log: ReceiptLog) -> None:
    other = harness.client()
    client.open_channel(2)
    client.send(QueueDeclare("a", durable=True))
    assert client.ask(BasicQos(0, 1), channel=2) == BasicQosOk()
    assert other.ask(QueueDeclare("b")) == QueueDeclareOk("b", 0, 0)
    client.publish("t", b"1", channel=2)
    answer = client.get("t", channel=2)
    assert answer is not None
    assert answer.body == b"1"


def test_a_repeated_binding_that_does_not_last_is_not_held_up_by_others(harness: Harness, client: Client) -> None:
    other = harness.client()
    other.send(QueueDeclare("slow", durable=True))
    assert client.ask(QueueBind("t", "z", "old")) == QueueBindOk()


def test_get_waits_behind_an_answer_of_its_channel(harness: Harness, client: Client, log: ReceiptLog) -> None:
    client.publish("t", b"1")
    client.send(QueueDeclare("a", durable=True), BasicGet("t", no_ack=True), BasicGet("t", no_ack=True))
    assert client.heard() == []
    granted(harness, log)
    declared, got, empty = client.heard()
    assert isinstance(declared, QueueDeclareOk)
    assert isinstance(got, Content)
    assert got.body == b"1"
    assert isinstance(empty, Method)
    assert empty.NAME == "basic.get-empty"


@pytest.mark.feature("S4-42")
def test_deliveries_do_not_overtake_a_consume_ok(harness: Harness, client: Client, log: ReceiptLog) -> None:
    """Consumers are told at once, but not before they know that they are consumers."""
    client.publish("t", b"1")
    client.send(QueueDeclare("a", durable=True), BasicConsume("t", "tag", no_ack=True))
    harness.client().publish("t", b"2")
    assert client.heard() == []
    granted(harness, log)
    declared, consuming, *deliveries = client.heard()
    assert declared == QueueDeclareOk("a", 0, 0)
    assert consuming == BasicConsumeOk("tag")
    assert [what.body for what in deliveries if isinstance(what, Content)] == [b"1", b"2"]


def test_a_consumer_of_long_ago_gets_what_came_while_its_channel_waited(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    client.consume("t")
    client.send(QueueDeclare("a", durable=True))
    harness.client().publish("t", b"1", b"2")
    assert client.heard() == []
    granted(harness, log)
    assert client.bodies() == [b"1", b"2"]


def test_another_consumer_gets_what_a_waiting_channel_cannot(harness: Harness, client: Client) -> None:
    client.consume("t", no_ack=True)
    client.send(QueueDeclare("a", durable=True))
    other = harness.client()
    other.consume("t", no_ack=True)
    other.publish("t", b"1", b"2")
    assert other.bodies() == [b"1", b"2"]


def test_a_reply_that_came_while_its_channel_waited_is_delivered(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    """Direct reply-to."""
    client.ask(BasicConsume("amq.rabbitmq.reply-to", no_ack=True))
    client.publish("t", b"ask", reply_to="amq.rabbitmq.reply-to")
    responder = harness.client()
    asked = responder.get("t", no_ack=True)
    assert asked is not None
    client.send(QueueDeclare("a", durable=True))
    responder.publish(str(asked.properties.reply_to), b"answer")
    assert client.heard() == []
    granted(harness, log)
    assert client.bodies() == [b"answer"]


# ---- on its way


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (QueueDeclare("new", durable=True), QueueDeclareOk("new", 0, 0)),
        (ExchangeDeclare("new", "fanout", durable=True), ExchangeDeclareOk()),
        (QueueBind("d", "x", "new"), QueueBindOk()),
        (ExchangeBind("y", "x", "new"), ExchangeBindOk()),
    ],
    ids=named,
)
@pytest.mark.feature("S4-15", "S4-32")
def test_who_declares_what_is_on_its_way_waits_too(
    harness: Harness, client: Client, log: ReceiptLog, method: Method, answer: Method
) -> None:
    """An ok means that it is on disk, whoever asked first."""
    other = harness.client()
    client.send(method)
    other.send(method)
    assert (client.heard(), other.heard()) == ([], [])
    granted(harness, log)
    assert (client.heard(), other.heard()) == ([answer], [answer])
    assert other.ask(method) == answer, "at once, now that it is there"


# ---- transactions


def test_a_commit_is_answered_when_all_of_it_is_on_disk(harness: Harness, client: Client, log: ReceiptLog) -> None:
    client.ask(TxSelect())
    client.publish("d", b"1", delivery_mode=2)
    client.publish("t", b"2")
    client.send(TxCommit())
    assert client.heard() == []
    client.publish("d", b"3", delivery_mode=2)
    client.send(TxRollback())
    assert client.heard() == []
    granted(harness, log)
    assert client.heard() == [TxCommitOk(), TxRollbackOk()]
    assert harness.queue("d").ready == 1


def test_a_commit_of_acks_waits_for_the_disk(harness: Harness, client: Client, log: ReceiptLog) -> None:
    client.publish("d", b"1", delivery_mode=2)
    granted(harness, log)
    client.ask(TxSelect())
    assert client.get("d") is not None
    client.ack(1)
    client.send(TxCommit())
    assert client.heard() == []
    granted(harness, log)
    assert client.heard() == [TxCommitOk()]


def test_a_commit_of_what_does_not_last_is_answered_at_once(client: Client) -> None:
    client.ask(TxSelect())
    client.publish("t", b"1", delivery_mode=2)
    client.publish("d", b"2")
    assert client.ask(TxCommit()) == TxCommitOk()
    assert client.ask(TxCommit()) == TxCommitOk()


# ---- the end of a channel or connection


def test_a_channel_that_is_closed_hears_no_old_answer(harness: Harness, client: Client, log: ReceiptLog) -> None:
    client.send(QueueDeclare("a", durable=True))
    assert client.ask(ChannelClose(200, "bye")) == ChannelCloseOk()
    assert not harness.broker.awaiting
    client.open_channel(1)
    granted(harness, log)
    assert client.heard() == []
    assert client.ask(QueueDeclare("a", durable=True)) == QueueDeclareOk("a", 0, 0)


def test_an_error_comes_behind_the_answers_that_wait(harness: Harness, client: Client, log: ReceiptLog) -> None:
    client.send(QueueDeclare("a", durable=True), QueueDelete("d", if_empty=True), QueueBind("nothing", "x"))
    assert client.heard() == []
    client.send(QueueDeclare("ignored"))
    granted(harness, log)
    declared, deleted, close = client.heard()
    assert (declared, deleted) == (QueueDeclareOk("a", 0, 0), QueueDeleteOk(0))
    assert isinstance(close, ChannelClose)
    assert close.reply_code == 404
    client.send(ChannelCloseOk())
    client.open_channel(1)
    assert "ignored" not in harness.vhost.queues
    assert not harness.broker.awaiting


def leave_politely(client: Client) -> None:
    client.send(ConnectionClose(200, "bye"), channel=0)
    assert client.heard() == [ConnectionCloseOk()]
    client.vanish()


@pytest.mark.parametrize("leave", [leave_politely, Client.vanish])
@pytest.mark.feature("S4-61")
def test_a_connection_that_ends_meanwhile_leaves_nothing_behind(
    harness: Harness, client: Client, log: ReceiptLog, leave: Callable[[Client], None]
) -> None:
    client.open_channel(2)
    client.send(QueueDeclare("a", durable=True))
    client.send(QueueDeclare("b", durable=True), channel=2)
    leave(client)
    assert not harness.broker.awaiting
    granted(harness, log)
    assert {"a", "b"} <= harness.vhost.queues.keys()
