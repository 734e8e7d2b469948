"""Prometheus metrics in the text format, with the names of RabbitMQ's Prometheus plugin.

    /metrics             aggregated over all objects
    /metrics/per-object  one series for each queue, connection and channel
    /metrics/detailed    the same by family: ?family=queue_coarse_metrics&family=connection_metrics&vhost=orders

The number of series is limited: the first MOST objects of each kind, in order of creation, have series of their own, so
that graphs stay continuous; the others are summed up under empty labels, and a metric counts them.

Values are read on the event loop in time slices; the text is made in a thread. Requests from localhost need no login,
as Prometheus expects; others need a user with the tag monitoring, unless the setting metrics_auth is off.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.connection import channel_name
from leveret.api.views.message_age import oldest_age
from leveret.api.views.node import RABBITMQ_VERSION, cluster_name
from leveret.broker.broker import Broker
from leveret.broker.message_sizes import SIZES
from leveret.http.errors import BadRequest
from leveret.http.login import USER
from leveret.http.roles import MONITORING, refuse_unless_role
from leveret.http.time_slice import TimeSlice
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.discard_counters import REASONS
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.cluster_metrics import cluster_metrics
from leveret.stats.exposition_text import Metric, Sample, histogram, summary, with_labels, written
from leveret.stats.lag_metrics import (
    OF_READERS,
    OF_STREAMS,
    OTHER_READERS,
    lags_of_readers,
    lags_of_streams,
)
from leveret.stats.metric_families import (
    ALARMS,
    AMQP,
    CHURN,
    GAUGE,
    GLOBAL,
    IO,
    MACHINE,
    OBJECTS,
    OF_CHANNELS,
    OF_CONNECTIONS,
    OF_QUEUES,
    OWN,
    RABBITMQ_GROUPS,
    SUMS,
    UNTYPED,
    Family,
    Labels,
    NodeFamily,
    ObjectFamily,
    Value,
    family_of,
    object_families,
)
from leveret.stats.query_metrics import (
    OF_OUTCOMES,
    OF_SPARK_QUERIES,
    OTHER_OUTCOMES,
    OTHER_QUERIES,
    measured_queries,
    outcome_rows,
    query_totals,
)
from leveret.stats.totals import open_connections, own_queues
from leveret.version import VERSION

LONGEST_SHOWN = 40  # characters of an unknown family in an error
MOST = 1_000  # queues, connections, channels with series of their own
TEXT = "text/plain; version=0.0.4; charset=utf-8"
PLAIN, DETAILED, OURS = "rabbitmq_", "rabbitmq_detailed_", "leveret_"
OTHER_QUEUES: Labels = (("vhost", ""), ("queue", ""))
OF_NODE = (*CHURN, *MACHINE, *IO)
CLASSIC: Labels = (("queue_type", "rabbit_classic_queue"),)

T = TypeVar("T")


def routes(context: ApiContext) -> list[Route]:
    exposition = Exposition(context)
    return [
        Route("/metrics", exposition.sums),
        Route("/metrics/per-object", exposition.per_object),
        Route("/metrics/detailed", exposition.detailed),
    ]


class Kind(NamedTuple, Generic[T]):
    """All objects of one kind, each with its labels, and the labels of the sum of those beyond the limit."""

    families: Sequence[ObjectFamily[T]]
    objects: Iterable[tuple[T, Labels]]
    others: Labels


class Exposition:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        age = object_families("queue_metrics", {"queue_oldest_message_age_seconds": self._oldest_age})
        self._of_queues = [*OF_QUEUES, *(each._replace(combine=max, is_ours=True) for each in age)]
        kinds = (self._of_queues, OF_CONNECTIONS, OF_CHANNELS, OF_STREAMS, OF_READERS, OF_SPARK_QUERIES, OF_OUTCOMES)
        self._groups = {each.group for each in OF_NODE} | {each.group for families in kinds for each in families}

    async def sums(self, request: Request) -> Response:
        _refuse_unless_monitoring(request)
        known = await self._known()
        metrics = [*self._identity("aggregated", PLAIN), *self._node(known, SUMS), *self._spark_queries()]
        return await self._answer(metrics)

    async def per_object(self, request: Request) -> Response:
        _refuse_unless_monitoring(request)
        known = await self._known()
        metrics = [*self._identity("per-object", PLAIN), *self._node(known)]
        return await self._answer(metrics + await self._objects(None, None, PLAIN))

    async def detailed(self, request: Request) -> Response:
        """Families that neither RabbitMQ nor Leveret has are refused: they are misspelt."""
        _refuse_unless_monitoring(request)
        groups = frozenset(request.query_params.getlist("family"))
        self._refuse_unknown(groups)
        vhosts = frozenset(request.query_params.getlist("vhost")) or None
        chosen = [each for each in OF_NODE if each.group in groups]
        metrics = self._identity("detailed", PLAIN)
        if chosen:
            metrics += _of_node(chosen, await self._known(), DETAILED)
        return await self._answer(metrics + await self._objects(groups, vhosts, DETAILED))

    def _refuse_unknown(self, groups: frozenset[str]) -> None:
        unknown = sorted(groups - self._groups - RABBITMQ_GROUPS)
        if unknown:
            raise BadRequest(
                f"unknown metric family '{unknown[0][:LONGEST_SHOWN]}': use one of {', '.join(sorted(self._groups))}"
            )

    async def _answer(self, metrics: list[Metric]) -> Response:
        body = await self._context.in_worker(lambda: written(metrics))
        return Response(body, media_type=None, headers={"Content-Type": TEXT})

    # ---- the node

    async def _known(self) -> dict[str, Value]:
        """The values of the node's families, by key."""
        context, broker, stats = self._context, self._context.broker, self._context.stats
        reading = (await self._context.measures.read())._asdict()
        totals = stats.totals()
        known: dict[str, Any] = stats.node_row(totals) | reading
        known["messages"] = known["messages_ready"] + known["messages_unacknowledged"]
        known["deliver_get"] = known["deliver"] + known["deliver_no_ack"] + known["get"] + known["get_no_ack"]
        known["unconfirmed"] = known["received_confirm"] - known["confirm"]
        known |= {name: totals.sum_of(name) for name in ("connections", "channels", "consumers", "queues")}
        known["publishers"] = totals.publishers
        known["queue_memory"], known["memory_high_watermark"] = broker.gauge.used, broker.memory.high_watermark
        known["uptime"] = context.clock.now() - stats.started
        known["began"] = context.clock.wall() - known["uptime"]
        known |= {f"alarm_{name}": int(name in broker.alarms) for name in ("memory", "disk", "files", "store")}
        known |= self._disk()
        known["oldest_message_age"] = await self._oldest()
        known["routing_refused"] = broker.routing_work.refused
        known["longest_turn"] = round(context.loop_watch.longest, 4)
        admission = context.admission
        known["admitted_sockets"], known["admitted_max_sockets"] = admission.sockets, admission.most_sockets
        known["unauthenticated"] = admission.unauthenticated.taken + admission.tunnels.taken
        known["evicted"], known["refused"] = admission.evicted, admission.refused
        return {key: value for key, value in known.items() if value is not None}

    def _disk(self) -> dict[str, Value]:
        """Without a store there are no such values."""
        store = self._context.store
        if store is None or store.writer is None:
            return {}
        writer = store.writer
        return {
            "reads": store.disk.reads,
            "read_bytes": store.disk.read_bytes,
            "read_seconds": round(store.disk.read_seconds, 6),
            "writes": writer.writes,
            "written_bytes": writer.written_bytes,
            "write_seconds": round(writer.write_seconds, 6),
            "syncs": writer.syncs,
            "sync_seconds": round(writer.sync_seconds, 6),
        }

    async def _oldest(self) -> float:
        """Streams keep old messages on purpose."""
        oldest, time_slice = 0.0, TimeSlice()
        for queue, _ in _queues(self._context.broker, None):
            if queue.ready and queue.stream is None:
                oldest = max(oldest, self._oldest_age(queue))
            await time_slice.pause_if_over()
        return oldest

    def _oldest_age(self, queue: DeclaredQueue) -> float:
        return round(oldest_age(self._context.stats, queue) or 0.0, 3)

    def _node(self, known: dict[str, Value], sums: Sequence[NodeFamily] = ()) -> list[Metric]:
        sizes, watch = self._context.broker.message_sizes, self._context.loop_watch
        return [
            *_of_node((*ALARMS, *OF_NODE, *OBJECTS, *sums, *GLOBAL), known, PLAIN),
            *self._discards(),
            *with_labels(histogram(PLAIN, "message_size_bytes", SIZES, sizes.cumulative(), sizes.total()), AMQP),
            *_of_node(OWN, known, OURS),
            *summary(OURS, "loop_lag_seconds", round(watch.lag, 6), watch.measurements),
            *self._cluster(),
            *_process(known),
        ]

    def _discards(self) -> list[Metric]:
        """By reason, and by RabbitMQ's names for whether the queue had a dead letter exchange."""
        counters = self._context.broker.discards
        strategies = {"at_most_once": counters.dead_lettered, "disabled": counters.dropped}
        return [
            (
                PLAIN,
                family_of(f"global_messages_dead_lettered_{reason}_total"),
                [
                    ((*CLASSIC, ("dead_letter_strategy", strategy)), numbers[reason])
                    for strategy, numbers in strategies.items()
                ],
            )
            for reason in REASONS
        ]

    def _spark_queries(self) -> list[Metric]:
        context = self._context
        return [(OURS, *metric) for metric in query_totals(context.broker, context.spark_queries)]

    def _cluster(self) -> list[Metric]:
        cell = self._context.cluster
        return [] if cell is None else [(OURS, *metric) for metric in cluster_metrics(cell.status())]

    def _identity(self, endpoint: str, prefix: str) -> list[Metric]:
        node = self._context.broker.node_name
        build = (
            ("rabbitmq_version", RABBITMQ_VERSION),
            ("prometheus_plugin_version", RABBITMQ_VERSION),
            ("prometheus_client_version", VERSION),
            ("product_name", "Leveret"),
            ("product_version", VERSION),
        )
        identity = (
            ("rabbitmq_node", node),
            ("rabbitmq_cluster", cluster_name(self._context)),
            ("rabbitmq_cluster_permanent_id", node),
            ("rabbitmq_endpoint", endpoint),
        )
        return [
            (prefix, Family("build_info", UNTYPED, "Versions of the broker"), [(build, 1)]),
            (prefix, Family("identity_info", UNTYPED, "Names of the node and its cluster"), [(identity, 1)]),
        ]

    # ---- objects

    async def _objects(self, groups: frozenset[str] | None, vhosts: frozenset[str] | None, prefix: str) -> list[Metric]:
        broker = self._context.broker
        connections = [each for each in open_connections(broker) if vhosts is None or each.vhost.name in vhosts]
        queues = Kind(_chosen(self._of_queues, groups), _queues(broker, vhosts), OTHER_QUEUES)
        peers = Kind(
            _chosen(OF_CONNECTIONS, groups),
            ((each, (("connection", each.name),)) for each in connections),
            (("connection", ""),),
        )
        channels = Kind(_chosen(OF_CHANNELS, groups), _channels(connections), (("channel", ""),))
        return [
            *await _expose(queues, "queues", prefix),
            *await _expose(peers, "connections", prefix),
            *await _expose(channels, "channels", prefix),
            *await self._lags(groups, vhosts, prefix),
        ]

    async def _lags(self, groups: frozenset[str] | None, vhosts: frozenset[str] | None, prefix: str) -> list[Metric]:
        broker, known = self._context.broker, self._context.spark_queries
        streams = Kind(_chosen(OF_STREAMS, groups), lags_of_streams(broker, vhosts), OTHER_QUEUES)
        readers = Kind(_chosen(OF_READERS, groups), lags_of_readers(broker, vhosts), OTHER_READERS)
        queries = Kind(_chosen(OF_SPARK_QUERIES, groups), measured_queries(broker, known, vhosts), OTHER_QUERIES)
        outcomes = Kind(_chosen(OF_OUTCOMES, groups), outcome_rows(broker, known, vhosts), OTHER_OUTCOMES)
        return [
            *await _expose(streams, "streams", prefix),
            *await _expose(readers, "stream_readers", OURS),
            *await _expose(queries, "spark_queries", OURS),
            *await _expose(outcomes, "spark_query_outcomes", OURS),
        ]


