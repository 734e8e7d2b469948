"""kombu over py-amqp: what Celery stands on, used by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import Empty
from typing import Any

import kombu
import pytest
from kombu.exceptions import OperationalError
from kombu.pools import connections, producers, reset

import leveret
from tests.compat.waiting import until


@pytest.fixture
def kombu_connection(leveret_broker: leveret.Broker) -> Iterator[kombu.Connection]:
    with kombu.Connection(leveret_broker.amqp_url) as connection:
        yield connection


def drain(connection: kombu.Connection, seen: list[Any], number: int) -> None:
    """Handle events until so many were seen; kombu raises TimeoutError if none comes."""
    while len(seen) < number:
        connection.drain_events(timeout=10)


def test_a_producer_declares_what_its_consumer_reads(kombu_connection: kombu.Connection) -> None:
    exchange = kombu.Exchange("media", "direct", durable=True)
    queue = kombu.Queue("video", exchange, routing_key="video")
    seen: list[tuple[Any, str]] = []

    def process(body: Any, message: kombu.Message) -> None:
        seen.append((body, message.content_type))
        message.ack()

    producer = kombu_connection.Producer(serializer="json")
    producer.publish({"name": "a.avi", "size": 13}, exchange=exchange, routing_key="video", declare=[queue])
    producer.publish("plain text", exchange=exchange, routing_key="video", serializer="raw", content_type="text/plain")
    producer.publish([1] * 1000, exchange=exchange, routing_key="video", compression="zlib")
    with kombu_connection.Consumer(queue, callbacks=[process], accept=["json", "text/plain"]):
        drain(kombu_connection, seen, 3)
    assert [kind for _, kind in seen] == ["application/json", "text/plain", "application/json"]
    assert (seen[0][0], seen[2][0]) == ({"name": "a.avi", "size": 13}, [1] * 1000)


@pytest.mark.feature("S4-55")
def test_requeue_and_reject_of_a_message(kombu_connection: kombu.Connection) -> None:
    queue = kombu.Queue("again", kombu.Exchange("again"), routing_key="again")
    kombu_connection.Producer().publish("work", exchange=queue.exchange, routing_key="again", declare=[queue])
    bound = queue(kombu_connection)
    first = bound.get()
    assert not first.delivery_info["redelivered"]
    first.requeue()
    second = bound.get()
    assert second.delivery_info["redelivered"]
    second.reject()
    assert bound.get() is None


@pytest.mark.feature("S4-74")
def test_confirmed_publishing_waits_for_the_broker(leveret_broker: leveret.Broker) -> None:
    """Py-amqp takes confirms as a transport option."""
    options = {"confirm_publish": True}
    with kombu.Connection(leveret_broker.amqp_url, transport_options=options) as connection:
        queue = kombu.Queue("sure")
        producer = connection.Producer()
        for number in range(20):
            producer.publish(number, routing_key="sure", declare=[queue], timeout=10)
        assert queue(connection).queue_declare(passive=True).message_count == 20


@pytest.mark.feature("S0-08")
def test_an_unroutable_mandatory_message_comes_back(kombu_connection: kombu.Connection) -> None:
    returned: list[tuple[int, str, str]] = []

    def on_return(exception: Any, exchange: str, routing_key: str, message: Any) -> None:
        returned.append((exception.reply_code, exchange, routing_key))

    producer = kombu_connection.Producer(on_return=on_return)
    producer.publish("lost", exchange="amq.direct", routing_key="nobody", mandatory=True)
    drain(kombu_connection, returned, 1)
    assert returned == [(312, "amq.direct", "nobody")]


def test_prefetch_holds_messages_back(kombu_connection: kombu.Connection) -> None:
    queue = kombu.Queue("slowly")
    producer = kombu_connection.Producer()
    for number in range(5):
        producer.publish(number, routing_key="slowly", declare=[queue])
    seen: list[kombu.Message] = []
    with kombu_connection.Consumer(queue, on_message=seen.append, prefetch_count=2) as consumer:
        drain(kombu_connection, seen, 2)
        assert queue(kombu_connection).queue_declare(passive=True).message_count == 3
        seen[0].ack()
        drain(kombu_connection, seen, 3)
        consumer.recover(requeue=True)
        drain(kombu_connection, seen, 5)
    assert [message.payload for message in seen] == [0, 1, 2, 1, 2]


def test_the_server_is_one_whose_global_qos_is_per_channel(kombu_connection: kombu.Connection) -> None:
    """kombu decides by product and version what the flag of basic.qos means; Celery relies on it."""
    assert kombu_connection.transport.qos_semantics_matches_spec(kombu_connection.connection) is False


def test_a_simple_queue_puts_and_gets(kombu_connection: kombu.Connection) -> None:
    with kombu_connection.SimpleQueue("simple") as queue:
        for number in range(3):
            queue.put({"number": number})
        assert queue.qsize() == 3
        for number in range(3):
            message = queue.get(timeout=10)
            assert message.payload == {"number": number}
            message.ack()
        with pytest.raises(Empty):
            queue.get_nowait()
    with kombu_connection.SimpleQueue("cleared") as queue:
        queue.put("gone")
        assert queue.clear() == 1


def test_a_simple_buffer_needs_no_acks(kombu_connection: kombu.Connection) -> None:
    with kombu_connection.SimpleBuffer("buffer") as buffer:
        buffer.put("quick")
        assert buffer.get(timeout=10).payload == "quick"


def test_heartbeat_checks_keep_a_connection_alive(leveret_broker: leveret.Broker) -> None:
    """Both ends would have hung up after two seconds; heartbeats from the broker reach us meanwhile."""
    with kombu.Connection(leveret_broker.amqp_url, heartbeat=1) as connection:
        connection.connect()
        assert connection.get_heartbeat_interval() == 1
        before = connection.connection.bytes_recv
        end = time.monotonic() + 2.6
        while time.monotonic() < end:
            connection.heartbeat_check(rate=2)
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.1)  # longer, and the broker's heartbeats would keep it in there
        assert connection.connection.bytes_recv > before
        assert kombu.Queue("alive")(connection).queue_declare().message_count == 0


def test_pools_lend_connections_and_producers(leveret_broker: leveret.Broker) -> None:
    connection = kombu.Connection(leveret_broker.amqp_url)
    queue = kombu.Queue("pooled")
    try:
        with connections[connection].acquire(block=True) as lent:
            queue(lent).declare()
        for _ in range(5):
            with producers[connection].acquire(block=True) as producer:
                producer.publish("from the pool", routing_key="pooled")
        with connections[connection].acquire(block=True) as lent:
            until(lambda: queue(lent).queue_declare(passive=True).message_count == 5)
    finally:
        reset()
        connection.release()


def test_ensure_publishes_again_after_the_broker_hung_up(
    leveret_broker: leveret.Broker, kombu_connection: kombu.Connection
) -> None:
    producer = kombu_connection.Producer()
    queue = kombu.Queue("resumed")
    producer.publish("before", routing_key="resumed", declare=[queue], retry=True)
    registry = leveret_broker.node.broker.registry
    leveret_broker.call(lambda: [live.force_close("closed by a test") for live in list(registry.connections)])
    with pytest.raises(kombu_connection.connection_errors):
        kombu_connection.drain_events(timeout=10)
    producer.publish("after", routing_key="resumed", declare=[queue], retry=True, retry_policy={"interval_start": 0})
    bound = queue(kombu_connection.default_channel)
    assert [bound.get(no_ack=True).payload for _ in range(2)] == ["before", "after"]


@pytest.mark.feature("S4-46", "S4-81")
def test_errors_arrive_as_the_exceptions_of_py_amqp(kombu_connection: kombu.Connection) -> None:
    channel = kombu_connection.channel()
    with pytest.raises(kombu_connection.channel_errors) as caught:
        kombu.Queue("nowhere", channel=channel).queue_declare(passive=True)
    assert caught.value.reply_code == 404
    assert kombu_connection.connected


def test_a_wrong_port_is_an_operational_error(leveret_broker: leveret.Broker) -> None:
    url = leveret_broker.amqp_url
    leveret_broker.stop()
    with pytest.raises(OperationalError):
        kombu.Connection(url).ensure_connection(max_retries=1, interval_start=0, interval_step=0)
