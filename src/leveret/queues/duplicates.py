"""x-message-deduplication: a message whose id the queue has seen is confirmed and dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.message import Message
from leveret.queues.options import DuplicateWindow

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


class Duplicates:
    __slots__ = ("_queue", "_window")

    def __init__(self, queue: ClassicQueue, window: DuplicateWindow) -> None:
        self._queue = queue
        self._window = window

    def resize(self, window: DuplicateWindow) -> None:
        self._window = window

    def has_seen(self, message: Message) -> bool:
        raise NotImplementedError

    def note(self, message: Message) -> None:
        raise NotImplementedError
