"""Messages of a queue that are on their way to queues of other cells, such as dead letters.

They have left their lanes, and keep their places in the queue until the other cell has them (broker/remote_writes.py).
A cell that is away for long must not fill the memory with them. So while too many are on their way, the queue is
frozen: nothing expires, is dropped or is delivered, until half of them have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.delivery.consumer_ring import BY_DEPARTURES
from leveret.logs import LogInterval, get_log

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

MOST_CREDITS = 20_000  # messages, of which large ones count for several (delivery.receipts.CREDIT)
BETWEEN_LINES = 60.0  # seconds between two log lines about a queue


class Departures:
    __slots__ = ("_credits", "_lines", "_queue", "_waiting")

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._credits = 0
        self._waiting: list[Callable[[], None]] = []
        self._lines = LogInterval(BETWEEN_LINES)

    @property
    def are_full(self) -> bool:
        return bool(self._queue.frozen & BY_DEPARTURES)

    @property
    def is_empty(self) -> bool:
        return not self._credits

    def begin(self, credits: int) -> None:
        self._credits += credits
        if self._credits < MOST_CREDITS or self.are_full:
            return
        queue = self._queue
        queue.frozen |= BY_DEPARTURES
        queue.consumers.paused |= BY_DEPARTURES
        if self._lines.is_due(queue.context.now()):
            get_log("queues").warning(
                "queue is paused: too many of its messages are on their way to another cell",
                queue=queue.name,
                vhost=queue.vhost,
            )

    def end(self, credits: int) -> None:
        self._credits -= credits
        if not self.are_full or self._credits > MOST_CREDITS // 2:
            return
        queue = self._queue
        queue.frozen &= ~BY_DEPARTURES
        queue.consumers.paused &= ~BY_DEPARTURES
        queue.touch()
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def when_possible(self, call: Callable[[], None]) -> bool:
        """Call back when more messages may depart; False if they may now."""
        if self.are_full:
            self._waiting.append(call)
        return self.are_full
