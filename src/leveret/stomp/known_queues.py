"""The queues that one connection has declared. They are not declared again unless they have been deleted.

So a SEND need not repeat the arguments of the SUBSCRIBE that declared the queue. The queues of a transaction are
checked again at its commit.
"""

from __future__ import annotations

from leveret.stomp.amqp_client import AmqpClient
from leveret.wire.methods import QueueDeclare, QueueDeclareOk

MOST = 1_000


class KnownQueues:
    __slots__ = ("_amqp", "_names")

    def __init__(self, amqp: AmqpClient) -> None:
        self._amqp = amqp
        self._names: set[str] = set()

    def __contains__(self, queue: str) -> bool:
        return queue in self._names and self._is_there(queue)

    def _is_there(self, queue: str) -> bool:
        if not self._amqp.has_queue(queue):
            self._amqp.flush()  # the declaration may not have been passed on yet
        return self._amqp.has_queue(queue)

    def declare(self, channel: int, queue: QueueDeclare) -> None:
        self._amqp.call(channel, queue, QueueDeclareOk)
        if len(self._names) >= MOST:
            self._names.clear()
        self._names.add(queue.queue)

    def renew(self, channel: int, queue: QueueDeclare) -> None:
        """Declare it again if no queue of this name exists."""
        if not self._is_there(queue.queue):
            self.declare(channel, queue)
