"""Confirms and returns as a client hears them (S0-08..S0-13, S4-74)."""

from __future__ import annotations

import pytest

from leveret.wire.methods import (
    BasicAck,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    TxSelect,
)
from tests.support.peer_pair import Client, Content, Harness
from tests.support.spies import SpyLog


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    client.declare("durable", durable=True)
    client.ask(ConfirmSelect())
    return client


def covered(heard: list[object]) -> list[int]:
    """The numbers that acks confirm, in order."""
    tags: list[int] = []
    for what in heard:
        assert isinstance(what, BasicAck)
        first = (max(tags, default=0) + 1) if what.multiple else what.delivery_tag
        tags += range(first, what.delivery_tag + 1)
    return tags


@pytest.mark.feature("S0-12", "S4-74")
def test_publishes_are_confirmed_once_each_and_in_order(client: Client) -> None:
    client.publish("q", b"1")
    client.publish("q", *[b"%d" % number for number in range(2, 10)])
    client.publish("durable", b"10", delivery_mode=2)
    assert covered(client.heard()) == list(range(1, 11))


def test_a_run_is_confirmed_by_one_multiple(client: Client) -> None:
    client.publish("q", b"1", b"2", b"3")
    assert client.heard() == [BasicAck(3, multiple=True)]


def test_without_confirm_select_nothing_is_said(harness: Harness) -> None:
    client = harness.client()
    client.declare("q")
    client.publish("q", b"1")
    assert client.heard() == []


def test_selecting_twice_changes_nothing(client: Client) -> None:
    client.publish("q", b"1")
    client.heard()
    client.ask(ConfirmSelect())
    client.publish("q", b"2")
    assert client.heard() == [BasicAck(2)]
    client.send(ConfirmSelect(nowait=True))
    assert client.heard() == []


@pytest.mark.feature("S0-10", "S0-13", "S0-28")
def test_an_unroutable_message_is_confirmed_at_once_and_dropped(harness: Harness, client: Client) -> None:
    client.publish("nowhere", b"1")
    assert client.heard() == [BasicAck(1)]
    counters = harness.vhost.counters_of("")
    assert (counters.published, counters.routed, counters.unroutable) == (1, 0, 1)


@pytest.mark.feature("S0-08", "S0-13")
def test_a_mandatory_unroutable_message_is_returned_and_then_confirmed(client: Client) -> None:
    """The return comes first, with everything that was sent."""
    client.feed(client.published("amq.direct", "no", b"body", mandatory=True, message_id="m", headers={"a": 1}))
    returned, confirm = client.heard()
    assert isinstance(returned, Content)
    told = returned.method
    assert (told.reply_code, told.reply_text, told.exchange, told.routing_key) == (312, "NO_ROUTE", "amq.direct", "no")  # type: ignore[union-attr]
    assert (returned.body, returned.properties.message_id, returned.properties.headers) == (b"body", "m", {"a": 1})
    assert confirm == BasicAck(1)


@pytest.mark.feature("S0-07")
def test_a_mandatory_message_that_was_routed_is_not_returned(client: Client) -> None:
    client.feed(client.published("", "q", b"body", mandatory=True))
    assert client.heard() == [BasicAck(1)]


@pytest.mark.feature("S0-10")
def test_an_alternate_exchange_spares_the_return(client: Client) -> None:
    client.ask(ExchangeDeclare("rest", "fanout"))
    client.ask(ExchangeDeclare("x", arguments={"alternate-exchange": "rest"}))
    client.ask(QueueBind("q", "rest"))
    client.feed(client.published("x", "any", b"body", mandatory=True))
    assert client.heard() == [BasicAck(1)]


def test_returns_and_confirms_of_a_mixed_write_keep_their_order(client: Client) -> None:
    publishes = [client.published("", key, key.encode(), mandatory=True) for key in ("no", "q", "q", "no", "q")]
    client.feed(b"".join(publishes))
    heard = client.heard()
    shown = [what.body if isinstance(what, Content) else what for what in heard]
    assert shown == [b"no", BasicAck(1), BasicAck(3, multiple=True), b"no", BasicAck(4), BasicAck(5)]


def test_confirms_of_two_channels_do_not_mix(client: Client) -> None:
    client.open_channel(2)
    client.send(ConfirmSelect(), channel=2)
    client.heard()
    client.feed(
        client.published("", "q", b"1", 1) + client.published("", "q", b"2", 2) + client.published("", "q", b"3", 1)
    )
    assert [(channel, what) for channel, what in client.hear()] == [
        (1, BasicAck(1)),
        (2, BasicAck(1)),
        (1, BasicAck(2)),
    ]


@pytest.mark.feature("S0-12")
def test_a_durable_confirm_waits_for_its_receipt() -> None:
    """What needs no receipt overtakes it, by a confirm of its own."""
    harness = Harness(log=SpyLog(grants=False))
    client = harness.client()
    client.declare("q")
    client.declare("durable", durable=True)
    client.ask(ConfirmSelect())
    client.publish("durable", b"1", delivery_mode=2)
    client.publish("q", b"2", b"3")
    assert client.heard() == [BasicAck(2), BasicAck(3)]
    channel = client.session.channels[1]
    assert channel.confirms is not None
    channel.send_confirms(channel.confirms.granted(1))
    harness.turn()
    assert client.heard() == [BasicAck(1)]


def test_the_log_gets_each_message_once_with_all_its_durable_places() -> None:
    log = SpyLog()
    harness = Harness(log=log)
    client = harness.client()
    for name, durable in (("one", True), ("two", True), ("three", False)):
        client.declare(name, durable=durable)
        client.ask(QueueBind(name, "amq.fanout"))
    lasting = {"delivery_mode": 2}
    client.feed(
        client.published("amq.fanout", "", b"a", **lasting) + client.published("amq.fanout", "", b"b", **lasting)
    )
    ((bodies, placements),) = log.appended
    assert bodies == [b"a", b"b"]
    assert [(place.queue, place.sequence, place.number) for place in placements] == [(1, 1, 2), (2, 1, 2)]
    assert client.count("three") == 2


def test_confirm_and_transaction_modes_exclude_each_other(harness: Harness, client: Client) -> None:
    client.send(TxSelect())
    assert client.error() == (406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode")
    other = harness.client()
    other.ask(TxSelect())
    other.send(ConfirmSelect())
    assert other.error() == (406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")


def test_a_channel_that_died_confirms_nothing_more(client: Client) -> None:
    client.feed(
        client.published("", "q", b"1") + client.published("missing", "", b"2") + client.published("", "q", b"3")
    )
    heard = client.heard()
    assert heard[0] == BasicAck(1)
    assert [what.NAME for what in heard[1:]] == ["channel.close"]  # type: ignore[union-attr]
    client.open_channel(2)
    assert client.ask(QueueDeclare("q", passive=True), 2).message_count == 1  # type: ignore[attr-defined]
