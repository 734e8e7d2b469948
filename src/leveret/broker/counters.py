"""Counters of exchanges and virtual hosts since they were created. They only grow."""

from __future__ import annotations

from leveret.backlog.counters import QueueCounters
from leveret.delivery.confirms import Confirms


class ExchangeCounters:
    __slots__ = ("published", "returned", "unroutable")

    def __init__(self) -> None:
        self.published = 0  # messages
        self.unroutable = 0  # of the published messages: routed to no queue
        self.returned = 0  # of the published messages: returned to the publisher

    @property
    def routed(self) -> int:
        """Of the published messages: routed to at least one queue."""
        return self.published - self.unroutable

    def absorb(self, other: ExchangeCounters) -> None:
        self.published += other.published
        self.unroutable += other.unroutable
        self.returned += other.returned


class VhostCounters:
    """Queues declared, created and deleted, and the totals of deleted queues and exchanges, and of closed channels and
    connections."""

    __slots__ = (
        "confirm_wanted",
        "confirmed",
        "past_exchanges",
        "past_queues",
        "past_received",
        "past_sent",
        "queues_created",
        "queues_declared",
        "queues_deleted",
    )

    def __init__(self) -> None:
        self.queues_declared = 0  # including queues that already existed
        self.queues_created = 0
        self.queues_deleted = 0
        self.past_queues = QueueCounters()
        self.past_exchanges = ExchangeCounters()
        self.past_received = self.past_sent = 0  # bytes of closed connections
        self.confirm_wanted = 0  # publishes on closed channels in confirm mode
        self.confirmed = 0  # of these publishes: confirmed or rejected

    def queue_gone(self, counters: QueueCounters) -> None:
        self.queues_deleted += 1
        self.past_queues.absorb(counters)

    def connection_gone(self, received: int, sent: int) -> None:
        self.past_received += received
        self.past_sent += sent

    def channel_gone(self, confirms: Confirms) -> None:
        self.confirm_wanted += confirms.issued
        self.confirmed += confirms.issued - confirms.outstanding
