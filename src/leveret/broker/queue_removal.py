"""Deletion of many queues: the exclusive queues of a closed connection, or all queues of a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.queues.declared_queue import DeclaredQueue

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost


class QueueRemoval:
    """A background task: queues that are not gone after its first step go in later ticks."""

    def __init__(self, vhost: Vhost, queues: list[DeclaredQueue]) -> None:
        self._vhost = vhost
        self._queues = queues[::-1]

    def step(self) -> bool:
        time_slice = self._vhost.queue_context.background.new_slice()
        while self._queues and not time_slice.is_over:
            self._vhost.remove_queue(self._queues.pop())
        return bool(self._queues)
