"""Prometheus metrics as tables: RabbitMQ's names and help texts, and where each value is read.

A *group* is a family of RabbitMQ's detailed endpoint: metrics that are requested together. Names are without their
prefix, which is ``rabbitmq_``, or ``rabbitmq_detailed_`` at that endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Generic, NamedTuple, TypeVar

from leveret.delivery.consumer import UNLIMITED
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.metric_help import HELP
from leveret.stats.totals import CHANNEL_COUNTS, channel_row

T = TypeVar("T")
Labels = Sequence[tuple[str, str]]
Value = int | float

GAUGE, COUNTER, UNTYPED = "gauge", "counter", "untyped"
AMQP: Labels = (("protocol", "amqp091"),)


class Family(NamedTuple):
    name: str
    kind: str
    help: str


class ObjectFamily(NamedTuple, Generic[T]):
    """A metric of queues, connections or channels, and the function that reads it from one of them, or None.

    ``combine`` makes one value of those of two objects, for objects without series of their own. ``is_ours``: RabbitMQ
    has no such metric.
    """

    group: str
    family: Family
    read: Callable[[T], Value | None]
    combine: Callable[[Value, Value], Value] = add
    is_ours: bool = False


class NodeFamily(NamedTuple):
    """A metric of the whole node; ``key`` names its value in the readings of the node (api/metrics.py)."""

    group: str
    family: Family
    key: str
    labels: Labels = ()


def family_of(name: str) -> Family:
    kind = UNTYPED if name.startswith("alarms_") else COUNTER if name.endswith("_total") else GAUGE
    return Family(name, kind, HELP[name])


def object_families(group: str, readers: Mapping[str, Callable[[T], Value | None]]) -> list[ObjectFamily[T]]:
    return [ObjectFamily(group, family_of(name), read) for name, read in readers.items()]


def _paged(queue: DeclaredQueue) -> int:
    return 0 if queue.backlog is None else sum([lane.paged for lane in queue.backlog.lanes])


def _paged_bytes(queue: DeclaredQueue) -> int:
    return 0 if queue.backlog is None or queue.backlog.pager is None else queue.backlog.pager.bytes


OF_QUEUES: list[ObjectFamily[DeclaredQueue]] = [
    *object_families(
        "queue_coarse_metrics",
        {
            "queue_messages_ready": lambda queue: queue.ready,
            "queue_messages_unacked": lambda queue: queue.unacked,
            "queue_messages": lambda queue: queue.ready + queue.unacked,
        },
    ),
    *object_families("queue_consumer_count", {"queue_consumers": lambda queue: len(queue.consumers)}),
    *object_families(
        "queue_metrics",
        {
            "queue_process_memory_bytes": lambda queue: queue.accounted,
            "queue_messages_bytes": lambda queue: queue.total_bytes,
            "queue_messages_ready_bytes": lambda queue: queue.ready_bytes,
            "queue_messages_unacked_bytes": lambda queue: queue.held,
            "queue_messages_paged_out": _paged,
            "queue_messages_paged_out_bytes": _paged_bytes,
        },
    ),
    *object_families(
        "queue_delivery_metrics",
        {
            "queue_get_total": lambda queue: queue.counters.got_no_ack,
            "queue_get_ack_total": lambda queue: queue.counters.got - queue.counters.got_no_ack,
            "queue_get_empty_total": lambda queue: queue.counters.got_nothing,
            "queue_messages_delivered_total": lambda queue: queue.counters.delivered_no_ack,
            "queue_messages_delivered_ack_total": lambda queue: (
                queue.counters.delivered - queue.counters.delivered_no_ack
            ),
            "queue_messages_redelivered_total": lambda queue: queue.counters.redelivered,
            "queue_messages_acked_total": lambda queue: queue.counters.acked,
        },
    ),
    *object_families(
        "channel_queue_exchange_metrics",
        {"queue_messages_published_total": lambda queue: queue.counters.received},
    ),
]

OF_CONNECTIONS: list[ObjectFamily[Connection]] = [
    *object_families(
        "connection_coarse_metrics",
        {
            "connection_incoming_bytes_total": lambda connection: connection.peer.received,
            "connection_outgoing_bytes_total": lambda connection: connection.peer.sent,
        },
    ),
    *object_families(
        "connection_metrics",
        {
            "connection_incoming_packets_total": lambda connection: connection.peer.reads,
            "connection_outgoing_packets_total": lambda connection: connection.peer.writes,
            "connection_channels": lambda connection: len(connection.channels),
        },
    ),
]


def _unconfirmed(channel: Channel) -> int:
    return 0 if channel.confirms is None else channel.confirms.outstanding


def _uncommitted(channel: Channel) -> int:
    return 0 if channel.tx is None else sum(len(held.run) for held in channel.tx.publishes)


def _shared_prefetch(channel: Channel) -> int:
    return 0 if channel.shared_limit >= UNLIMITED else channel.shared_limit


def _counted(column: str) -> Callable[[Channel], Value]:
    ((place,),) = [places for name, places in CHANNEL_COUNTS if name == column]
    return lambda channel: channel_row(channel)[place]


# A channel does not count deliveries by acknowledgement mode, so it has no metrics for them; queues count them.
OF_CHANNELS: list[ObjectFamily[Channel]] = [
    *object_families(
        "channel_metrics",
        {
            "channel_consumers": lambda channel: len(channel.consumers),
            "channel_messages_unacked": lambda channel: len(channel.unacked),
            "channel_messages_unconfirmed": _unconfirmed,
            "channel_messages_uncommitted": _uncommitted,
            "consumer_prefetch": lambda channel: channel.prefetch,
            "channel_prefetch": _shared_prefetch,
        },
    ),
    *object_families(
        "channel_exchange_metrics",
        {
            "channel_messages_published_total": _counted("publish"),
            "channel_messages_confirmed_total": _counted("confirm"),
            "channel_messages_unroutable_returned_total": _counted("return_unroutable"),
        },
    ),
]


def _node_families(group: str, keys: Mapping[str, str], labels: Labels = ()) -> list[NodeFamily]:
    return [NodeFamily(group, family_of(name), key, labels) for name, key in keys.items()]


CHURN = _node_families(
    "connection_churn_metrics",
    {
        "connections_opened_total": "connection_created",
        "connections_closed_total": "connection_closed",
        "channels_opened_total": "channel_created",
        "channels_closed_total": "channel_closed",
        "queues_declared_total": "queue_declared",
        "queues_created_total": "queue_created",
        "queues_deleted_total": "queue_deleted",
    },
)

MACHINE = _node_families(
    "node_coarse_metrics",
    {
        "process_open_fds": "files",
        "process_open_tcp_sockets": "sockets_used",
        "process_resident_memory_bytes": "memory",
        "disk_space_available_bytes": "disk_free",
    },
) + _node_families(
    "node_metrics",
    {
        "process_max_fds": "most_files",
        "process_max_tcp_sockets": "most_files",
        "resident_memory_limit_bytes": "memory_high_watermark",
        "disk_space_available_limit_bytes": "disk_free_limit",
        "erlang_uptime_seconds": "uptime",
    },
)

IO = _node_families(
    "node_persister_metrics",
    {
        "io_read_ops_total": "reads",
        "io_read_bytes_total": "read_bytes",
        "io_read_time_seconds_total": "read_seconds",
        "io_write_ops_total": "writes",
        "io_write_bytes_total": "written_bytes",
        "io_write_time_seconds_total": "write_seconds",
        "io_sync_ops_total": "syncs",
        "io_sync_time_seconds_total": "sync_seconds",
    },
)

ALARMS = _node_families(
    "alarms",
    {
        "alarms_memory_used_watermark": "alarm_memory",
        "alarms_free_disk_space_watermark": "alarm_disk",
        "alarms_file_descriptor_limit": "alarm_files",
    },
)

OBJECTS = _node_families(
    "objects",
    {
        "connections": "connections",
        "channels": "channels",
        "consumers": "consumers",
        "queues": "queues",
    },
)

SUMS = _node_families(
    "sums",
    {
        "queue_messages_ready": "messages_ready",
        "queue_messages_unacked": "messages_unacknowledged",
        "queue_messages": "messages",
        "queue_consumers": "consumers",
        "channel_consumers": "consumers",
        "queue_process_memory_bytes": "queue_memory",
        "queue_messages_published_total": "to_queues",
        "channel_messages_published_total": "publish",
        "channel_messages_confirmed_total": "confirm",
        "channel_messages_unconfirmed": "unconfirmed",
        "channel_messages_unroutable_returned_total": "return_unroutable",
        "channel_messages_unroutable_dropped_total": "drop_unroutable",
        "channel_messages_delivered_ack_total": "deliver",
        "channel_messages_delivered_total": "deliver_no_ack",
        "channel_messages_redelivered_total": "redeliver",
        "channel_messages_acked_total": "ack",
        "channel_get_ack_total": "get",
        "channel_get_total": "get_no_ack",
        "channel_get_empty_total": "get_empty",
        "connection_incoming_bytes_total": "recv_oct",
        "connection_outgoing_bytes_total": "send_oct",
    },
)

OWN = _node_families(
    "own",
    {
        "alarms_store_read_only": "alarm_store",
        "oldest_message_age_seconds": "oldest_message_age",
        "messages_routing_refused_total": "routing_refused",
        "loop_longest_turn_seconds": "longest_turn",
        "sockets": "admitted_sockets",
        "max_sockets": "admitted_max_sockets",
        "unauthenticated_connections": "unauthenticated",
        "connections_evicted_total": "evicted",
        "connections_refused_total": "refused",
    },
)

RABBITMQ_GROUPS = frozenset(
    {
        "auth_attempt_metrics",
        "auth_attempt_detailed_metrics",
        "channel_process_metrics",
        "channel_queue_metrics",
        "exchange_bindings",
        "exchange_names",
        "queue_exchange_metrics",
        "ra_metrics",
        "vhost_status",
    }
)
"""Families of RabbitMQ's detailed endpoint that have no metrics here. Scrape configurations ask for them."""

GLOBAL = _node_families(
    "global",
    {
        "global_messages_received_total": "publish",
        "global_messages_received_confirm_total": "received_confirm",
        "global_messages_routed_total": "to_queues",
        "global_messages_confirmed_total": "confirm",
        "global_messages_unroutable_returned_total": "return_unroutable",
        "global_messages_unroutable_dropped_total": "drop_unroutable",
        "global_messages_delivered_total": "deliver_get",
        "global_messages_delivered_consume_manual_ack_total": "deliver",
        "global_messages_delivered_consume_auto_ack_total": "deliver_no_ack",
        "global_messages_delivered_get_manual_ack_total": "get",
        "global_messages_delivered_get_auto_ack_total": "get_no_ack",
        "global_messages_get_empty_total": "get_empty",
        "global_messages_redelivered_total": "redeliver",
        "global_messages_acknowledged_total": "ack",
        "global_publishers": "publishers",
        "global_consumers": "consumers",
    },
    AMQP,
)
