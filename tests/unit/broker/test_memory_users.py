"""Shares of the memory high watermark, and what uses memory besides messages."""

from __future__ import annotations

import pytest

from leveret.backlog.context import MemoryGauge
from leveret.broker.memory_users import LEAST, MemoryUsers
from leveret.broker.restoration import restore_definitions
from leveret.errors import ResourceFault
from leveret.routing.bindings import Binding, Destination
from leveret.store.definitions import Definitions, ExchangeRow, QueueRow, VhostRow
from leveret.wire.fields import encode_table
from leveret.wire.methods import (
    BasicConsume,
    ChannelClose,
    QueueDeclare,
    TxCommit,
    TxRollback,
    TxSelect,
)
from tests.support.peer_pair import Harness

MIB = 1 << 20


def users(watermark: int = 1_000 * MIB) -> tuple[MemoryGauge, MemoryUsers]:
    gauge = MemoryGauge()
    return gauge, MemoryUsers(gauge, lambda: watermark)


def test_one_owner_gets_half_of_a_share_and_leaves_the_rest_to_others() -> None:
    gauge, memory = users()
    assert memory.definitions.hold("eve", 200 * MIB)
    assert not memory.definitions.fits("eve", 1)
    assert memory.definitions.fits("bob", 100 * MIB)
    assert not memory.definitions.fits("bob", 101 * MIB)
    assert gauge.total == 200 * MIB


def test_what_was_held_can_be_held_again() -> None:
    gauge, memory = users()
    assert not memory.transactions.hold("eve", 500 * MIB)
    assert memory.transactions.hold("eve", -500 * MIB)
    assert memory.transactions.hold("eve", 150 * MIB)
    memory.transactions.forget("eve")
    assert gauge.total == memory.transactions.bytes == 0


def test_a_low_watermark_leaves_room_for_something() -> None:
    _, memory = users(watermark=1)
    assert memory.unfinished.hold("eve", LEAST)
    assert not memory.unfinished.hold("eve", 1)


def test_the_breakdown_names_what_is_counted_and_what_is_watched() -> None:
    gauge, memory = users()
    gauge.used = 10
    memory.watch("arrow", lambda: 7)
    assert memory.breakdown()["arrow"] == 0
    memory.read_watched()
    memory.read_watched()
    memory.routes.add(5)
    shown = memory.breakdown()
    assert (shown["queue_procs"], shown["arrow"], shown["routes"]) == (10, 7, 5)
    assert sum(shown.values()) == gauge.total


def test_definitions_are_counted_and_given_back() -> None:
    harness = Harness()
    share, vhost = harness.broker.memory_users.definitions, harness.vhost
    before = share.bytes
    client = harness.client()
    client.ask(QueueDeclare("q", arguments={"x-max-priority": 9}))
    vhost.declare_exchange("x", "topic", arguments={"a": "b"})
    vhost.bind(Binding("x", Destination("queue", "q"), "a.b", {"c": 1}))
    vhost.bind(Binding("amq.fanout", Destination("queue", "q"), "", {}))
    client.send(BasicConsume("q", "tag", nowait=True))
    assert share.bytes > before + 20_000
    vhost.delete_exchange("x")
    vhost.delete_queue("q")
    assert share.bytes == before
    client.send(QueueDeclare("mine", exclusive=True, nowait=True))
    client.send(BasicConsume("mine", "other", nowait=True))
    client.session.lost()
    assert share.bytes == before


def test_a_declaration_beyond_the_share_is_refused_and_names_the_watermark() -> None:
    harness = Harness(memory_high_watermark=100 * MIB)
    vhost = harness.vhost
    harness.broker.memory_users.definitions.hold(vhost.name, 40 * MIB)
    with pytest.raises(ResourceFault, match=r"queue 'q' in vhost '/'.*memory_high_watermark"):
        vhost.declare_queue("q")
    with pytest.raises(ResourceFault, match="exchange 'x'"):
        vhost.declare_exchange("x")
    assert not vhost.queues
    assert "x" not in vhost.exchanges


def test_what_is_on_disk_is_restored_whatever_it_takes() -> None:
    harness = Harness(memory_high_watermark=1)
    harness.broker.memory_users.definitions.hold("/", 64 * MIB)
    rows = Definitions(
        vhosts=[VhostRow("/", None, None)], users=[], permissions=[], topic_permissions=[], bindings=[], parameters=[],
        exchanges=[ExchangeRow("/", "x", "fanout", False, False, encode_table({}))],
        queues=[QueueRow(7, "/", "q", False, encode_table({}))], highest_queue=7,
    )  # fmt: skip
    with harness.broker.unrecorded():
        restore_definitions(harness.broker, rows, "guest", "guest")
    assert "q" in harness.vhost.queues
    assert "x" in harness.vhost.exchanges
    with pytest.raises(ResourceFault):
        harness.vhost.declare_queue("another")


@pytest.mark.parametrize("end", [TxCommit(), TxRollback(), None])
def test_a_transaction_holds_memory_until_its_end(end: TxCommit | TxRollback | None) -> None:
    harness = Harness()
    share = harness.broker.memory_users.transactions
    client = harness.client()
    client.ask(QueueDeclare("q"))
    client.ask(TxSelect())
    client.publish("q", b"x" * 1_000)
    assert share.bytes > 1_000
    if end is None:
        client.session.lost()
    else:
        client.ask(end)
    assert share.bytes == 0


def test_a_transaction_that_takes_too_much_is_refused_with_406() -> None:
    harness = Harness(memory_high_watermark=100 * MIB)
    client = harness.client()
    client.ask(QueueDeclare("q"))
    client.ask(TxSelect())
    harness.broker.memory_users.transactions.hold(client.session.user.name, 40 * MIB)
    client.publish("q", b"x")
    (closed,) = client.heard()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406
    assert "memory high watermark" in closed.reply_text
    assert harness.broker.memory_users.transactions.bytes == 40 * MIB
