"""Confirms that hang on the disk: early ones, mixed runs, and what is said when the disk fails."""

from __future__ import annotations

import pytest

from leveret.clock import FrozenClock
from leveret.message import Message
from leveret.store.log import Placement
from leveret.wire.methods import (
    BasicAck,
    BasicNack,
    ChannelCloseOk,
    ConfirmSelect,
    ConnectionClose,
    ExchangeDeclare,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from tests.support.callback_listener import CallbackListener
from tests.support.manual_store import ManualStore
from tests.support.peer_pair import Client, Harness
from tests.support.receipt_log import ReceiptLog
from tests.support.spies import message
from tests.support.stored_harness import StoredHarness
from tests.support.virtual_disk import VirtualDisk


@pytest.fixture
def log() -> ReceiptLog:
    return ReceiptLog()


@pytest.fixture
def harness(log: ReceiptLog) -> Harness:
    harness = Harness(log=log)
    client = harness.client()
    client.send(QueueDeclare("d", durable=True), QueueDeclare("e", durable=True), QueueDeclare("t"))
    for queue in ("d", "e", "t"):
        client.send(QueueBind(queue, "amq.fanout"))
    granted(harness, log)
    assert len(client.heard()) == 6
    return harness


@pytest.fixture
def client(harness: Harness) -> Client:
    """A publisher with confirms."""
    client = harness.client()
    client.ask(ConfirmSelect())
    return client


def granted(harness: Harness, log: ReceiptLog, upto: int | None = None) -> None:
    log.grant(upto)
    harness.rest()


def early(harness: Harness, log: ReceiptLog, *receipts: int) -> None:
    """As the log tells it: within a turn."""
    log.listener.granted_early(set(receipts))
    harness.turn()


def put(client: Client, *bodies: bytes) -> int:
    """Persistent messages for the durable queue, each by itself; the receipt of the first."""
    first = client.harness.broker.log.issued + 1
    for body in bodies:
        client.publish("d", body, delivery_mode=2)
    assert client.heard() == []
    return first


# ---- what waits


@pytest.mark.feature("S0-11")
def test_a_persistent_message_in_a_durable_queue_waits_for_the_disk(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    put(client, b"1")
    granted(harness, log)
    assert client.heard() == [BasicAck(1)]


@pytest.mark.parametrize(("queue", "mode"), [("d", 1), ("d", None), ("t", 2), ("t", 1), ("nowhere", 2)])
@pytest.mark.feature("S0-12")
def test_what_no_disk_keeps_is_confirmed_at_once(client: Client, queue: str, mode: int | None) -> None:
    client.publish(queue, b"1", delivery_mode=mode)
    assert client.heard() == [BasicAck(1)]


@pytest.mark.feature("S0-11", "S0-14", "S4-39")
def test_one_write_for_all_queues_confirms_once(harness: Harness, client: Client, log: ReceiptLog) -> None:
    """Two durable queues and a transient one."""
    client.feed(client.published("amq.fanout", "", b"1", delivery_mode=2))
    assert client.heard() == []
    (messages, placements) = log.appends[-1]
    assert len(messages) == 1
    assert [place.queue for place in placements] == [harness.queue("d").id, harness.queue("e").id]
    granted(harness, log)
    assert client.heard() == [BasicAck(1)]


@pytest.mark.feature("S0-11", "S0-12")
def test_a_mixed_run_is_confirmed_each_in_its_own_time(harness: Harness, client: Client, log: ReceiptLog) -> None:
    """In one write of the peer, to one queue; order in the queue is kept."""
    modes = [2, 1, 1, 2, 2, 1]
    frames = [client.published("", "d", b"%d" % number, delivery_mode=mode) for number, mode in enumerate(modes, 1)]
    client.feed(b"".join(frames))
    assert client.heard() == [BasicAck(2), BasicAck(3), BasicAck(6)]
    granted(harness, log)
    assert client.heard() == [BasicAck(5, multiple=True)]
    reader = harness.client()
    reader.consume("d")
    assert reader.bodies() == [b"1", b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.feature("S0-12")
def test_transient_messages_before_all_others_are_confirmed_by_one_multiple(client: Client) -> None:
    client.publish("d", b"1", b"2", b"3", delivery_mode=1)
    assert client.heard() == [BasicAck(3, multiple=True)]


@pytest.mark.feature("S4-42")
def test_consumers_do_not_wait_for_the_disk(harness: Harness, client: Client) -> None:
    reader = harness.client()
    reader.consume("d")
    put(client, b"1")
    assert reader.bodies() == [b"1"]


# ---- early


@pytest.mark.feature("S0-11")
def test_what_was_settled_before_it_was_written_is_confirmed_early_and_alone(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    """A multiple would cover those before it, which wait for the disk."""
    first = put(client, b"1", b"2", b"3")
    early(harness, log, first + 1)
    assert client.heard() == [BasicAck(2)]
    granted(harness, log, first)
    assert client.heard() == [BasicAck(1)]
    granted(harness, log)
    assert client.heard() == [BasicAck(3)]
    assert not harness.broker.awaiting


def test_early_ones_that_came_first_may_be_confirmed_by_a_multiple(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    first = put(client, b"1", b"2", b"3")
    early(harness, log, first, first + 1)
    assert client.heard() == [BasicAck(2, multiple=True)]
    granted(harness, log)
    assert client.heard() == [BasicAck(3)]


def test_an_early_run_is_confirmed_one_by_one_behind_one_that_waits(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    first = put(client, b"1")
    client.publish("d", b"2", b"3", delivery_mode=2)
    early(harness, log, first + 1)
    assert client.heard() == [BasicAck(2), BasicAck(3)]
    early(harness, log, first)
    assert client.heard() == [BasicAck(1)]
    granted(harness, log)
    assert client.heard() == []


def test_early_receipts_of_others_mean_nothing(harness: Harness, client: Client, log: ReceiptLog) -> None:
    first = put(client, b"1")
    other = harness.client()
    other.ask(ConfirmSelect())
    other.publish("d", b"2", delivery_mode=2)
    early(harness, log, first + 1, first + 7)
    assert (client.heard(), other.heard()) == ([], [BasicAck(1)])


def test_an_early_receipt_for_a_closed_channel_is_heard_by_nobody(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    client.publish("d", b"1", delivery_mode=2)
    client.send(QueueBind("nothing", "amq.fanout"))
    assert client.error()[0] == 404
    early(harness, log, log.issued)
    granted(harness, log)
    assert client.heard() == []
    client.send(ChannelCloseOk())


def test_a_channel_that_closes_says_no_more_than_what_it_owes(
    harness: Harness, client: Client, log: ReceiptLog
) -> None:
    """An answer still waits for the disk when an error closes the channel: confirms are over, the answer is not."""
    first = put(client, b"1")
    client.send(QueueDeclare("new", durable=True), QueueBind("nothing", "amq.fanout"))
    early(harness, log, first)
    assert client.heard() == []
    granted(harness, log)
    assert [what.NAME for what in client.heard()] == ["queue.declare-ok", "channel.close"]  # type: ignore[union-attr]


@pytest.mark.feature("S0-11", "S0-18")
def test_with_the_real_journal_a_message_taken_without_acks_is_confirmed_before_any_write() -> None:
    """Nobody can miss it."""
    harness = StoredHarness()
    client = harness.client()
    client.declare("d", durable=True)
    client.consume("d", no_ack=True)
    client.ask(ConfirmSelect())
    harness.is_slow = True
    client.publish("d", b"1", delivery_mode=2)
    assert len(client.heard()) == 2, "delivered and confirmed"
    assert harness.store.batches == []


def test_what_a_transaction_settles_is_not_confirmed_before_the_transaction_is_on_disk() -> None:
    """A crash now would bring back neither the message nor what the transaction made of it."""
    clock, early_ones = FrozenClock(), set()
    journal = ManualStore(VirtualDisk(), clock).journal
    journal.listener = listener = CallbackListener()
    listener.on_early = early_ones.update
    first: list[Message] = [message(b"1", persistent=True)]
    journal.append(first, [Placement(1, 0, 1, 1)])
    with journal.group():
        journal.settle(1, 0, 1, 1)
        journal.append(first, [Placement(2, 0, 1, 1)])
    journal.flush()
    assert early_ones == set()


# ---- when the disk fails


@pytest.mark.feature("S0-11")
def test_what_is_lost_is_nacked(harness: Harness, client: Client, log: ReceiptLog) -> None:
    """Never an ack for what is on no disk; those before it were acked."""
    first = put(client, b"1", b"2", b"3")
    granted(harness, log, first)
    assert client.heard() == [BasicAck(1)]
    log.lose()
    harness.rest()
    assert client.heard() == [BasicNack(2, requeue=False), BasicNack(3, requeue=False)]
    assert not harness.broker.awaiting
    client.publish("t", b"4")
    assert client.heard() == [BasicAck(4)]


def test_an_answer_that_is_lost_ends_the_connection(harness: Harness, client: Client, log: ReceiptLog) -> None:
    other, publisher = harness.client(), harness.client()
    publisher.ask(ConfirmSelect())
    publisher.publish("d", b"1", delivery_mode=2)
    client.send(QueueDeclare("new", durable=True))
    log.lose()
    harness.rest()
    (close,) = client.heard()
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (
        506,
        "RESOURCE_ERROR - the disk failed, the store is read-only: restart the broker",
    )
    assert publisher.heard() == [BasicNack(1, requeue=False)]
    assert other.ask(QueueDeclare("t")) == QueueDeclareOk("t", 0, 0)


@pytest.mark.parametrize("answers_first", [True, False])
def test_a_connection_with_both_on_two_channels_is_closed(
    harness: Harness, client: Client, log: ReceiptLog, answers_first: bool
) -> None:
    client.open_channel(2)
    if answers_first:
        client.send(QueueDeclare("new", durable=True), channel=2)
    client.publish("d", b"1", delivery_mode=2)
    client.send(QueueDeclare("newer", durable=True), channel=2)
    log.lose()
    harness.rest()
    *before, close = client.heard()
    assert isinstance(close, ConnectionClose)
    assert before in ([], [BasicNack(1, requeue=False)])
    assert not harness.broker.awaiting


def test_a_commit_that_is_lost_ends_the_connection(harness: Harness, log: ReceiptLog) -> None:
    client = harness.client()
    client.ask(TxSelect())
    client.publish("d", b"1", delivery_mode=2)
    client.send(TxCommit())
    log.lose()
    harness.rest()
    assert client.error()[0] == 506


def test_what_lasts_is_refused_from_then_on(harness: Harness, log: ReceiptLog) -> None:
    log.lose()
    for method in (QueueDeclare("new", durable=True), ExchangeDeclare("new", durable=True), QueueDelete("d")):
        client = harness.client()
        client.send(method)
        assert client.error()[0] == 506
    assert "new" not in harness.vhost.queues
    assert "d" in harness.vhost.queues


@pytest.mark.parametrize(
    ("lost", "again"),
    [
        (QueueDeclare("new", durable=True), QueueDeclareOk("new", 0, 0)),
        (QueueBind("d", "amq.topic", "new"), QueueBindOk()),
    ],
    ids=["queue", "binding"],
)
@pytest.mark.feature("S4-15")
def test_what_was_lost_is_not_said_to_be_there(
    harness: Harness, client: Client, log: ReceiptLog, lost: QueueDeclare, again: QueueDeclareOk
) -> None:
    """It would be gone after the restart that the operator is asked for."""
    client.send(lost)
    log.lose()
    harness.rest()
    assert client.error()[0] == 506
    other = harness.client()
    other.send(lost)
    assert again not in other.heard()


def test_what_was_there_before_is_still_said_to_be(harness: Harness, log: ReceiptLog) -> None:
    log.lose()
    client = harness.client()
    assert client.ask(QueueDeclare("d", durable=True)) == QueueDeclareOk("d", 0, 0)
    assert client.ask(QueueBind("d", "amq.fanout")) == QueueBindOk()


@pytest.mark.feature("S4-61")
def test_a_connection_leaves_wholly_although_the_store_is_read_only(harness: Harness, client: Client) -> None:
    """Its auto-delete queue cannot be deleted any more; all else must be given back."""
    log = harness.broker.log
    assert isinstance(log, ReceiptLog)
    client.send(QueueDeclare("auto", durable=True, auto_delete=True), QueueDeclare("own", exclusive=True))
    granted(harness, log)
    client.consume("auto", tag="auto")
    client.consume("t", tag="t")
    client.heard()
    client.publish("t", b"1")
    log.lose()
    harness.rest()
    client.vanish()
    assert len(harness.queue("t").consumers) == 0
    assert harness.queue("t").ready == 1
    assert "own" not in harness.vhost.queues
    assert client.session not in harness.broker.registry.connections


def test_a_purge_that_is_lost_ends_the_connection(harness: Harness, client: Client, log: ReceiptLog) -> None:
    put(client, b"1")
    granted(harness, log)
    client.heard()
    client.send(QueuePurge("d"))
    log.lose()
    harness.rest()
    assert client.error()[0] == 506
