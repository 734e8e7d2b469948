"""The contract of a message log: where queues and definitions write what must survive the process.

Receipts are increasing numbers; ``issued`` is the last one. ``append`` and ``record`` return the receipt of their
write; 0 means there is nothing to wait for. Nothing may be confirmed to a client before its receipt is granted to the
``listener``.

Sequences are per (queue, lane) and never reused; queue ids are never reused. All is called on the broker's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from leveret.message import Message
from leveret.store.definitions import Change
from leveret.store.stream_log import StreamLog

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


class LogListener(Protocol):
    """Learns which receipts were granted; the broker."""

    def granted(self, receipt: int) -> None:
        """Once per batch: this receipt and all lower ones."""

    def granted_early(self, receipts: set[int]) -> None:
        """Out of order: these messages were settled before they had to be written, so none of them can be missed."""

    def lost(self) -> None:
        """Everything that is not granted yet never will be."""

    @property
    def is_awaiting(self) -> bool:
        """Whether something waits for a receipt. If not, it can be granted a moment later."""


class NoListener:
    def granted(self, receipt: int) -> None:
        pass

    def granted_early(self, receipts: set[int]) -> None:
        pass

    def lost(self) -> None:
        pass

    @property
    def is_awaiting(self) -> bool:
        return True


class Log(Protocol):
    issued: int
    listener: LogListener
    streams: StreamLog

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        """Write each message once, with its places in all queues. After a crash: all places or, ungranted, none.

        Without ``synced`` it is granted once the operating system has it: it survives a crash of the broker, not of the
        machine.
        """

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        """These are settled. Lazy: a crash may bring them back, marked redelivered."""

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        """These came back to their queue; ``tries`` deliveries have been counted. Lazy."""

    def forget(self, queue: int) -> None:
        """The queue is deleted. Its messages do not come back once the change that deletes it is granted."""

    def record(self, change: Change) -> int:
        """Write a change of the definitions."""

    def promise(self) -> int:
        """A receipt for all that was settled so far: no crash brings it back once this is granted."""

    def group(self) -> AbstractContextManager[None]:
        """Appends, settles and returns inside are atomic: after a crash, all of them exist or none."""

    def flush(self) -> None:
        """End of a tick: hand what was gathered to the disk."""
