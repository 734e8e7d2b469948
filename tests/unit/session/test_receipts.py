"""Confirms that hang on the log: nothing is confirmed before its receipt is granted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leveret.message import Message
from leveret.store.log import Placement
from leveret.store.memory_log import MemoryLog
from leveret.wire.methods import BasicAck, ChannelClose, ConfirmSelect
from tests.support.peer_pair import Client, Harness


class SlowLog(MemoryLog):
    """Grants nothing by itself; receipts are 1, 2, 3, ..."""

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        self.issued += 1
        return self.issued


@pytest.fixture
def log() -> SlowLog:
    return SlowLog()


@pytest.fixture
def harness(log: SlowLog) -> Harness:
    return Harness(log=log)


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("transient")
    client.declare("durable", durable=True)
    client.ask(ConfirmSelect())
    return client


def test_a_publish_to_a_durable_queue_is_confirmed_only_by_its_receipt(
    harness: Harness, client: Client, log: SlowLog
) -> None:
    client.publish("durable", b"1", delivery_mode=2)
    assert client.heard() == []
    log.listener.granted(1)
    harness.rest()
    assert client.heard() == [BasicAck(1)]


def test_a_grant_confirms_all_that_came_before_it_by_one_multiple(
    harness: Harness, client: Client, log: SlowLog
) -> None:
    for body in (b"1", b"2", b"3"):
        client.publish("durable", body, delivery_mode=2)
    log.listener.granted(2)
    harness.rest()
    assert client.heard() == [BasicAck(2, multiple=True)]
    log.listener.granted(3)
    harness.rest()
    assert client.heard() == [BasicAck(3)]


def test_what_needs_no_receipt_overtakes_what_waits(harness: Harness, client: Client, log: SlowLog) -> None:
    client.publish("durable", b"1", delivery_mode=2)
    client.publish("transient", b"2")
    assert client.heard() == [BasicAck(2)]
    log.listener.granted(1)
    harness.rest()
    assert client.heard() == [BasicAck(1)]


def test_a_grant_for_a_closed_channel_is_heard_by_nobody(harness: Harness, client: Client, log: SlowLog) -> None:
    client.publish("durable", b"1", delivery_mode=2)
    client.ask(ChannelClose(200, "bye"))
    log.listener.granted(1)
    harness.rest()
    assert client.heard() == []
    assert not harness.broker.awaiting


def test_a_channel_waits_no_longer_than_it_must(harness: Harness, client: Client, log: SlowLog) -> None:
    client.publish("durable", b"1", delivery_mode=2)
    assert len(harness.broker.awaiting) == 1
    log.listener.granted(1)
    assert not harness.broker.awaiting
