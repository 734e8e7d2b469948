"""Counts of the messages that left queues without being consumed, by reason, since the start."""

from __future__ import annotations

from leveret.queues.options import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED

REASONS = (MAXLEN, EXPIRED, REJECTED, DELIVERY_LIMIT)


class DiscardCounters:
    """One for the whole broker: deleted queues still count."""

    __slots__ = ("dead_lettered", "dropped")

    def __init__(self) -> None:
        self.dead_lettered = dict.fromkeys(REASONS, 0)  # passed to a dead letter exchange
        self.dropped = dict.fromkeys(REASONS, 0)  # the queue has no dead letter exchange for them
