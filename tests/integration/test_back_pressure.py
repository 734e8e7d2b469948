"""A peer that does not read, and a broker that runs full: memory stays bounded and nobody else suffers."""

from __future__ import annotations

import threading

import leveret
from leveret import Settings
from leveret.session.connection import Connection
from leveret.session.outbox import MOST_UNREAD
from leveret.setting_kinds import MemoryWatermark
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.raw_client import RawClient, eventually

BODY = bytes(64 << 10)
SLACK = 4 << 20  # what one received chunk, the high watermark of writing and the last answer may add


def connections(broker: leveret.Broker) -> list[Connection]:
    return [each for each in broker.node.broker.registry.connections if isinstance(each, Connection)]


def unread_bytes(broker: leveret.Broker) -> int:
    """Answers that the broker holds for its peers."""

    def count() -> int:
        return sum(each.outbox.size + each.peer.unsent() for each in connections(broker))

    return broker.call(count)


def test_a_peer_that_asks_and_does_not_read_is_heard_again_when_it_has_read(leveret_broker: leveret.Broker) -> None:
    """2,000 answers of 64 KiB are asked for at once: without back-pressure the broker would hold 125 MiB of them."""
    asked = 2_000
    with (
        RawClient.open(leveret_broker.amqp_url, timeout=20.0) as peer,
        RawClient.open(leveret_broker.amqp_url) as other,
    ):
        peer.call(QueueDeclare("q"), QueueDeclareOk)
        peer.publish("", "q", BODY)
        get_and_return = [
            method_frame(1, BasicGet("q")) + method_frame(1, BasicNack(tag, requeue=True))
            for tag in range(1, asked + 1)
        ]
        peer.send_bytes(b"".join(get_and_return))
        eventually(lambda: unread_bytes(leveret_broker) > MOST_UNREAD // 2)
        assert unread_bytes(leveret_broker) < MOST_UNREAD + SLACK
        other.is_alive()
        for tag in range(1, asked + 1):
            answer = peer.expect_content(BasicGetOk)
            assert answer.method.delivery_tag == tag
            assert answer.body == BODY
        assert unread_bytes(leveret_broker) == 0


def test_a_consumer_that_does_not_read_gets_no_more_than_fits_while_others_are_served(
    leveret_broker: leveret.Broker,
) -> None:
    messages = 500
    with RawClient.open(leveret_broker.amqp_url) as sleeper, RawClient.open(leveret_broker.amqp_url) as reader:
        reader.call(QueueDeclare("q"), QueueDeclareOk)
        sleeper.call(BasicConsume("q", "sleeper", no_ack=True), BasicConsumeOk)
        for _ in range(messages):
            reader.publish("", "q", BODY)
        eventually(lambda: reader.call(QueueDeclare("q", passive=True), QueueDeclareOk).message_count > 0)
        assert unread_bytes(leveret_broker) < SLACK
        waiting = reader.call(QueueDeclare("q", passive=True), QueueDeclareOk).message_count
        reader.call(BasicConsume("q", "reader", no_ack=True), BasicConsumeOk)
        for _ in range(waiting):
            assert reader.expect_content().body == BODY
        for _ in range(messages - waiting):
            assert sleeper.expect_content().body == BODY


def test_small_answers_that_nobody_reads_are_bounded_too() -> None:
    """Each read brings few of them, so none alone is too much: 30 MiB of answers of a few hundred bytes."""
    number = 120_000
    name = "q" * 255
    settings = Settings(
        http_port=None, amqp_port=0, max_message_size=4096, write_high_watermark=4096, shutdown_timeout=0.5
    )
    with (
        leveret.Broker(settings) as broker,
        RawClient.open(broker.amqp_url, timeout=60.0) as peer,
        RawClient.open(broker.amqp_url) as other,
    ):
        peer.call(QueueDeclare(name), QueueDeclareOk)
        sender = threading.Thread(target=peer.send_bytes, args=(method_frame(1, QueueDeclare(name)) * number,))
        sender.start()
        eventually(lambda: broker.call(lambda: any(each.is_paused for each in connections(broker))), seconds=30)
        assert unread_bytes(broker) < MOST_UNREAD + 2 * SLACK
        other.is_alive()
        answer = method_frame(1, QueueDeclareOk(name, 0, 0))
        answers = bytearray()
        while len(answers) < number * len(answer):
            answers += peer.socket.recv(1 << 20)
        assert answers == answer * number
        sender.join()
        assert unread_bytes(broker) == 0


def test_a_worker_that_publishes_its_results_drains_the_backlog_that_raised_the_alarm() -> None:
    """It uses one connection for both, and has published before. Publishing blocks it; consuming does not."""
    settings = Settings(
        amqp_port=0, http_port=None, shutdown_timeout=0.5, memory_high_watermark=MemoryWatermark(size=1 << 20)
    )
    with (
        leveret.Broker(settings) as broker,
        RawClient.open(broker.amqp_url) as worker,
        RawClient.open(broker.amqp_url) as producer,
    ):
        for queue in ("tasks", "results"):
            worker.call(QueueDeclare(queue), QueueDeclareOk)
        worker.publish("", "results", b"ready")
        sent = 0
        while not broker.call(lambda: dict(broker.node.broker.alarms)):
            producer.publish("", "tasks", BODY)
            sent += 1
        worker.call(BasicQos(prefetch_count=1), BasicQosOk)
        worker.call(BasicConsume("tasks"), BasicConsumeOk)
        for _ in range(sent - 1):
            task = worker.expect_content()
            worker.send(BasicAck(task.method.delivery_tag))
        task = worker.expect_content()
        worker.publish("", "results", b"done")
        worker.send(BasicAck(task.method.delivery_tag))
        eventually(lambda: broker.vhost().message_count("results") == 2)
        assert broker.vhost().message_count("tasks") == 0
