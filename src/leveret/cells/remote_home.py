"""The requests about a remote queue, as sessions make them (queues.declared_queue.HomeRequests)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.delivery.consumer import Consumer
from leveret.errors import AmqpError
from leveret.queues.declared_queue import QueueCounts
from leveret.queues.stream_options import purge_unsupported

if TYPE_CHECKING:
    from leveret.cells.remote_queue import RemoteQueue


class RemoteHome:
    def __init__(self, queue: RemoteQueue) -> None:
        self._queue = queue

    @property
    def cell_name(self) -> str:
        return self._queue.cell.name

    def count(self, answered: Callable[[QueueCounts | AmqpError], None]) -> None:
        def take(answer: QueueCounts | AmqpError) -> None:
            if isinstance(answer, QueueCounts):
                self._queue.counts = answer
            answered(answer)

        self._queue.requests.count(take)

    def purge(self, answered: Callable[[int | AmqpError], None]) -> None:
        queue = self._queue
        if queue.is_stream:
            answered(purge_unsupported(queue.title))
        else:
            queue.requests.purge(answered)

    def delete(self, if_unused: bool, if_empty: bool, answered: Callable[[int | AmqpError], None]) -> None:
        self._queue.requests.delete(if_unused, if_empty, answered)

    def joined(self, consumer: Consumer, answered: Callable[[AmqpError | None], None]) -> None:
        remote = next((each for each in self._queue.lanes.values() if each.consumer is consumer), None)
        if remote is None or not remote.number:  # subscribed when the home cell is back
            answered(None)
        else:
            remote.await_joined(answered)
