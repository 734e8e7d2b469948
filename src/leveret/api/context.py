"""The context of all endpoints of the management API: the broker, its settings, statistics, and parts of the node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leveret.api.browse_limit import BrowseSlots
from leveret.api.cluster_view import ClusterView
from leveret.api.node_measures import Measures
from leveret.api.policy_matches import PolicyMatches
from leveret.api.recent_log import RecentLog
from leveret.broker.broker import Broker
from leveret.clock import Clock
from leveret.config import Settings
from leveret.http.stream_listeners import StreamListeners
from leveret.http.workers import InWorker
from leveret.pipeline.spark_queries import SparkQueries
from leveret.server.admission import Admission
from leveret.server.loop_watch import LoopWatch
from leveret.stats.stats import Stats
from leveret.store.store import Store


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
    measures: Measures
    recent_log: RecentLog
    store: Store | None = None  # None: everything is in memory
    cluster: ClusterView | None = None  # the cell, if this node belongs to one
    looks: BrowseSlots = field(default_factory=BrowseSlots)
    policy_matches: PolicyMatches = field(default_factory=PolicyMatches)

    @property
    def admission(self) -> Admission:
        """The admission of connections of all protocols."""
        return self.listeners.admission

    @property
    def clock(self) -> Clock:
        return self.broker.clock
