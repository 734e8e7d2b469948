"""What every endpoint of the management is given: the broker, its settings, what was counted, threads for long work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from leveret.broker.broker import Broker
from leveret.clock import Clock
from leveret.config import Settings
from leveret.management.look_places import LookPlaces
from leveret.management.policy_matches import PolicyMatches
from leveret.management.stats import Stats
from leveret.management.stream_doors import StreamDoors
from leveret.server.admission import Admission

T = TypeVar("T")


class InWorker(Protocol):
    def __call__(self, job: Callable[[], T]) -> Awaitable[T]:
        """The result of ``job``, run in a thread."""


class Office:
    def __init__(self, broker: Broker, settings: Settings, in_worker: InWorker, stats: Stats, **facts: Any) -> None:
        self.broker = broker
        self.settings = settings
        self.in_worker = in_worker
        self.stats = stats
        self.looks = LookPlaces()
        self.policy_matches = PolicyMatches()
        self.facts = facts  # what the node tells of itself: endpoints, the data directory, when it started

    @property
    def admission(self) -> Admission:
        """Of the connections of all protocols."""
        doors: StreamDoors = self.facts["doors"]
        return doors.admission

    @property
    def clock(self) -> Clock:
        return self.broker.clock
