"""What an exchange has seen since it was made; plain numbers that only grow."""

from __future__ import annotations


class ExchangeCounters:
    __slots__ = ("published", "routed", "unroutable")

    def __init__(self) -> None:
        self.published = 0  # messages that came in
        self.routed = 0  # of these, reached at least one queue
        self.unroutable = 0  # of these, reached none
