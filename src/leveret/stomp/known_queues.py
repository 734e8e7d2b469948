"""The queues that one connection has declared: it declares none of them again, until somebody has deleted it.

So a SEND needs not repeat the arguments with which the SUBSCRIBE before it made the queue. What a transaction sends to
is looked at again at its commit.
"""

from __future__ import annotations

from leveret.stomp.amqp_side import AmqpSide
from leveret.wire.methods import QueueDeclare, QueueDeclareOk

MOST = 1_000


class KnownQueues:
    __slots__ = ("_amqp", "_names")

    def __init__(self, amqp: AmqpSide) -> None:
        self._amqp = amqp
        self._names: set[str] = set()

    def __contains__(self, queue: str) -> bool:
        return queue in self._names and self._is_there(queue)

    def _is_there(self, queue: str) -> bool:
        if not self._amqp.has_queue(queue):
            self._amqp.flush()  # the declaration may be among what was gathered
        return self._amqp.has_queue(queue)

    def declare(self, channel: int, queue: QueueDeclare) -> None:
        self._amqp.ask(channel, queue, QueueDeclareOk)
        if len(self._names) >= MOST:
            self._names.clear()
        self._names.add(queue.queue)

    def renew(self, channel: int, queue: QueueDeclare) -> None:
        """Declare it again if it is gone; another of its name, whoever made it, is as good."""
        if not self._is_there(queue.queue):
            self.declare(channel, queue)
