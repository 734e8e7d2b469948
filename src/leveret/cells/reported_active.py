"""The consumers of a queue of another cell with x-single-active-consumer, for the management API.

The home cell chooses the active consumer among those of all cells, and reports it (session/consumer_reports.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import SingleActive


class ReportedActive(SingleActive):
    __slots__ = ("_reported",)

    def __init__(self, consumers: Iterable[Consumer] = ()) -> None:
        self._reported: Consumer | None = None
        super().__init__(consumers)

    @property
    def active(self) -> Consumer | None:
        """None if it is in another cell, or while the link is down."""
        return self._reported

    def report(self, consumer: Consumer, active: bool) -> None:
        if active and any(each is consumer for each in self):  # it may have left meanwhile
            self._reported = consumer
        elif self._reported is consumer:
            self._reported = None

    def remove(self, consumer: Consumer) -> bool:
        self.report(consumer, active=False)
        return super().remove(consumer)
