"""How much memory is too much: the mark above which publishers wait, and half of it, where queues page out.

Two readings are compared with the mark and the smaller one decides. The gauge counts every queue's view of a message,
so fan-out makes it too large; the process's own figure keeps what the allocator has not given back, so it may stay high
after the messages are gone. Each is an upper bound, hence their minimum is one too. Publishers are let go on once the
reading has fallen to 90 % of the mark, so that the alarm does not flutter.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.queues.surroundings import MemoryGauge

CALM = 0.9


class MemoryAlarm:
    def __init__(self, gauge: MemoryGauge, mark: int, resident: Callable[[], int | None]) -> None:
        self.shortage = 0  # above this, queues hold as little as they can
        self.mark = mark
        self.raised = False
        self._gauge = gauge
        self._resident = resident

    @property
    def mark(self) -> int:
        return self._mark

    @mark.setter
    def mark(self, mark: int) -> None:
        self._mark = mark
        self.shortage = mark // 2

    def check_shortage(self) -> bool:
        """True if it began just now."""
        gauge = self._gauge
        before, gauge.is_short = gauge.is_short, gauge.used > self.shortage * (CALM if gauge.is_short else 1)
        return gauge.is_short and not before

    def used(self) -> int:
        counted = self._gauge.used
        if counted <= self.mark * CALM:
            return counted  # spares asking the system as long as there is nothing to decide
        resident = self._resident()
        return counted if resident is None else min(counted, resident)

    def check(self) -> bool:
        """Read the gauge; True if the alarm was raised or calmed just now."""
        used = self.used()
        before = self.raised
        if used > self.mark:
            self.raised = True
        elif used <= self.mark * CALM:
            self.raised = False
        return self.raised != before
