"""The queues that one connection has declared: it declares none of them again, until somebody has deleted it.

So a SEND needs not repeat the arguments with which the SUBSCRIBE before it made the queue.
"""

from __future__ import annotations

from leveret.stomp.amqp_side import AmqpSide

MOST = 1_000


class KnownQueues:
    __slots__ = ("_amqp", "_names")

    def __init__(self, amqp: AmqpSide) -> None:
        self._amqp = amqp
        self._names: set[str] = set()

    def __contains__(self, queue: str) -> bool:
        if queue not in self._names:
            return False
        if not self._amqp.has_queue(queue):
            self._amqp.flush()  # the declaration may be among what was gathered
        return self._amqp.has_queue(queue)

    def add(self, queue: str) -> None:
        if len(self._names) >= MOST:
            self._names.clear()
        self._names.add(queue)
