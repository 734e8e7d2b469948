"""Rows that functions of ``foreachBatch`` have counted, by query and batch, for the listener of the same driver.

Spark's progress has only what Spark observed, not what such a function wrote. The function ends before Spark sends the
progress of its batch, so the listener finds the counts here. They are kept and not handed over, because a session can
have several listeners; without a listener, the oldest are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

MOST_BATCHES = 1_000


class RecordedCounts:
    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], Mapping[str, int]] = {}
        self._lock = threading.Lock()

    def note(self, query: str, batch: int, counts: Mapping[str, int]) -> None:
        """``query``: its id, which is that of its checkpoint; a repeated batch replaces its counts."""
        with self._lock:
            self._counts.pop((query, batch), None)
            self._counts[query, batch] = counts
            while len(self._counts) > MOST_BATCHES:
                del self._counts[next(iter(self._counts))]

    def of(self, query: str, batch: int) -> Mapping[str, int] | None:
        with self._lock:
            return self._counts.get((query, batch))


RECORDED = RecordedCounts()
