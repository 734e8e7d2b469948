"""Consumers of the blocking face: iterated in any number of threads, or with callbacks in one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Queue

import pytest

import leveret
from leveret.client import (
    Cancelled,
    ClientError,
    Closed,
    Delivery,
    blocking,
)
from tests.support.client_scenarios import PATIENCE, in_thread, queue_with


@pytest.fixture
def connection(broker: leveret.Broker) -> Iterator[blocking.Connection]:
    with blocking.connect(broker.amqp_url) as made:
        yield made


@pytest.fixture
def channel(connection: blocking.Connection) -> blocking.Channel:
    return connection.channel()


@pytest.mark.feature("S1-01")
def test_messages_are_iterated_and_acked(channel: blocking.Channel) -> None:
    queue = queue_with(channel, *(str(n).encode() for n in range(1000)))
    channel.qos(10)
    bodies = []
    with channel.consume(queue) as consumer:
        for message in consumer:
            bodies.append(message.body)
            message.ack()
            if len(bodies) == 1000:
                break
    assert bodies == [str(n).encode() for n in range(1000)]
    assert channel.declare_queue(queue, passive=True).message_count == 0


def test_next_waits_no_longer_than_it_may(channel: blocking.Channel) -> None:
    queue = queue_with(channel)
    consumer = channel.consume(queue)
    assert consumer.next(0) is None
    assert consumer.next(0.01) is None
    channel.send(b"x", "", queue)
    message = consumer.next(PATIENCE)
    assert message is not None
    message.reject(requeue=False)


def test_what_a_cancelled_consumer_did_not_take_goes_back(channel: blocking.Channel) -> None:
    queue = queue_with(channel, b"1", b"2", b"3")
    consumer = channel.consume(queue)
    first = consumer.next(PATIENCE)
    assert first is not None
    first.ack()
    consumer.cancel()
    consumer.cancel()
    assert consumer.is_over
    assert list(consumer) == []
    left = [channel.get(queue, no_ack=True) for _ in range(3)]
    assert [each and each.body for each in left] == [b"2", b"3", None]


def test_what_a_cancelled_consumer_without_acks_did_not_take_is_still_there(channel: blocking.Channel) -> None:
    queue = queue_with(channel, b"1", b"2", b"3")
    with channel.consume(queue, no_ack=True) as consumer:
        first = consumer.next(PATIENCE)
        assert first is not None
    assert [message.body for message in consumer] == [b"2", b"3"]
    with pytest.raises(Closed):
        consumer.next(PATIENCE)


def test_a_callback_without_acks_is_not_called_any_more_once_it_is_cancelled(channel: blocking.Channel) -> None:
    queue = queue_with(channel, b"1", b"2", b"3")
    got: list[bytes] = []

    def take(message: Delivery) -> None:
        got.append(message.body)
        channel.cancel(consumer.tag)

    consumer = channel.consume(queue, take, no_ack=True)
    channel.start_consuming()
    channel.run_callbacks()
    assert got == [b"1"]


def test_a_deleted_queue_ends_every_thread_that_waits_for_its_messages(connection: blocking.Connection) -> None:
    channel = connection.channel()
    queue = queue_with(channel)
    consumer = channel.consume(queue)
    outcome: Queue[object] = Queue()
    threads = [in_thread(outcome, consumer.next) for _ in range(3)]
    connection.channel().delete_queue(queue)
    assert [type(outcome.get(timeout=PATIENCE)) for _ in threads] == [Cancelled] * 3
    for thread in threads:
        thread.join()
    channel.qos(1)


def test_callbacks_run_in_the_thread_that_starts_consuming(channel: blocking.Channel) -> None:
    queue, other = queue_with(channel, b"1", b"2"), queue_with(channel, b"3")
    seen: list[tuple[bytes, str]] = []

    def take(message: Delivery) -> None:
        seen.append((message.body, threading.current_thread().name))
        channel.qos(5)  # any call may be made here
        message.ack()
        if len(seen) == 3:
            channel.stop_consuming()

    consumers = [channel.consume(name, take) for name in (queue, other)]
    channel.start_consuming()
    assert sorted(seen) == [(body, threading.current_thread().name) for body in (b"1", b"2", b"3")]
    with pytest.raises(ClientError, match="delivers to a callback"):
        consumers[0].next()
    for consumer in consumers:
        consumer.cancel()
    channel.start_consuming()  # nobody is left: it returns
    assert channel.declare_queue(queue, passive=True).message_count == 0


def test_run_callbacks_calls_what_has_come_and_no_more(channel: blocking.Channel) -> None:
    queue = queue_with(channel, b"1", b"2")
    seen: list[bytes] = []
    consumer = channel.consume(queue, lambda message: seen.append(message.body), no_ack=True)
    while len(seen) < 2:
        assert channel.run_callbacks(PATIENCE)
    assert channel.run_callbacks() == 0
    channel.send(b"3", "", queue)
    assert channel.run_callbacks(PATIENCE) == 1
    assert seen == [b"1", b"2", b"3"]
    consumer.cancel()


def test_start_consuming_raises_what_ends_its_consumer(connection: blocking.Connection) -> None:
    channel = connection.channel()
    queue = queue_with(channel)
    channel.consume(queue, lambda _: None)
    connection.channel().delete_queue(queue)
    with pytest.raises(Cancelled):
        channel.start_consuming()
    channel.start_consuming()


def test_an_error_in_a_callback_is_the_callers(channel: blocking.Channel) -> None:
    queue = queue_with(channel, b"1", b"2")
    bodies: list[bytes] = []

    def fail_once(message: Delivery) -> None:
        bodies.append(message.body)
        message.ack()
        if len(bodies) == 1:
            raise KeyError("once")
        channel.stop_consuming()

    channel.consume(queue, fail_once)
    with pytest.raises(KeyError):
        channel.start_consuming()
    channel.start_consuming()
    assert bodies == [b"1", b"2"]
