"""Short ways to declare and read streams in a StoredHarness."""

from __future__ import annotations

from leveret.queues.stream import StreamQueue
from tests.support.peer_pair import Client, Content
from tests.support.stored_harness import StoredHarness
from tests.support.stream_harness import numbered

STREAM = {"x-queue-type": "stream"}


def declare(client: Client, name: str = "s", **arguments: object) -> None:
    table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.declare(name, durable=True, arguments={**STREAM, **table})


def stream_of(harness: StoredHarness, name: str = "s") -> StreamQueue:
    queue = harness.queue(name)
    assert isinstance(queue, StreamQueue)
    return queue


def read(
    harness: StoredHarness, name: str = "s", *, prefetch: int = 1000, ack: bool = False, **arguments: object
) -> list[tuple[int, bytes]]:
    """Offsets and bodies, from the beginning unless stated otherwise."""
    client = harness.client()
    client.qos(prefetch)
    table = {f"x-stream-{key.replace('_', '-')}": value for key, value in {"offset": "first", **arguments}.items()}
    client.consume(name, arguments=table)
    found = [what for what in client.heard() if isinstance(what, Content)]
    if ack and found:
        client.ack(found[-1].tag, multiple=True)
    client.vanish()
    return [(offset_of(content), content.body) for content in found]


def offset_of(content: Content) -> int:
    value = (content.properties.headers or {})["x-stream-offset"]
    assert isinstance(value, int)
    return value


def pairs(number: int, start: int = 0) -> list[tuple[int, bytes]]:
    return list(enumerate(numbered(number, start), start))
