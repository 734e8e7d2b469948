"""The context of all endpoints of the management API: the broker, its settings, statistics, and parts of the node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leveret.api.browse_limit import BrowseSlots
from leveret.api.policy_matches import PolicyMatches
from leveret.broker.broker import Broker
from leveret.clock import Clock
from leveret.config import Settings
from leveret.http.stream_listeners import StreamListeners
from leveret.http.workers import InWorker
from leveret.pipeline.spark_queries import SparkQueries
from leveret.server.admission import Admission
from leveret.server.loop_watch import LoopWatch
from leveret.stats.stats import Stats


@dataclass(slots=True)
class ApiContext:
    broker: Broker
    settings: Settings  # replaced when the node reloads them
    in_worker: InWorker
    stats: Stats
    endpoints: Mapping[str, str]  # URLs of the node's listeners, by protocol
    spark_queries: SparkQueries
    listeners: StreamListeners  # for the protocols inside WebSockets and tunnels
    loop_watch: LoopWatch
    looks: BrowseSlots = field(default_factory=BrowseSlots)
    policy_matches: PolicyMatches = field(default_factory=PolicyMatches)

    @property
    def admission(self) -> Admission:
        """The admission of connections of all protocols."""
        return self.listeners.admission

    @property
    def clock(self) -> Clock:
        return self.broker.clock
