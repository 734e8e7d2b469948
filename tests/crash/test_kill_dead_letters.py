"""kill -9 while messages die and come back: each is in one place afterwards, with its count and its wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

from tests.support.broker_process import BrokerProcess
from tests.support.forked_broker import ForkedBroker

CYCLES = 3
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
KEPT = pika.BasicProperties(delivery_mode=2)


@contextmanager
def opened(serving: BrokerProcess) -> Iterator[BlockingChannel]:
    """A channel; the broker may be gone at the end."""
    connection = pika.BlockingConnection(pika.URLParameters(serving.url()))
    try:
        yield connection.channel()
    finally:
        with suppress(AMQPError):
            connection.close()


def declare(channel: BlockingChannel) -> None:
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-delivery-limit": 2, "x-max-length": 200, **TO_DEAD})


def spoil(channel: BlockingChannel, number: int) -> None:
    """Requeue or reject ``number`` messages without waiting for a reply."""
    for turn in range(number):
        method, _, _ = channel.basic_get("q")
        if method is None:
            return
        channel.basic_nack(method.delivery_tag, requeue=turn % 3 > 0)


def drained(channel: BlockingChannel, queue: str) -> list[bytes]:
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


@pytest.mark.feature("S0-24", "S1-20", "S4-76")
def test_a_dead_lettered_message_survives_kills_in_one_place(tmp_path: Path) -> None:
    """Rejected, delivered too often, and pushed out by the limit."""
    confirmed: set[bytes] = set()
    for cycle in range(CYCLES):
        with ForkedBroker(tmp_path) as serving, opened(serving) as channel:
            declare(channel)
            channel.confirm_delivery()
            for number in range(150):
                body = b"%d %d" % (cycle, number)
                channel.basic_publish("", "q", body, KEPT)
                confirmed.add(body)
                if number % 10 == 9:
                    spoil(channel, 8)
            spoil(channel, 20)
            serving.process.kill()
    with ForkedBroker(tmp_path) as serving, opened(serving) as channel:
        declare(channel)
        waiting, dead = drained(channel, "q"), drained(channel, "dead")
    found = Counter(waiting + dead)
    assert set(found) == confirmed
    assert max(found.values()) == 1
    assert len(waiting) <= 200
    assert dead


@pytest.mark.feature("S1-14")
def test_counts_and_waits_survive_a_kill(tmp_path: Path) -> None:
    """Records on disk before a later confirm are recovered by the next run."""
    limited, patient = {"x-delivery-limit": 5}, {"x-retry-delays": [3_600_000]}
    with ForkedBroker(tmp_path) as serving, opened(serving) as channel:
        channel.confirm_delivery()
        for queue, arguments in (("limited", limited), ("patient", patient)):
            channel.queue_declare(queue, durable=True, arguments=arguments)
            channel.basic_publish("", queue, b"m", KEPT)
        for queue, times in (("limited", 2), ("patient", 1)):
            for _ in range(times):
                method, _, _ = channel.basic_get(queue)
                channel.basic_nack(method.delivery_tag)
        channel.basic_publish("", "patient", b"behind", KEPT)
        serving.process.kill()
    with ForkedBroker(tmp_path) as serving, opened(serving) as channel:
        _, properties, _ = channel.basic_get("limited")
        assert properties.headers == {"x-delivery-count": 2}
        assert drained(channel, "patient") == [b"behind"]
