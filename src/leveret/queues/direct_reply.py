"""Direct reply-to: a queue that exists as long as its consumer, and stores nothing.

A requester consumes from ``amq.rabbitmq.reply-to`` and publishes with that name as reply_to; the broker replaces it by
the name of this queue. A reply published to that name goes straight to the requester's channel, or is dropped.

If there are several cells, the name contains that of the requester's cell, to which the others send replies
(cells/remote_replies.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.backlog.context import Drainable, MemoryGauge
from leveret.delivery.consumer import Consumer, Outstanding
from leveret.delivery.delivery_pause import DeliveryPause
from leveret.delivery.receipts import RemoteLog
from leveret.errors import AmqpError
from leveret.message import Message
from leveret.queues.duplicates import Duplicates
from leveret.queues.limits import Limits
from leveret.queues.queue import Queue
from leveret.store.log import Placement

REPLY_TO = "amq.rabbitmq.reply-to"
MOST_WAITING = 10_000  # replies that may wait for a slow requester


def reply_name(cell: str, token: str) -> str:
    """``cell``: that of the requester; empty if it is the only one. ``token``: unguessable, without dots."""
    return f"{REPLY_TO}.{cell}.{token}" if cell else f"{REPLY_TO}.{token}"


def cell_of_reply(name: str) -> str:
    """The cell of the requester; empty if the name has none, or is not that of a reply queue."""
    prefix, _, rest = name.partition(f"{REPLY_TO}.")
    return "" if prefix else rest.rpartition(".")[0]


class RemoteReplyQueue(Queue, Protocol):
    """The reply queue of a requester in another cell, who may have gone."""

    def look_up(self, answered: Callable[[AmqpError | None], None]) -> None:
        """Whether it is there."""


class ReplyQueue:
    remote_log: RemoteLog | None = None
    limits: Limits | None = None
    duplicates: Duplicates | None = None

    def __init__(self, name: str, gauge: MemoryGauge, dirty: list[Drainable], deliveries: DeliveryPause) -> None:
        self.name = name
        self.alive = True
        self.stored = self.synced = self.keeps_all = self.can_reject = self.counts_deliveries = False
        self.returning = 0
        self.dirty = False
        self.consumer: Consumer | None = None
        self._gauge = gauge
        self._dirty = dirty
        self._deliveries = deliveries
        self._waiting: deque[Message] = deque()
        self._sequence = 1

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        room = MOST_WAITING - len(self._waiting) if self.alive else 0
        for message in run[:room]:
            self._waiting.append(message)
            self._gauge.used += len(message[0])
        self.touch()

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        """Replies are never logged."""
        self.publish(run, size, timed)
        return []

    def touch(self) -> None:
        if not self.dirty and self.alive:
            self.dirty = True
            self._dirty.append(self)

    def drain(self) -> None:
        self.dirty = False
        if self._deliveries.reason is not None:
            return  # the queue is touched at the end of the pause
        while self.alive and self._waiting and self.consumer is not None and self.consumer.room() > 0:
            number, size = self.consumer.take(self._waiting, 0, self._sequence, len(self._waiting))
            self._sequence += number
            self._gauge.used -= size

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Replies are never acknowledged: their consumer uses automatic acknowledgement."""

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Replies are never rejected."""

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        """Replies are never requeued."""

    def extend_ack_timeout(self, unacked: Outstanding, tag: int, seconds: float | None) -> bool:
        """Replies have no ack timeout."""
        return False

    def remove_consumer(self, consumer: Consumer) -> None:
        self.die()

    def die(self) -> None:
        self.alive = False
        self.consumer = None
        self._gauge.used -= sum(len(message[0]) for message in self._waiting)
        self._waiting.clear()
