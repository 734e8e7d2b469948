"""A limit on the bytes of one request that wait for the disk."""

from __future__ import annotations

from collections import deque

from leveret.broker.broker import Broker

WINDOW_BYTES = 4 << 20
MOST_WINDOWS = 4  # that may wait for the disk


class WriteWindow:
    """Counts the bytes that one writer has appended and the disk has not stored yet: they are held in memory."""

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
