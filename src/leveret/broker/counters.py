"""What an exchange has seen since it was made; plain numbers that only grow."""

from __future__ import annotations


class ExchangeCounters:
    __slots__ = ("published", "unroutable")

    def __init__(self) -> None:
        self.published = 0  # messages that came in
        self.unroutable = 0  # of these, reached no queue

    @property
    def routed(self) -> int:
        """Of these, reached at least one queue."""
        return self.published - self.unroutable
