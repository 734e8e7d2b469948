"""A publisher that records its confirms, and short functions to fill, count and empty durable queues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from leveret.wire.constants import FRAME_METHOD
from leveret.wire.fields import Table
from leveret.wire.frames import decode_method
from leveret.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties
from tests.support.raw_client import RawClient, publish_bytes

PERSISTENT, TRANSIENT = Properties(delivery_mode=2), Properties(delivery_mode=1)


class Publishing:
    """``acked`` and ``nacked`` hold tags, with the moment at which the verdict came."""

    def __init__(self, url: str) -> None:
        self.client = RawClient.open(url)
        self.client.call(ConfirmSelect(), ConfirmSelectOk)
        self.sent: dict[int, bytes] = {}
        self.acked: dict[int, float] = {}
        self.nacked: dict[int, float] = {}
        self.blocked_at: float | None = None
        self.unblocked_at: float | None = None
        self.is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.client.cut()

    def __repr__(self) -> str:
        told = f"{len(self.sent)} sent, {len(self.acked)} acked, {len(self.nacked)} nacked"
        return f"<{told}, blocked {self.blocked_at}, unblocked {self.unblocked_at}, over {self.is_over}>"

    def publish(
        self, queue: str, bodies: Iterable[bytes], properties: Properties = PERSISTENT, *, exchange: str = ""
    ) -> None:
        """All of them in one piece, so that the broker reads them together if they are small."""
        data = b""
        for body in bodies:
            self.sent[len(self.sent) + 1] = body
            data += publish_bytes(BasicPublish(exchange, queue), body, properties, 1, self.client.frame_max)
        self.client.timeout = 60
        self.client.send_bytes(data)

    def confirmed_bodies(self) -> list[bytes]:
        return [body for tag, body in self.sent.items() if tag in self.acked]

    @property
    def pending(self) -> int:
        return len(self.sent) - len(self.acked) - len(self.nacked)

    def hear(self, until: Callable[[], object], seconds: float = 60.0) -> bool:
        """Listen until it holds; False if the time or the connection was over first."""
        deadline = time.monotonic() + seconds
        while not until():
            self.client.timeout = deadline - time.monotonic()
            if self.client.timeout <= 0 or self.is_over:
                return False
            try:
                found = self.client.next_frame()
            except AssertionError as told:  # raised on a timeout and at the end of the connection
                self.is_over = "closed" in str(told)
                continue
            assert found.kind == FRAME_METHOD, found
            self._take(decode_method(found.payload))
        return True

    def hear_verdicts(self, seconds: float = 60.0) -> None:
        assert self.hear(lambda: not self.pending, seconds), self

    def _take(self, method: object) -> None:
        now = time.monotonic()
        if isinstance(method, ConnectionBlocked):
            self.blocked_at, self.unblocked_at = now, None
        elif isinstance(method, ConnectionUnblocked):
            self.unblocked_at = now
        elif isinstance(method, BasicAck | BasicNack):
            verdicts = self.acked if isinstance(method, BasicAck) else self.nacked
            tags = range(1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag]
            for tag in tags:
                if tag not in self.acked and tag not in self.nacked:
                    assert tag in self.sent, f"a verdict on {tag}, which was never sent"
                    verdicts[tag] = now
        else:
            raise AssertionError(f"unexpected {method}")


class Taken(NamedTuple):
    body: bytes
    redelivered: bool
    properties: Properties


def declare(client: RawClient, queue: str, **arguments: object) -> None:
    """Durable. Arguments are written with underscores: x_max_priority=3."""
    table: Table = {name.replace("_", "-"): value for name, value in arguments.items()}  # type: ignore[misc]
    client.call(QueueDeclare(queue, durable=True, arguments=table), QueueDeclareOk)


def declare_at(url: str, *queues: str, **arguments: object) -> None:
    with RawClient.open(url) as client:
        for queue in queues:
            declare(client, queue, **arguments)


def fill(url: str, queue: str, bodies: Iterable[bytes], properties: Properties = PERSISTENT) -> None:
    """Publish, and wait until all are confirmed."""
    with Publishing(url) as publishing:
        publishing.publish(queue, bodies, properties)
        publishing.hear_verdicts()
        assert not publishing.nacked


def count(client: RawClient, queue: str) -> int:
    return client.call(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count


def take_all(url: str, queue: str, *, ack: bool = True) -> list[Taken]:
    """Get everything, in order. Without ``ack`` all of it goes back when the connection is cut, at the end."""
    taken = []
    with RawClient.open(url) as client:
        while True:
            client.send(BasicGet(queue))
            frame = client.next_frame()
            client.unread(frame)
            if isinstance(decode_method(frame.payload), BasicGetEmpty):
                if ack:
                    client.expect(BasicGetEmpty)
                    client.close()  # politely, so that every ack has counted
                return taken
            content = client.expect_content(BasicGetOk)
            taken.append(Taken(content.body, content.method.redelivered, content.properties))
            if ack:
                client.send(BasicAck(content.method.delivery_tag))


def bodies_of(url: str, queue: str) -> list[bytes]:
    return [each.body for each in take_all(url, queue)]
