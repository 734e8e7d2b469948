"""The contract of a message log: where queues and definitions write what must outlive the process.

Receipts are numbers that only grow; ``issued`` is the last one given out. ``append`` and ``record`` give the receipt of
their write; 0 means there is nothing to wait for. When a receipt is granted, everything with a lower receipt is granted
too, and the log tells ``on_granted`` once per batch. Nothing may be confirmed to a client before its receipt is
granted. Some receipts come early, out of order, by ``on_early``: those messages were settled before they had to be
written, so nobody can miss them. ``on_lost`` says that everything not yet granted never will be.

Sequences are per (queue, lane) and never reused; queue ids are never reused. All is called on the broker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from leveret.message import Message
from leveret.store.definitions import Change

GRANTED = 0


class Placement(NamedTuple):
    """Where one queue put messages of a run: ``number`` consecutive sequences of one lane, in the run's order.

    In a queue of several lanes a message of the run belongs to the lane of its priority, at most ``highest``.
    """

    queue: int
    lane: int
    sequence: int
    number: int
    highest: int = 0


class Log(Protocol):
    issued: int
    on_granted: Callable[[int], None]
    on_early: Callable[[set[int]], None]
    on_lost: Callable[[], None]

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        """Write each message once, with its places in all queues. After a crash: all places or, ungranted, none.

        Without ``synced`` the operating system's word is enough: the message survives our death, not the machine's.
        """

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        """These are done with. Lazy: a crash may bring them back, marked redelivered."""

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        """These came back to their queue; ``tries`` deliveries have been counted. Lazy."""

    def forget(self, queue: int) -> None:
        """The queue is gone. Its messages stay away once the change that deletes it is granted."""

    def record(self, change: Change) -> int:
        """Write a change of the definitions."""

    def promise(self) -> int:
        """A receipt for all that was settled so far: no crash brings it back once this is granted."""

    def group(self) -> AbstractContextManager[None]:
        """What is appended, settled and returned inside is one whole: after a crash, all of it or nothing."""

    def flush(self) -> None:
        """The turn is over: hand what was gathered to the disk."""
