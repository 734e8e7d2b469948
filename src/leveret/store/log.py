"""The contract of a message log: where queues write what must outlive the process.

Receipts are numbers that only grow. ``append`` gives the receipt of its write; 0 means there is nothing to wait for.
When a receipt is granted, everything with a lower receipt is granted too, and the log tells ``on_granted`` once per
batch. Nothing may be confirmed to a client before its receipt is granted. Sequences are per (queue, lane) and never
reused; queue ids are never reused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from leveret.message import Message

GRANTED = 0


class Placement(NamedTuple):
    """Where one queue put messages of a run: ``number`` consecutive sequences of one lane, in the run's order."""

    queue: int
    lane: int
    sequence: int
    number: int


class Log(Protocol):
    on_granted: Callable[[int], None]

    def append(self, messages: Sequence[Message], placements: Sequence[Placement]) -> int:
        """Write each message once, with its places in all queues. After a crash: all places or, unsynced, none."""

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        """These are done with. Lazy: a crash may bring them back, marked redelivered."""

    def forget(self, queue: int) -> int:
        """A queue is gone or purged up to now: its messages never come back once the receipt is granted."""
