"""The log that keeps nothing: for transient queues, embedded brokers and tests. Grants every receipt at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leveret.message import Message
from leveret.store.log import GRANTED, Placement


class MemoryLog:
    def __init__(self) -> None:
        self.on_granted: Callable[[int], None] = lambda receipt: None

    def append(self, messages: Sequence[Message], placements: Sequence[Placement]) -> int:
        return GRANTED

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        pass

    def forget(self, queue: int) -> int:
        return GRANTED
