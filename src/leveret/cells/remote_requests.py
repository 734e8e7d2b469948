"""Requests about a queue of another cell: counts, purge, deletion. Those of basic.get have a channel of their own
(cells/remote_gets.py): a request that the home cell refuses closes the channel, which would requeue what was fetched on
it."""

from __future__ import annotations

from collections.abc import Callable

from leveret.cells.request_channel import Answer, RequestChannel, error_in
from leveret.errors import AmqpError
from leveret.queues.declared_queue import QueueCounts
from leveret.wire.methods import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, QueuePurge, QueuePurgeOk


class RemoteRequests(RequestChannel):
    def count(self, answered: Callable[[QueueCounts | AmqpError], None]) -> None:
        self.count_of(self._queue, answered)

    def count_of(self, queue: str, answered: Callable[[QueueCounts | AmqpError], None]) -> None:
        def take(answer: Answer) -> None:
            if isinstance(answer, QueueDeclareOk):
                answered(QueueCounts(answer.message_count, answer.consumer_count))
            else:
                answered(error_in(answer))

        self._ask(QueueDeclare(queue, passive=True), take)

    def purge(self, answered: Callable[[int | AmqpError], None]) -> None:
        def take(answer: Answer) -> None:
            answered(answer.message_count if isinstance(answer, QueuePurgeOk) else error_in(answer))

        self._ask(QueuePurge(self._queue), take)

    def delete(self, if_unused: bool, if_empty: bool, answered: Callable[[int | AmqpError], None]) -> None:
        def take(answer: Answer) -> None:
            answered(answer.message_count if isinstance(answer, QueueDeleteOk) else error_in(answer))

        self._ask(QueueDelete(self._queue, if_unused=if_unused, if_empty=if_empty), take)
