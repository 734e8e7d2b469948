"""A queue and a stream with numbered messages, published and read through any node of a cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.cell_node import CellNode

PERSISTENT = pika.BasicProperties(delivery_mode=2)
QUEUE, STREAM = "jobs", "events"


@contextmanager
def channel_of(node: CellNode) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    try:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=100)
        yield channel
    finally:
        connection.close()


def publish(node: CellNode, name: str, number: int, size: int = 0) -> list[bytes]:
    """To both; the bodies, of which all were confirmed."""
    bodies = [f"{name} {n} ".encode().ljust(size, b".") for n in range(number)]
    with channel_of(node) as channel:
        for body in bodies:
            channel.basic_publish("", QUEUE, body, PERSISTENT)
            channel.basic_publish("", STREAM, body, PERSISTENT)
    return bodies


def acknowledge(node: CellNode, number: int) -> None:
    with channel_of(node) as channel:
        for _ in range(number):
            channel.basic_get(QUEUE, auto_ack=True)


def queued(node: CellNode) -> list[bytes]:
    """What is in the queue, which stays as it is."""
    found = []
    with channel_of(node) as channel:
        while (got := channel.basic_get(QUEUE))[0] is not None:
            found.append(got[2])
    return found


def streamed(node: CellNode, number: int) -> list[bytes]:
    """So many messages of the stream, from its beginning."""
    found: list[bytes] = []
    with channel_of(node) as channel:
        for method, _, body in channel.consume(STREAM, arguments={"x-stream-offset": "first"}, inactivity_timeout=60.0):
            if method is None:
                break
            found.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(found) == number:
                break
        channel.cancel()
    return found
