"""A log that keeps nothing and grants receipts only when the test does: for tests of what waits for which receipt.

Receipts are 1, 2, 3, ..., given out where the journal gives them out: for appended runs, recorded changes, promises and
groups in which something happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from leveret.errors import ResourceFault
from leveret.message import Message
from leveret.store.definitions import Change
from leveret.store.log import Placement
from leveret.store.memory_log import MemoryLog


class ReceiptLog(MemoryLog):
    def __init__(self) -> None:
        super().__init__()
        self.granted = 0
        self.changes: list[Change] = []
        self.appends: list[tuple[list[Message], list[Placement]]] = []
        self.is_failed = False
        self._happened = 0
        self._in_group = False

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        self.appends.append((list(messages), list(placements)))
        self._happened += 1
        return self._issue()

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        self._happened += 1

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        self._happened += 1

    def record(self, change: Change) -> int:
        if self.is_failed:
            raise ResourceFault("the store is read-only since the disk failed: restart the broker")
        self.changes.append(change)
        return self._issue()

    def promise(self) -> int:
        return self._issue()

    @contextmanager
    def group(self) -> Iterator[None]:
        before = self._happened
        yield
        if self._happened > before:
            self._issue()

    def _issue(self) -> int:
        self.issued += 1
        return self.issued

    # ---- what tests do

    def grant(self, upto: int | None = None) -> None:
        """Everything so far, or up to a receipt, is on disk."""
        self.granted = self.issued if upto is None else upto
        self.listener.granted(self.granted)

    def lose(self) -> None:
        """The disk fails: what is not granted never will be, and nothing more can be recorded."""
        self.is_failed = True
        self.listener.lost()
