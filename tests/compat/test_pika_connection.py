"""pika, blocking: connections and channels as such."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.exceptions import (
    AuthenticationError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

import leveret
from leveret.config import Settings
from tests.compat.conftest import Connect
from tests.compat.waiting import pump, until


@pytest.mark.feature("S4-05")
def test_an_error_in_one_channel_leaves_the_others_alone(connection: pika.BlockingConnection) -> None:
    bad, good = connection.channel(), connection.channel()
    good.queue_declare("fine")
    seen: list[bytes] = []
    good.basic_consume("fine", lambda _, __, ___, body: seen.append(body), auto_ack=True)
    with pytest.raises(ChannelClosedByBroker):
        bad.queue_declare("nowhere", passive=True)
    good.basic_publish("", "fine", b"still here")
    pump(connection, lambda: seen)
    again = connection.channel(bad.channel_number)
    assert again.queue_declare("fine", passive=True).method.consumer_count == 1


@pytest.mark.feature("S4-05")
def test_many_channels_live_in_one_connection(connection: pika.BlockingConnection) -> None:
    channels = [connection.channel() for _ in range(100)]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"queue-{number}", exclusive=True)
        channel.basic_publish("", f"queue-{number}", str(number).encode())
    for number, channel in enumerate(channels):
        assert channel.basic_get(f"queue-{number}", auto_ack=True)[2] == str(number).encode()


def test_the_server_announces_what_it_can_do(connection: pika.BlockingConnection) -> None:
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported
    properties = connection._impl.server_properties
    assert "Leveret" in properties["platform"]
    assert all(properties["capabilities"].values())


def test_a_small_frame_size_of_the_client_is_kept_to(connect: Connect) -> None:
    """Publisher and consumer of different frame_max; pika closes on a frame that is too large."""
    small, large = connect(frame_max=4096), connect()
    body = bytes(range(256)) * 200
    large_channel, small_channel = large.channel(), small.channel()
    large_channel.queue_declare("refitted")
    large_channel.basic_publish("", "refitted", body)
    large_channel.queue_declare("", exclusive=True)
    assert small_channel.basic_get("refitted", auto_ack=True)[2] == body
    small_channel.basic_publish("", "refitted", body)
    small_channel.queue_declare("", exclusive=True)
    assert large_channel.basic_get("refitted", auto_ack=True)[2] == body


def test_heartbeats_keep_an_idle_connection_alive(connect: Connect) -> None:
    """Idle for longer than two intervals: without heartbeats either end would have hung up."""
    connection = connect(heartbeat=1)
    over: list[bool] = []
    connection.call_later(2.6, lambda: over.append(True))
    pump(connection, lambda: over)
    connection.channel().queue_declare("", exclusive=True)
    assert connection.is_open


@pytest.mark.feature("S4-61")
def test_a_client_that_falls_silent_is_cut_off_and_its_messages_return(connect: Connect) -> None:
    """Pika is not given the chance to send heartbeats."""
    silent, other = connect(heartbeat=1), connect()
    channel = silent.channel()
    channel.queue_declare("held")
    channel.basic_publish("", "held", b"mine")
    channel.basic_get("held")
    watching = other.channel()
    assert watching.basic_get("held") == (None, None, None)
    until(lambda: watching.queue_declare("held", passive=True).method.message_count == 1)
    assert watching.basic_get("held", auto_ack=True)[0].redelivered
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pump(silent, lambda: False)


@contextmanager
def memory_alarm(broker: leveret.Broker) -> Iterator[None]:
    """As if the machine had next to no memory. Lifted at the end, or a blocked client could not even close."""
    alarm = broker.node.broker.memory
    before = alarm.high_watermark
    broker.call(lambda: setattr(alarm, "high_watermark", 1))
    try:
        yield
    finally:
        broker.call(lambda: setattr(alarm, "high_watermark", before))


def test_a_memory_alarm_blocks_publishers_and_lets_consumers_go_on(
    leveret_broker: leveret.Broker, connect: Connect
) -> None:
    consuming, publishing = connect(), connect()
    told: list[str] = []
    publishing.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    publishing.add_on_connection_unblocked_callback(lambda _, __: told.append("unblocked"))
    publisher, consumer = publishing.channel(), consuming.channel()
    for name in ("pressed", "filled"):
        publisher.queue_declare(name)
        publisher.basic_publish("", name, bytes(10_000))
    publisher.queue_declare("", exclusive=True)
    with memory_alarm(leveret_broker):
        publisher.basic_publish("", "pressed", b"held back")
        pump(publishing, lambda: told)
        assert len(consumer.basic_get("pressed", auto_ack=True)[2]) == 10_000
        assert consumer.basic_get("pressed") == (None, None, None)
    pump(publishing, lambda: len(told) == 2)
    assert told[1] == "unblocked"
    publisher.queue_declare("", exclusive=True)
    assert consumer.basic_get("pressed", auto_ack=True)[2] == b"held back"


def test_pika_gives_up_when_it_stays_blocked(leveret_broker: leveret.Broker, connect: Connect) -> None:
    connection = connect(blocked_connection_timeout=0.2)
    channel = connection.channel()
    channel.queue_declare("pressed")

    def publish_on() -> None:
        """The first publish raises the alarm, unless the connection alone has; the next one is blocked."""
        for _ in range(100):
            channel.basic_publish("", "pressed", bytes(1000))
            connection.process_data_events(0.05)

    with memory_alarm(leveret_broker), pytest.raises(pika.exceptions.ConnectionBlockedTimeout):
        publish_on()


@pytest.mark.parametrize("secret", ["guest", "another"])
def test_update_secret_is_answered(connection: pika.BlockingConnection, secret: str) -> None:
    """Also with another secret: pika's own suite sends one."""
    connection.update_secret(secret, "renewed in time")
    assert connection.channel().queue_declare("", exclusive=True).method.queue


