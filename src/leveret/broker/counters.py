"""What exchanges and virtual hosts have seen since they were made; plain numbers that only grow."""

from __future__ import annotations

from leveret.backlog.counters import QueueCounters
from leveret.delivery.confirms import Confirms


class ExchangeCounters:
    __slots__ = ("published", "returned", "unroutable")

    def __init__(self) -> None:
        self.published = 0  # messages that came in
        self.unroutable = 0  # of these, reached no queue
        self.returned = 0  # of these, given back to their publisher

    @property
    def routed(self) -> int:
        """Of these, reached at least one queue."""
        return self.published - self.unroutable

    def absorb(self, other: ExchangeCounters) -> None:
        self.published += other.published
        self.unroutable += other.unroutable
        self.returned += other.returned


class VhostCounters:
    """What nobody else remembers: the coming and going of queues, and what those had counted that are gone."""

    __slots__ = (
        "confirm_wanted",
        "confirmed",
        "past_exchanges",
        "past_queues",
        "queues_created",
        "queues_declared",
        "queues_deleted",
    )

    def __init__(self) -> None:
        self.queues_declared = 0  # also those that were there already
        self.queues_created = 0
        self.queues_deleted = 0
        self.past_queues = QueueCounters()
        self.past_exchanges = ExchangeCounters()
        self.confirm_wanted = 0  # publishes on channels that are closed and had confirms
        self.confirmed = 0  # of these, answered

    def queue_gone(self, counters: QueueCounters) -> None:
        self.queues_deleted += 1
        self.past_queues.absorb(counters)

    def channel_gone(self, confirms: Confirms) -> None:
        self.confirm_wanted += confirms.issued
        self.confirmed += confirms.issued - confirms.outstanding
