"""A minimum size of batches: `minOffsetsPerTrigger`, for at most `maxTriggerDelay`."""

from __future__ import annotations

import time


class MinimumBatch:
    """As in Spark's Kafka source, the first batch of a run is not delayed."""

    def __init__(self, rows: int | None, longest_delay: float) -> None:
        """``longest_delay``: seconds."""
        self._rows = rows
        self._longest_delay = longest_delay
        self._last = float("-inf")

    @property
    def is_set(self) -> bool:
        return self._rows is not None

    def is_reached(self, waiting: int) -> bool:
        """Whether to start a batch with so many messages now. True restarts the delay."""
        if self._rows is None:
            return True
        now = time.monotonic()
        if waiting < self._rows and (waiting == 0 or now - self._last < self._longest_delay):
            return False
        self._last = now
        return True
