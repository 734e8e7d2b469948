"""pika, blocking: consumers, prefetch, cancellation, request and reply."""

from __future__ import annotations

import threading
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.compat.conftest import Connect
from tests.compat.waiting import pump


class Listener:
    """Consumes and keeps what came, acking nothing by itself."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:
        self.channel = channel
        self.tags: list[int] = []
        self.bodies: list[bytes] = []
        self.consumer_tag = channel.basic_consume(queue, self._take, **options)

    def _take(self, _channel: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        self.tags.append(method.delivery_tag)
        self.bodies.append(body)


@pytest.mark.feature("S4-47", "S4-50", "S4-52")
def test_start_consuming_gets_the_backlog_and_then_what_comes(connect: Connect) -> None:
    """Acks inside the callback."""
    publisher = connect().channel()
    publisher.queue_declare("work")
    for number in range(10):
        publisher.basic_publish("", "work", str(number).encode())
    channel = connect().channel()
    seen: list[bytes] = []

    def work(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 10:
            publisher.basic_publish("", "work", b"live")
        elif len(seen) == 11:
            channel.stop_consuming()

    channel.basic_consume("work", work)
    channel.start_consuming()
    assert seen == [str(number).encode() for number in range(10)] + [b"live"]
    assert channel.queue_declare("work", passive=True).method.message_count == 0


def test_the_consume_generator_ends_after_silence(channel: BlockingChannel) -> None:
    channel.queue_declare("stream")
    for number in range(3):
        channel.basic_publish("", "stream", str(number).encode())
    seen = []
    for method, _, body in channel.consume("stream", inactivity_timeout=1.0):
        if method is None:
            break
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
    assert channel.cancel() == 0
    assert seen == [b"0", b"1", b"2"]


def test_cancel_of_the_generator_gives_back_what_it_had_not_handed_out(channel: BlockingChannel) -> None:
    channel.queue_declare("ahead")
    for number in range(5):
        channel.basic_publish("", "ahead", str(number).encode())
    method, _, _ = next(channel.consume("ahead"))
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    assert channel.queue_declare("ahead", passive=True).method.message_count == 4


def test_prefetch_per_consumer_limits_what_is_unacked(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("slowly")
    for number in range(5):
        channel.basic_publish("", "slowly", str(number).encode())
    channel.basic_qos(prefetch_count=2)
    listener = Listener(channel, "slowly")
    assert channel.queue_declare("slowly", passive=True).method.message_count == 3
    pump(connection, lambda: len(listener.bodies) == 2)
    channel.basic_ack(listener.tags[0])
    pump(connection, lambda: len(listener.bodies) == 3)
    assert channel.queue_declare("slowly", passive=True).method.message_count == 2
    channel.basic_ack(listener.tags[-1], multiple=True)
    pump(connection, lambda: len(listener.bodies) == 5)


def test_global_prefetch_is_shared_by_the_consumers_of_a_channel(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3, global_qos=True)
    for name in ("left", "right"):
        channel.queue_declare(name)
        for number in range(5):
            channel.basic_publish("", name, str(number).encode())
    first, second = Listener(channel, "left"), Listener(channel, "right")
    pump(connection, lambda: len(first.bodies) + len(second.bodies) == 3)
    ready = [channel.queue_declare(name, passive=True).method.message_count for name in ("left", "right")]
    assert sum(ready) == 7
    channel.basic_ack(0, multiple=True)
    pump(connection, lambda: len(first.bodies) + len(second.bodies) == 6)


@pytest.mark.feature("S4-01", "S4-48")
def test_consumers_of_a_queue_take_turns(connect: Connect) -> None:
    connections = [connect() for _ in range(3)]
    channels = [connection.channel() for connection in connections]
    channels[0].queue_declare("shared")
    for channel in channels:
        channel.basic_qos(prefetch_count=1)
    listeners = [Listener(channel, "shared") for channel in channels]
    for number in range(3):
        channels[0].basic_publish("", "shared", str(number).encode())
    for connection, listener in zip(connections, listeners, strict=True):
        pump(connection, lambda listener=listener: listener.bodies)
    assert sorted(body for listener in listeners for body in listener.bodies) == [b"0", b"1", b"2"]


def test_a_consumer_of_higher_priority_is_served_first(connection: pika.BlockingConnection) -> None:
    low, high = connection.channel(), connection.channel()
    low.queue_declare("favoured")
    for channel in (low, high):
        channel.basic_qos(prefetch_count=2)
    patient = Listener(low, "favoured")
    favoured = Listener(high, "favoured", arguments={"x-priority": 10})
    for number in range(3):
        low.basic_publish("", "favoured", str(number).encode())
    pump(connection, lambda: len(patient.bodies) + len(favoured.bodies) == 3)
    assert (favoured.bodies, patient.bodies) == ([b"0", b"1"], [b"2"])


def test_deleting_a_queue_tells_its_consumers(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("doomed")
    listener = Listener(channel, "doomed")
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    connect().channel().queue_delete("doomed")
    pump(connection, lambda: cancelled)
    assert cancelled == [listener.consumer_tag]
    assert channel.is_open
    assert channel.consumer_tags == []


def test_a_cancelled_consumer_gets_nothing_more_but_may_still_ack(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("stopped")
    channel.basic_publish("", "stopped", b"before")
    listener = Listener(channel, "stopped")
    pump(connection, lambda: listener.bodies)
    channel.basic_cancel(listener.consumer_tag)
    channel.basic_publish("", "stopped", b"after")
    channel.basic_ack(listener.tags[0])
    assert channel.queue_declare("stopped", passive=True).method.message_count == 1
    assert listener.bodies == [b"before"]


def test_an_exclusive_consumer_keeps_others_away(connection: pika.BlockingConnection) -> None:
    holder = connection.channel()
    holder.queue_declare("single")
    Listener(holder, "single", exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        Listener(connection.channel(), "single")
    assert caught.value.reply_code == 403


@pytest.mark.feature("S4-46")
def test_consuming_from_a_queue_that_is_not_there_is_an_error(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        Listener(connection.channel(), "nowhere")
    assert caught.value.reply_code == 404


def test_an_unknown_delivery_tag_closes_the_channel(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.basic_ack(17)
    with pytest.raises(ChannelClosedByBroker) as caught:
        pump(connection, lambda: channel.queue_declare("", exclusive=True) is None)
    assert (caught.value.reply_code, caught.value.reply_text) == (406, "PRECONDITION_FAILED - unknown delivery tag 17")


def test_recover_without_requeue_is_not_implemented(connection: pika.BlockingConnection) -> None:
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.channel().basic_recover(requeue=False)
    assert caught.value.reply_code == 540


@pytest.mark.feature("S4-58")
def test_request_and_reply_through_the_direct_reply_queue(connect: Connect) -> None:
    """Many requests under way at once, each answered under its own id."""
    serving, asking = connect(), connect()
    server = serving.channel()
    server.queue_declare("squares")

    def answer(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        reply = str(int(body) ** 2).encode()
        about = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, reply, about)
        channel.basic_ack(method.delivery_tag)

    tag = server.basic_consume("squares", answer)
    thread = threading.Thread(target=server.start_consuming)
    thread.start()
    try:
        replies: dict[str, bytes] = {}
        client = asking.channel()
        client.basic_consume(
            "amq.rabbitmq.reply-to",
            lambda _, __, properties, body: replies.update({properties.correlation_id: body}),
            auto_ack=True,
        )
        for number in range(20):
            about = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
            client.basic_publish("", "squares", str(number).encode(), about)
        pump(asking, lambda: len(replies) == 20)
        assert replies == {str(number): str(number**2).encode() for number in range(20)}
    finally:
        serving.add_callback_threadsafe(lambda: server.stop_consuming(tag))
        thread.join(10)
    assert not thread.is_alive()


def test_a_reply_to_a_requester_that_left_is_unroutable(connect: Connect) -> None:
    asking, channel = connect(), connect().channel()
    channel.queue_declare("questions")
    client = asking.channel()
    client.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    client.basic_publish("", "questions", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    client.queue_declare("", exclusive=True)  # its answer comes after the publish took effect
    address = channel.basic_get("questions", auto_ack=True)[1].reply_to
    assert address.startswith("amq.rabbitmq.reply-to.")
    assert channel.queue_declare(address, passive=True).method.queue == address
    asking.close()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", address, b"!", mandatory=True)


def test_asking_for_replies_without_a_reply_consumer_is_refused(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.queue_declare("questions")
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("", "questions", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    assert caught.value.reply_code == 406
