"""Streams over AMQP with pika, against a broker with a data directory, as a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionClosedByBroker

import leveret
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties
from tests.support.forked_broker import ForkedBroker
from tests.support.peer_pair import split_frames
from tests.support.publishing import Publishing
from tests.support.raw_client import RawClient

STREAM = {"x-queue-type": "stream"}
Read = list[tuple[int, bytes]]


@contextmanager
def channel_to(url: str) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        if connection.is_open:
            with suppress(AMQPConnectionError):  # the broker may be gone
                connection.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for all that do not end it."""
    with ForkedBroker(tmp_path_factory.mktemp("broker")) as serving:
        yield serving.url()


@pytest.fixture
def channel(url: str) -> Iterator[BlockingChannel]:
    with channel_to(url) as made:
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def declare(channel: BlockingChannel, name: str, **arguments: object) -> None:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments={**STREAM, **table})


def publish(channel: BlockingChannel, name: str, *bodies: bytes, **headers: object) -> None:
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(headers=headers or None))


def read(
    channel: BlockingChannel, queue: str, number: int, *, prefetch: int = 100, settle: str = "ack", **arguments: object
) -> Read:
    """The next so many, settled; fewer if no more come for half a minute."""
    table = {f"x-stream-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.basic_qos(prefetch_count=prefetch)
    found: Read = []
    if number:
        for method, properties, body in channel.consume(queue, arguments=table, inactivity_timeout=30):
            if method is None:
                break
            found.append((int(properties.headers["x-stream-offset"]), body))
            getattr(channel, f"basic_{settle}")(method.delivery_tag)
            if len(found) == number:
                break
    channel.cancel()
    return found


def numbered(number: int, start: int = 0) -> Read:
    return [(each, b"%d" % each) for each in range(start, start + number)]


def bodies(number: int, start: int = 0) -> list[bytes]:
    return [body for _, body in numbered(number, start)]


# ---- what is refused, as RabbitMQ refuses it


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"durable": False}, "invalid property 'non-durable'"),
        ({"exclusive": True}, "invalid property 'exclusive-owner'"),
        ({"auto_delete": True}, "invalid property 'auto-delete'"),
        ({"arguments": {**STREAM, "x-max-priority": 5}}, "invalid arg 'x-max-priority'"),
        ({"arguments": {**STREAM, "x-max-age": "1w"}}, "invalid arg 'x-max-age'"),
        ({"queue": ""}, "server-named queue for type stream"),
    ],
)
def test_declarations_that_do_not_fit(channel: BlockingChannel, more: dict[str, object], told: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.queue_declare(**{"queue": "wrong", "durable": True, "arguments": STREAM, **more})  # type: ignore[arg-type]
    assert refusal.value.reply_code == 406
    assert told in refusal.value.reply_text


def test_consuming_without_a_prefetch_closes_the_channel(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.basic_consume(name, lambda *about: None)
    assert refusal.value.reply_code == 406
    assert "consumer prefetch count is not set for stream queue" in refusal.value.reply_text


def test_a_wrong_offset_closes_the_channel(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(ChannelClosedByBroker, match="invalid arg 'x-stream-offset'"):
        channel.basic_consume(name, lambda *about: None, arguments={"x-stream-offset": "yesterday"})


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda channel, name: channel.basic_get(name), "basic.get not supported by stream queues"),
        (lambda channel, name: channel.queue_purge(name), "queue.purge not supported by stream queues"),
        (
            lambda channel, name: channel.basic_consume(name, lambda *about: None, auto_ack=True),
            "automatic acknowledgement not supported by stream",
        ),
    ],
)
def test_what_streams_do_not_do_closes_the_connection(
    channel: BlockingChannel, act: Callable[[BlockingChannel, str], object], told: str
) -> None:
    declare(channel, "cannot")
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(ConnectionClosedByBroker) as refusal:
        act(channel, "cannot")
    assert refusal.value.reply_code == 540
    assert told in refusal.value.reply_text


# ---- reading