def _queues(broker: Broker, vhosts: frozenset[str] | None) -> Iterator[tuple[DeclaredQueue, Labels]]:
    """The queues at the time when the iteration reaches their virtual host."""
    for vhost in list(broker.vhosts.values()):
        if vhosts is None or vhost.name in vhosts:
            for queue in own_queues(vhost):
                yield queue, (("vhost", vhost.name), ("queue", queue.name))


def _channels(connections: Iterable[Connection]) -> Iterator[tuple[Channel, Labels]]:
    for connection in connections:
        for channel in list(connection.channels.values()):
            yield channel, (("channel", channel_name(channel)),)


def _chosen(families: Sequence[ObjectFamily[T]], groups: frozenset[str] | None) -> list[ObjectFamily[T]]:
    return [each for each in families if groups is None or each.group in groups]


async def _expose(kind: Kind[T], name: str, prefix: str) -> list[Metric]:
    if not kind.families:
        return []
    samples: list[list[Sample]] = [[] for _ in kind.families]
    others: list[Value] = [0] * len(kind.families)
    number, time_slice = 0, TimeSlice()
    for number, (thing, labels) in enumerate(kind.objects, 1):
        row = [each.read(thing) for each in kind.families]
        if number <= MOST:
            for found, value in zip(samples, row, strict=True):
                if value is not None:
                    found.append((labels, value))
        else:
            others = [
                one if other is None else each.combine(one, other)
                for each, one, other in zip(kind.families, others, row, strict=True)
            ]
        await time_slice.pause_if_over()
    if number > MOST:
        for place, value in enumerate(others):
            samples[place].append((kind.others, value))
    left_out = Family(
        f"metrics_{name}_left_out",
        GAUGE,
        f"Number of {name} without time series of their own: summed up under empty labels",
    )
    return [
        *(
            (OURS if each.is_ours else prefix, each.family, found)
            for each, found in zip(kind.families, samples, strict=True)
        ),
        (OURS, left_out, [((), max(number - MOST, 0))]),
    ]


def _refuse_unless_monitoring(request: Request) -> None:
    """Requests without a login have no user: http/app.py has let them through."""
    if USER in request.scope:
        refuse_unless_role(request, MONITORING)


def _of_node(families: Iterable[NodeFamily], known: dict[str, Value], prefix: str) -> list[Metric]:
    return [(prefix, each.family, [(each.labels, known[each.key])]) for each in families if each.key in known]


def _process(known: dict[str, Value]) -> list[Metric]:
    """The metrics that every Prometheus client library exposes, by their usual names."""
    values = {
        "process_resident_memory_bytes": known.get("memory"),
        "process_open_fds": known.get("files"),
        "process_max_fds": known.get("most_files"),
        "process_start_time_seconds": known.get("began"),
        "process_cpu_seconds_total": time.process_time(),
    }
    metrics: list[Metric] = [
        ("", family_of(name), [((), value)]) for name, value in values.items() if value is not None
    ]
    python = Family("python_info", GAUGE, "Python version that runs the broker")
    return [*metrics, ("", python, [((("version", platform.python_version()),), 1)])]
