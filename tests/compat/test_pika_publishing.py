"""pika, blocking: properties, confirms, returns, transactions."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.compat.conftest import Connect
from tests.compat.waiting import pump


@pytest.mark.feature("S4-09", "S4-10")
def test_all_properties_come_back_as_they_were_sent(channel: BlockingChannel) -> None:
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers={"attempt": 1},
        delivery_mode=2,
        priority=7,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="order.placed",
        user_id="guest",
        app_id="shop",
        cluster_id="old",
    )
    channel.queue_declare("properties")
    channel.basic_publish("", "properties", b"{}", sent)
    _, received, _ = channel.basic_get("properties", auto_ack=True)
    assert received == sent


@pytest.mark.feature("S4-11")
def test_publishing_without_properties_is_allowed(channel: BlockingChannel) -> None:
    channel.queue_declare("plain")
    channel.basic_publish("", "plain", b"bare")
    assert channel.basic_get("plain", auto_ack=True)[1] == pika.BasicProperties()


def test_headers_of_every_type_come_back(channel: BlockingChannel) -> None:
    headers = {
        "text": "grüße, 世界",
        "empty": "",
        "bytes": b"\x00\xff\x80",
        "yes": True,
        "no": False,
        "small": 7,
        "negative": -7,
        "large": 1 << 40,
        "lowest": -(1 << 63),
        "decimal": Decimal("3.14"),
        "when": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "nothing": None,
        "list": [1, "two", [3, {"four": 5}], None],
        "table": {"deep": {"deeper": {"deepest": [True]}}},
        "no items": [],
        "no fields": {},
    }
    channel.queue_declare("headers")
    channel.basic_publish("", "headers", b"", pika.BasicProperties(headers=headers))
    received = channel.basic_get("headers", auto_ack=True)[1].headers
    assert {**received, "when": received["when"].replace(tzinfo=UTC)} == headers


def test_headers_larger_than_most_come_back(channel: BlockingChannel) -> None:
    headers = {f"header-{number}": "x" * 100 for number in range(1000)}
    channel.queue_declare("wide")
    channel.basic_publish("", "wide", b"body", pika.BasicProperties(headers=headers))
    _, properties, body = channel.basic_get("wide", auto_ack=True)
    assert (properties.headers, body) == (headers, b"body")


@pytest.mark.feature("S0-12", "S4-74")
def test_confirmed_publishes_come_back_acked_one_by_one(channel: BlockingChannel) -> None:
    """Pika waits for each; a nack would raise NackError."""
    channel.queue_declare("confirmed")
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", "confirmed", str(number).encode(), mandatory=True)
    assert channel.queue_declare("confirmed", passive=True).method.message_count == 50


@pytest.mark.feature("S0-08", "S0-13")
def test_an_unroutable_mandatory_message_is_returned_and_then_confirmed(channel: BlockingChannel) -> None:
    """Pika turns the return followed by an ack into UnroutableError."""
    channel.confirm_delivery()
    properties = pika.BasicProperties(message_id="lost", headers={"a": 1})
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("amq.direct", "nobody", b"body", properties, mandatory=True)
    [returned] = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nobody")
    assert (returned.properties, returned.body) == (properties, b"body")
    channel.basic_publish("amq.direct", "nobody", b"body", mandatory=False)
    assert channel.is_open


@pytest.mark.feature("S0-08", "S0-10")
def test_a_return_without_confirms_reaches_the_callback(connection: pika.BlockingConnection) -> None:
    """The message that is not mandatory vanishes without a word."""
    channel = connection.channel()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _, method, properties, body: returned.append(body))
    channel.basic_publish("", "nobody", b"silent")
    channel.basic_publish("", "nobody", b"told", mandatory=True)
    pump(connection, lambda: returned)
    assert returned == [b"told"]


@pytest.mark.feature("S4-37")
def test_publishing_to_a_missing_exchange_closes_the_channel(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("nowhere", "key", b"")
    assert caught.value.reply_code == 404
    assert caught.value.reply_text == "NOT_FOUND - no exchange 'nowhere' in vhost '/'"


def test_a_user_id_must_be_the_users_own(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("signed")
    channel.confirm_delivery()
    channel.basic_publish("", "signed", b"", pika.BasicProperties(user_id="guest"))
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("", "signed", b"", pika.BasicProperties(user_id="somebody"))
    assert caught.value.reply_code == 406


def test_an_expiration_that_is_no_number_is_refused(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("timed")
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("", "timed", b"", pika.BasicProperties(expiration="soon"))
    assert caught.value.reply_code == 406


def test_cc_is_kept_and_bcc_is_removed(channel: BlockingChannel) -> None:
    for name in ("to", "copy", "blind"):
        channel.queue_declare(name)
    headers = {"CC": ["copy"], "BCC": ["blind"], "kept": 1}
    channel.basic_publish("", "to", b"letter", pika.BasicProperties(headers=headers))
    for name in ("to", "copy", "blind"):
        got, properties, body = channel.basic_get(name, auto_ack=True)
        assert (body, properties.headers) == (b"letter", {"CC": ["copy"], "kept": 1})
        assert got.routing_key == "to"


def test_a_transaction_publishes_at_commit_and_forgets_at_rollback(connect: Connect) -> None:
    writer, reader = connect().channel(), connect().channel()
    writer.queue_declare("ledger")
    writer.tx_select()
    writer.basic_publish("", "ledger", b"kept")
    assert reader.basic_get("ledger") == (None, None, None)
    writer.tx_commit()
    writer.basic_publish("", "ledger", b"forgotten")
    writer.tx_rollback()
    assert reader.basic_get("ledger", auto_ack=True)[2] == b"kept"
    assert reader.basic_get("ledger") == (None, None, None)


def test_acks_in_a_transaction_take_effect_at_commit(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("tasks")
    for body in (b"done", b"undone"):
        channel.basic_publish("", "tasks", body)
    channel.tx_select()
    first = channel.basic_get("tasks")[0]
    channel.basic_ack(first.delivery_tag)
    channel.tx_commit()
    second = channel.basic_get("tasks")[0]
    channel.basic_ack(second.delivery_tag)
    channel.tx_rollback()
    channel.close()
    got, _, body = connection.channel().basic_get("tasks", auto_ack=True)
    assert (body, got.redelivered) == (b"undone", True)


def test_confirms_and_transactions_exclude_each_other(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.tx_select()
    assert caught.value.reply_code == 406
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().tx_commit()
    assert caught.value.reply_code == 406