def test_a_stream_is_read_again_and_again(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    publish(channel, name, *bodies(10))
    assert channel.queue_declare(name, passive=True).method.message_count == 10
    for settle in ("ack", "nack", "reject"):
        assert read(channel, name, 10, settle=settle, offset="first") == numbered(10)
    assert channel.queue_declare(name, passive=True).method.message_count == 10


def test_a_reader_begins_where_it_asks_to(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    publish(channel, name, *bodies(10))
    assert read(channel, name, 3, offset=4) == numbered(3, 4)
    assert read(channel, name, 1, offset="last") == numbered(1, 9)
    assert read(channel, name, 2, offset="1h") == numbered(2)
    assert read(channel, name, 2, offset=datetime.fromtimestamp(time.time() - 600, UTC)) == numbered(2)


def test_next_is_what_comes_after_the_consume(url: str, channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    publish(channel, name, *bodies(5))
    channel.basic_qos(prefetch_count=10)
    found: Read = []

    def take(_: object, method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == 3:
            channel.stop_consuming()

    channel.basic_consume(name, take)
    with channel_to(url) as other:
        publish(other, name, *bodies(3, 5))
    channel.start_consuming()
    assert found == numbered(3, 5)


def test_named_readers_go_on_and_filters_choose(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    for number in range(12):
        publish(channel, name, b"%d" % number, **{"x-stream-filter-value": "eu" if number % 3 else "us"})
    assert read(channel, name, 2, prefetch=2, offset="first", consumer="c", filter="us") == [(0, b"0"), (3, b"3")]
    assert read(channel, name, 2, prefetch=2, offset="first", consumer="c", filter="us") == [(6, b"6"), (9, b"9")]
    assert [offset for offset, _ in read(channel, name, 8, offset="first", filter=["eu"])] == [
        number for number in range(12) if number % 3
    ]


def test_a_stream_and_a_classic_queue_behind_one_exchange(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "fanout", durable=True)
    declare(channel, f"{name}-s")
    channel.queue_declare(f"{name}-q", durable=True)
    for queue in (f"{name}-s", f"{name}-q"):
        channel.queue_bind(queue, name)
    for body in bodies(5):
        channel.basic_publish(name, "", body, pika.BasicProperties(delivery_mode=2))
    assert read(channel, f"{name}-s", 5, offset="first") == numbered(5)
    assert [channel.basic_get(f"{name}-q", auto_ack=True)[2] for _ in range(5)] == bodies(5)


def test_dead_letters_are_kept_in_a_stream(channel: BlockingChannel, name: str) -> None:
    declare(channel, name)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
    channel.queue_declare(f"{name}-q", durable=True, arguments=arguments)
    publish(channel, f"{name}-q", b"bad")
    method, _, _ = channel.basic_get(f"{name}-q")
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert read(channel, name, 1, offset="first") == [(0, b"bad")]


def deliveries(client: RawClient, number: int) -> Iterator[tuple[int, bytes]]:
    """Offsets and bodies, as quickly as Python can: messages without properties end their headers with the offset."""
    data = b""
    while number:
        data += client.socket.recv(1 << 20)
        frames = split_frames(data[: whole_frames(data)])
        frames = frames[: len(frames) // 3 * 3]
        data = data[sum(map(len, frames)) :]
        for header, body in zip(frames[1::3], frames[2::3], strict=True):
            yield int.from_bytes(header[-9:-1], "big"), body[7:-1]
            number -= 1


def whole_frames(data: bytes) -> int:
    """How many bytes of it are whole frames."""
    at = 0
    while len(data) - at >= 7 and (end := at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")) <= len(data):
        at = end
    return at


def test_a_long_stream_is_replayed_while_publishing_goes_on(url: str, name: str) -> None:
    number, more = 200_000, 10
    with RawClient.open(url, timeout=10) as client:
        client.call(QueueDeclare(name, durable=True, arguments=STREAM), QueueDeclareOk)
    for start in range(0, number, 20_000):
        with Publishing(url) as publishing:
            for part in range(start, start + 20_000, 1000):
                publishing.publish(name, bodies(1000, part), Properties())
            publishing.hear_verdicts(30)
    with Publishing(url) as publishing, RawClient.open(url, timeout=10) as client:
        client.call(BasicQos(0, 5000), BasicQosOk)
        client.call(BasicConsume(name, "c", arguments={"x-stream-offset": "first"}), BasicConsumeOk)
        for seen, (offset, body) in enumerate(deliveries(client, number + more)):
            assert (offset, body) == (seen, b"%d" % seen)
            if seen % 1000 == 999:
                client.send(BasicAck(seen + 1, multiple=True))
            if seen % (number // more) == 0 and seen < number:
                publishing.publish(name, bodies(1, number + seen * more // number), Properties())
        publishing.hear_verdicts()


# ---- lives


def test_everything_is_there_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving, channel_to(serving.url()) as channel:
        declare(channel, "s", max_age="7D")
        publish(channel, "s", *bodies(50))
        assert read(channel, "s", 10, prefetch=10, offset="first", consumer="c") == numbered(10)
        channel.connection.close()
        serving.terminate()
        assert serving.exit_code() == 0
    with ForkedBroker(tmp_path) as serving, channel_to(serving.url()) as channel:
        assert read(channel, "s", 50, offset="first") == numbered(50)
        publish(channel, "s", *bodies(50, 50))
        assert read(channel, "s", 10, prefetch=10, consumer="c") == numbered(10, 10)
        serving.process.kill()
        serving.exit_code()
    with ForkedBroker(tmp_path) as serving, channel_to(serving.url()) as channel:
        publish(channel, "s", b"100")
        assert read(channel, "s", 101, offset="first") == numbered(101)
        (found,) = read(channel, "s", 1, consumer="c")
        assert 10 <= found[0] <= 20, "it may be given again what it acked in the last moment"
        assert "error" not in serving.log()


def test_retention_and_deletion_remove_files(tmp_path: Path) -> None:
    streams = tmp_path / "data" / "streams"
    with ForkedBroker(tmp_path) as serving, channel_to(serving.url()) as channel:
        declare(channel, "s", max_length_bytes=50_000, stream_max_segment_size_bytes=10_000)
        publish(channel, "s", *[b"%04d" % number + bytes(1000) for number in range(200)])
        found = read(channel, "s", 1, offset="first")
        assert 100 < found[0][0] < 190
        assert sum(file.stat().st_size for file in streams.rglob("*.seg")) < 80_000
        channel.queue_delete("s")
        deadline = time.monotonic() + 10
        while any(streams.iterdir()):
            assert time.monotonic() < deadline, [*streams.rglob("*")]
            channel.queue_declare("other")  # a round trip
        serving.terminate()
        assert serving.exit_code() == 0


# ---- in the process


@pytest.fixture(params=["memory", "disk"])
def embedded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[leveret.Broker]:
    folder = tmp_path / "data" if request.param == "disk" else None
    settings = leveret.Settings(data_dir=folder, amqp_port=0, http_port=None, stomp_port=None)
    with leveret.Broker(settings) as broker:
        yield broker


def test_a_policy_shards_an_exchange_over_streams(embedded: leveret.Broker) -> None:
    definition = {"shards-per-node": 3, "shard-queue-type": "stream"}
    embedded.vhost().set_policy("orders", "^orders$", definition, apply_to="exchanges")
    with channel_to(embedded.amqp_url) as channel:
        channel.exchange_declare("orders", "x-modulus-hash", durable=True)
        for number in range(90):
            channel.basic_publish("orders", f"customer-{number % 30}", b"%d" % number)
        channel.basic_qos(prefetch_count=100)
        found: dict[str, list[int]] = {}
        arguments = {"x-shard-all": True, "x-stream-offset": "first", "x-stream-consumer": "c"}
        for method, _, body in channel.consume("orders", arguments=arguments, inactivity_timeout=30):
            assert method is not None, found
            found.setdefault(method.routing_key, []).append(int(body))
            channel.basic_ack(method.delivery_tag)
            if sum(map(len, found.values())) == 90:
                break
        channel.cancel()
        assert len(found) == 30
        assert all(numbers == sorted(numbers) for numbers in found.values()), "each key in its order"
        channel.basic_publish("orders", "customer-1", b"new")
        for method, _, body in channel.consume("orders", arguments=arguments, inactivity_timeout=30):
            assert method is not None
            assert body == b"new", "each shard goes on where it was acked"
            break


def test_an_embedded_program_reads_a_stream(embedded: leveret.Broker) -> None:
    vhost = embedded.vhost()
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    for body in bodies(5):
        vhost.publish("", "s", body)
    got = [message.body for message in vhost.jobs.browse("s", limit=3)]
    assert got == bodies(3)
    seen: list[tuple[object, bytes]] = []
    vhost.consume(
        "s",
        lambda message: seen.append(((message.properties.headers or {})["x-stream-offset"], message.body)),
        prefetch=10,
        arguments={"x-stream-offset": 2},
    )
    vhost.publish("", "s", b"5", Properties(delivery_mode=2))
    deadline = time.monotonic() + 5
    while len(seen) < 4:
        assert time.monotonic() < deadline, seen
        embedded.call(lambda: None)
    assert seen == numbered(4, 2)


def test_old_messages_go_when_time_passes(embedded: leveret.Broker) -> None:
    vhost = embedded.vhost()
    arguments = {**STREAM, "x-max-age": "1h", "x-stream-max-segment-size-bytes": 5000}
    vhost.declare_queue("s", durable=True, arguments=arguments)
    for number in range(20):
        vhost.publish("", "s", b"%d" % number + bytes(1000))
    assert len(vhost.jobs.browse("s", limit=100)) == 20
    embedded.clock.advance(2 * 3600)
    for number in range(20):
        vhost.publish("", "s", b"new %d" % number + bytes(1000))
    deadline = time.monotonic() + 5
    while (left := len(vhost.jobs.browse("s", limit=100))) > 25:
        assert time.monotonic() < deadline, left
    assert left >= 20
