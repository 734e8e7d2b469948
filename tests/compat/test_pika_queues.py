"""pika, blocking: queues, getting and settling."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.compat.conftest import Connect
from tests.compat.waiting import pump


@pytest.mark.feature("S4-36", "S4-56")
def test_a_message_published_is_fetched_by_get_and_gone_once_acked(channel: BlockingChannel) -> None:
    """The default exchange leads by queue name."""
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"one")
    channel.basic_publish("", "orders", b"two")
    got, properties, body = channel.basic_get("orders")
    assert (got.delivery_tag, got.redelivered, got.exchange, got.routing_key) == (1, False, "", "orders")
    assert (body, got.message_count) == (b"one", 1)
    assert properties == pika.BasicProperties()
    channel.basic_ack(got.delivery_tag)
    assert channel.basic_get("orders", auto_ack=True)[2] == b"two"
    assert channel.basic_get("orders") == (None, None, None)


def test_a_declare_tells_how_many_messages_and_consumers_there_are(channel: BlockingChannel) -> None:
    channel.queue_declare("counted")
    for _ in range(3):
        channel.basic_publish("", "counted", b"")
    declared = channel.queue_declare("counted").method
    assert (declared.queue, declared.message_count, declared.consumer_count) == ("counted", 3, 0)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("counted", lambda *_: None)
    declared = channel.queue_declare("counted", passive=True).method
    assert (declared.message_count, declared.consumer_count) == (2, 1)


def test_the_server_names_a_queue_and_an_empty_name_means_the_last_one(channel: BlockingChannel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue
    assert name.startswith("amq.gen-")
    channel.queue_bind("", "amq.direct", "key")
    channel.basic_publish("amq.direct", "key", b"for the last")
    assert channel.basic_get("", auto_ack=True)[2] == b"for the last"
    assert channel.basic_get(name) == (None, None, None)


@pytest.mark.feature("S4-52")
def test_ack_multiple_settles_everything_up_to_the_tag(channel: BlockingChannel, connect: Connect) -> None:
    channel.queue_declare("batch")
    for number in range(5):
        channel.basic_publish("", "batch", str(number).encode())
    tags = [channel.basic_get("batch")[0].delivery_tag for _ in range(5)]
    channel.basic_ack(tags[3], multiple=True)
    channel.close()
    other = connect().channel()
    assert other.queue_declare("batch", passive=True).method.message_count == 1
    got, _, body = other.basic_get("batch")
    assert (body, got.redelivered) == (b"4", True)


@pytest.mark.feature("S4-55", "S4-75")
def test_nack_and_reject_requeue_to_the_original_place_or_drop(channel: BlockingChannel) -> None:
    channel.queue_declare("again")
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", "again", body)
    first, second = (channel.basic_get("again")[0].delivery_tag for _ in range(2))
    channel.basic_nack(second, requeue=True)
    channel.basic_reject(first, requeue=True)
    seen = [channel.basic_get("again") for _ in range(3)]
    assert [(body, got.redelivered) for got, _, body in seen] == [(b"a", True), (b"b", True), (b"c", False)]
    channel.basic_reject(seen[0][0].delivery_tag, requeue=False)
    channel.basic_nack(seen[2][0].delivery_tag, multiple=True, requeue=False)
    assert channel.queue_declare("again", passive=True).method.message_count == 0


@pytest.mark.feature("S4-61")
def test_unacked_messages_return_when_the_connection_ends(connect: Connect) -> None:
    leaving, staying = connect(), connect()
    channel = leaving.channel()
    channel.queue_declare("left")
    channel.basic_publish("", "left", b"unfinished")
    channel.basic_get("left")
    leaving.close()
    got, _, body = staying.channel().basic_get("left", auto_ack=True)
    assert (body, got.redelivered) == (b"unfinished", True)


def test_recover_delivers_again_what_was_not_acked(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("recovered")
    seen: list[tuple[bytes, bool]] = []
    channel.basic_consume("recovered", lambda _, method, __, body: seen.append((body, method.redelivered)))
    for body in (b"a", b"b"):
        channel.basic_publish("", "recovered", body)
    pump(connection, lambda: len(seen) == 2)
    channel.basic_recover(requeue=True)
    pump(connection, lambda: len(seen) == 4)
    assert seen == [(b"a", False), (b"b", False), (b"a", True), (b"b", True)]


def test_purge_and_delete_say_how_many_messages_went(channel: BlockingChannel) -> None:
    channel.queue_declare("short")
    for _ in range(3):
        channel.basic_publish("", "short", b"")
    assert channel.queue_purge("short").method.message_count == 3
    channel.basic_publish("", "short", b"")
    assert channel.queue_delete("short").method.message_count == 1


@pytest.mark.feature("S4-33")
def test_deleting_what_is_not_there_is_no_error(channel: BlockingChannel) -> None:
    assert channel.queue_delete("never was").method.message_count == 0
    channel.exchange_delete("never was")
    assert channel.is_open


def test_delete_if_unused_and_if_empty_are_preconditions(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("busy")
    channel.basic_publish("", "busy", b"")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_delete("busy", if_empty=True)
    assert caught.value.reply_code == 406
    channel = connection.channel()
    channel.basic_consume("busy", lambda *_: None)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_delete("busy", if_unused=True)
    assert caught.value.reply_code == 406


@pytest.mark.feature("S4-81")
def test_a_passive_declare_of_a_missing_queue_is_a_404(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare("nowhere", passive=True)
    assert caught.value.reply_code == 404
    assert caught.value.reply_text == "NOT_FOUND - no queue 'nowhere' in vhost '/'"
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().exchange_declare("nowhere", passive=True)
    assert caught.value.reply_text == "NOT_FOUND - no exchange 'nowhere' in vhost '/'"


@pytest.mark.feature("S4-07", "S4-81")
def test_a_declare_with_other_arguments_is_refused_and_says_which(connection: pika.BlockingConnection) -> None:
    connection.channel().queue_declare("strict", arguments={"x-message-ttl": 1000})
    with pytest.raises(ChannelClosedByBroker) as caught:
        connection.channel().queue_declare("strict", arguments={"x-message-ttl": 2000})
    assert caught.value.reply_code == 406
    text = caught.value.reply_text
    assert "inequivalent arg 'x-message-ttl' for queue 'strict' in vhost '/'" in text
    assert "received '2000' but current is '1000'" in text


@pytest.mark.feature("S4-73")
def test_an_exclusive_queue_is_locked_to_its_connection_and_dies_with_it(connect: Connect) -> None:
    owner, other = connect(), connect()
    owner.channel().queue_declare("mine", exclusive=True)
    for wrong in (
        lambda channel: channel.queue_declare("mine", passive=True),
        lambda channel: channel.basic_consume("mine", lambda *_: None),
        lambda channel: channel.basic_get("mine"),
        lambda channel: channel.queue_delete("mine"),
    ):
        with pytest.raises(ChannelClosedByBroker) as caught:
            wrong(other.channel())
        assert caught.value.reply_code == 405
    owner.close()
    assert other.channel().queue_declare("mine").method.message_count == 0


@pytest.mark.feature("S4-73")
def test_an_auto_delete_queue_goes_with_its_last_consumer(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("brief", auto_delete=True)
    first = channel.basic_consume("brief", lambda *_: None)
    second = channel.basic_consume("brief", lambda *_: None)
    channel.basic_cancel(first)
    assert channel.queue_declare("brief", passive=True).method.consumer_count == 1
    channel.basic_cancel(second)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("brief", passive=True)
    assert caught.value.reply_code == 404


def test_messages_and_queues_expire_by_their_times(leveret_broker, channel: BlockingChannel) -> None:
    """TTL of the queue, of the message, and of the queue itself; time is moved, not awaited."""
    channel.queue_declare("slow", arguments={"x-message-ttl": 60_000})
    channel.basic_publish("", "slow", b"short", pika.BasicProperties(expiration="1000"))
    channel.basic_publish("", "slow", b"long")
    leveret_broker.clock.advance(2)
    assert channel.basic_get("slow")[2] == b"long"
    channel.queue_declare("unused", arguments={"x-expires": 5000})
    leveret_broker.clock.advance(6)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("unused", passive=True)
    assert caught.value.reply_code == 404


def test_higher_priorities_come_first(channel: BlockingChannel) -> None:
    channel.queue_declare("ranked", arguments={"x-max-priority": 5})
    for priority in (None, 1, 5, 3, 9):
        channel.basic_publish("", "ranked", str(priority).encode(), pika.BasicProperties(priority=priority))
    order = [channel.basic_get("ranked", auto_ack=True)[2] for _ in range(5)]
    assert order == [b"5", b"9", b"3", b"1", b"None"]


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1 << 20, 10 << 20])
@pytest.mark.feature("S4-09")
def test_a_body_of_any_size_comes_back_whole(channel: BlockingChannel, size: int) -> None:
    """One frame, exactly one full frame, and many."""
    pattern = bytes(range(251))
    body = (pattern * (size // len(pattern) + 1))[:size]
    channel.queue_declare("large")
    channel.confirm_delivery()
    channel.basic_publish("", "large", body)
    assert channel.basic_get("large", auto_ack=True)[2] == body


def test_a_message_over_the_limit_closes_the_channel_only(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("capped")
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("", "capped", bytes((16 << 20) + 1))
    assert caught.value.reply_code == 406
    assert connection.channel().queue_declare("capped", passive=True).method.message_count == 0