@pytest.fixture
def hasty_broker() -> Iterator[leveret.Broker]:
    """Refuses logins without the delay that costs guessers their time."""
    with leveret.Broker(Settings(amqp_port=0, http_port=None, stomp_port=None, login_failure_delay=0.0)) as broker:
        yield broker


@pytest.mark.feature("S4-02", "S4-81")
def test_a_wrong_password_and_a_missing_vhost_are_told_apart(hasty_broker: leveret.Broker, connect: Connect) -> None:
    wanted = pika.URLParameters(hasty_broker.amqp_url)
    wanted.credentials = pika.PlainCredentials("guest", "wrong")
    with pytest.raises((AuthenticationError, ProbableAuthenticationError)):
        pika.BlockingConnection(wanted)
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as caught:
        connect(virtual_host="nowhere")
    assert "530" in str(caught.value)


@pytest.mark.feature("S4-62")
def test_stopping_the_broker_tells_every_client(connect: Connect, leveret_broker: leveret.Broker) -> None:
    connections = [connect() for _ in range(3)]
    stopping = threading.Thread(target=leveret_broker.stop)
    stopping.start()
    for connection in connections:
        with pytest.raises(ConnectionClosedByBroker) as caught:
            pump(connection, lambda: False)
        assert caught.value.reply_code == 320
    stopping.join(10)
    assert not stopping.is_alive()


def test_a_client_over_ipv6_is_served() -> None:
    if not _has_ipv6():
        pytest.skip("kernel: no IPv6 loopback address")
    with leveret.Broker(Settings(host=("::1",), amqp_port=0, http_port=None, stomp_port=None)) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("six")
            channel.basic_publish("", "six", b"over IPv6")
            assert channel.basic_get("six", auto_ack=True)[2] == b"over IPv6"


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.feature("S4-01")
def test_threads_with_a_connection_each_do_not_disturb_each_other(connect: Connect) -> None:
    """Four publishers, four consumers, one queue."""
    connect().channel().queue_declare("crowd")
    seen: list[bytes] = []
    failures: list[BaseException] = []
    publishing = [connect() for _ in range(4)]
    consuming = [connect() for _ in range(4)]

    def guarded(work: Any, connection: pika.BlockingConnection, number: int) -> None:
        try:
            work(connection.channel(), number)
        except BaseException as failure:
            failures.append(failure)

    def publish(channel: Any, number: int) -> None:
        channel.confirm_delivery()
        for message in range(50):
            channel.basic_publish("", "crowd", f"{number}-{message}".encode())

    def consume(channel: Any, number: int) -> None:
        channel.basic_qos(prefetch_count=5)
        for method, _, body in channel.consume("crowd", inactivity_timeout=0.05):
            if method is not None:
                seen.append(body)
                channel.basic_ack(method.delivery_tag)
            if len(seen) >= 200:
                break
        channel.cancel()

    jobs = [(publish, each) for each in publishing] + [(consume, each) for each in consuming]
    threads = [threading.Thread(target=guarded, args=(*job, number)) for number, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures
    assert sorted(seen) == sorted(f"{number}-{message}".encode() for number in range(4) for message in range(50))
