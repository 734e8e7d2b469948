"""Who gets which message, where not every consumer may have every message: selectors and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.delivery.consumer import Consumer
from leveret.message import Message

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


class Selection:
    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue

    def deliver(self, budget: int) -> int:
        """Give consumers what they may have; how much of the budget is left."""
        raise NotImplementedError

    def let_go(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """These are in nobody's hands any more: settled, or about to come back."""
        raise NotImplementedError

    def left(self, consumer: Consumer) -> None:
        raise NotImplementedError


def select(queue: ClassicQueue) -> None:
    """The consumers of the queue have changed, or what it asks of them."""
    if queue.selection is None:
        queue.selection = Selection(queue)
