"""Waiting for the log without a coroutine: callbacks on receipts, and a limit on what may be ahead of the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from leveret.broker.broker import Broker

WINDOW_BYTES = 4 << 20
MOST_WINDOWS = 4  # that may wait for the disk


class Until:
    """Calls when a receipt is granted, or never will be (broker/registry.py: AwaitsReceipt)."""

    __slots__ = ("_call", "_lost", "_receipt")

    def __init__(self, receipt: int, call: Callable[[], None], lost: Callable[[], None]) -> None:
        self._receipt = receipt
        self._call = call
        self._lost = lost

    def granted(self, receipt: int) -> bool:
        if receipt < self._receipt:
            return True
        self._call()
        return False

    def granted_early(self, receipts: set[int]) -> None:
        """The grant of all follows soon."""

    def lost(self) -> None:
        self._lost()


def when_granted(broker: Broker, receipt: int, call: Callable[[], None], lost: Callable[[], None]) -> None:
    """At once if it is already."""
    if receipt <= broker.last_granted:
        call()
    elif broker.is_lost:
        lost()
    else:
        broker.awaiting[Until(receipt, call, lost)] = None
        broker.wake()


class Lead:
    """How far somebody who writes much is ahead of the disk. What waits for it is held in memory."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unmarked = 0  # bytes since the last mark
        self._marks: deque[int] = deque()  # receipts, each of one window

    def wrote(self, size: int) -> None:
        self._unmarked += size
        if self._unmarked >= WINDOW_BYTES:
            self._unmarked = 0
            self._marks.append(self._broker.log.issued)

    def too_long(self) -> int | None:
        """The receipt to wait for before more is written; None: go on."""
        while self._marks and self._marks[0] <= self._broker.last_granted:
            self._marks.popleft()
        return self._marks[0] if len(self._marks) >= MOST_WINDOWS else None
