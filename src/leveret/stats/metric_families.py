"""The metrics that Prometheus is given, as tables: RabbitMQ's names, a kind, one line of help, and where the value is.

A *group* is what RabbitMQ calls a family of its detailed endpoint: the metrics that are asked for together. Names stand
here without their prefix, which is ``rabbitmq_``, or ``rabbitmq_detailed_`` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from leveret.delivery.consumer import UNLIMITED
from leveret.queues.classic import ClassicQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.queue_bytes import ready_bytes, total_bytes
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
    """A metric of queues, connections or channels, and how to read it off one."""

    group: str
    family: Family
    read: Callable[[T], Value]


class NodeFamily(NamedTuple):
    """A metric of the whole node; ``key`` names its value in what the node knows (metrics.py)."""

    group: str
    family: Family
    key: str
    labels: Labels = ()


def _paged(queue: ClassicQueue) -> int:
    return sum([lane.paged for lane in queue.lanes])


def _paged_bytes(queue: ClassicQueue) -> int:
    return 0 if queue.pager is None else queue.pager.bytes


def _of_queues(
    group: str, rows: Iterable[tuple[str, str, str, Callable[[ClassicQueue], Value]]]
) -> list[ObjectFamily[ClassicQueue]]:
    return [ObjectFamily(group, Family(name, kind, help), read) for name, kind, help, read in rows]


OF_QUEUES: list[ObjectFamily[ClassicQueue]] = [
    *_of_queues(
        "queue_coarse_metrics",
        (
            ("queue_messages_ready", GAUGE, "Messages that wait for a consumer", lambda queue: queue.ready),
            ("queue_messages_unacked", GAUGE, "Messages in the hands of consumers", lambda queue: queue.unacked),
            ("queue_messages", GAUGE, "Messages, waiting or in hands", lambda queue: queue.ready + queue.unacked),
        ),
    ),
    *_of_queues(
        "queue_consumer_count",
        (("queue_consumers", GAUGE, "Consumers of queues", lambda queue: len(queue.consumers)),),
    ),
    *_of_queues(
        "queue_metrics",
        (
            ("queue_process_memory_bytes", GAUGE, "Memory that queues hold, about", lambda queue: queue.accounted),
            ("queue_messages_bytes", GAUGE, "Bytes of all messages", total_bytes),
            ("queue_messages_ready_bytes", GAUGE, "Bytes of those that wait for a consumer", ready_bytes),
            ("queue_messages_unacked_bytes", GAUGE, "Bytes of those in hands", lambda queue: queue.held),
            ("queue_messages_paged_out", GAUGE, "Messages that are on disk only", _paged),
            ("queue_messages_paged_out_bytes", GAUGE, "Bytes of those on disk only", _paged_bytes),
        ),
    ),
    *_of_queues(
        "queue_delivery_metrics",
        (
            ("queue_get_total", COUNTER, "Got by hand without acks", lambda queue: queue.counters.got_no_ack),
            (
                "queue_get_ack_total",
                COUNTER,
                "Got by hand, to be acked",
                lambda queue: queue.counters.got - queue.counters.got_no_ack,
            ),
            ("queue_get_empty_total", COUNTER, "Gets that found nothing", lambda queue: queue.counters.got_nothing),
            (
                "queue_messages_delivered_total",
                COUNTER,
                "Delivered without acks",
                lambda queue: queue.counters.delivered_no_ack,
            ),
            (
                "queue_messages_delivered_ack_total",
                COUNTER,
                "Delivered, to be acked",
                lambda queue: queue.counters.delivered - queue.counters.delivered_no_ack,
            ),
            ("queue_messages_redelivered_total", COUNTER, "Given again", lambda queue: queue.counters.redelivered),
            ("queue_messages_acked_total", COUNTER, "Acked by consumers", lambda queue: queue.counters.acked),
        ),
    ),
    *_of_queues(
        "channel_queue_exchange_metrics",
        (
            (
                "queue_messages_published_total",
                COUNTER,
                "Messages that came to queues",
                lambda queue: queue.counters.received,
            ),
        ),
    ),
]

OF_CONNECTIONS: list[ObjectFamily[Connection]] = [
    ObjectFamily(group, Family(name, kind, help), read)
    for group, name, kind, help, read in (
        (
            "connection_coarse_metrics",
            "connection_incoming_bytes_total",
            COUNTER,
            "Bytes that connections sent to us",
            lambda connection: connection.peer.received,
        ),
        (
            "connection_coarse_metrics",
            "connection_outgoing_bytes_total",
            COUNTER,
            "Bytes that we sent to connections",
            lambda connection: connection.peer.sent,
        ),
        (
            "connection_metrics",
            "connection_incoming_packets_total",
            COUNTER,
            "Reads from connections",
            lambda connection: connection.peer.reads,
        ),
        (
            "connection_metrics",
            "connection_outgoing_packets_total",
            COUNTER,
            "Writes to connections",
            lambda connection: connection.peer.writes,
        ),
        (
            "connection_metrics",
            "connection_channels",
            GAUGE,
            "Channels of connections",
            lambda connection: len(connection.channels),
        ),
    )
]


def _unconfirmed(channel: Channel) -> int:
    return 0 if channel.confirms is None else channel.confirms.outstanding


def _uncommitted(channel: Channel) -> int:
    return 0 if channel.tx is None else sum(len(held.run) for held in channel.tx.publishes)


def _shared_prefetch(channel: Channel) -> int:
    return 0 if channel.shared_limit >= UNLIMITED else channel.shared_limit


def _counted(column: str) -> Callable[[Channel], Value]:
    """What a channel delivered is not counted by the way it did, so it has no metrics: queues count that."""
    ((place,),) = [places for name, places in CHANNEL_COUNTS if name == column]
    return lambda channel: channel_row(channel)[place]


OF_CHANNELS: list[ObjectFamily[Channel]] = [
    *(
        ObjectFamily("channel_metrics", Family(name, GAUGE, help), read)
        for name, help, read in (
            ("channel_consumers", "Consumers on channels", lambda channel: len(channel.consumers)),
            ("channel_messages_unacked", "Given out on channels, not settled", lambda channel: len(channel.unacked)),
            ("channel_messages_unconfirmed", "Published on channels, not confirmed", _unconfirmed),
            ("channel_messages_uncommitted", "Published in transactions that are open", _uncommitted),
            ("consumer_prefetch", "What each consumer of a channel may hold", lambda channel: channel.prefetch),
            ("channel_prefetch", "What all consumers of a channel may hold together", _shared_prefetch),
        )
    ),
    *(
        ObjectFamily("channel_exchange_metrics", Family(name, COUNTER, help), _counted(column))
        for name, help, column in (
            ("channel_messages_published_total", "Messages that came on channels", "publish"),
            ("channel_messages_confirmed_total", "Publishes of channels that were confirmed", "confirm"),
            ("channel_messages_unroutable_returned_total", "Given back on channels, no queue", "return_unroutable"),
        )
    ),
]


def _of_node(group: str, rows: Iterable[tuple[str, str, str, str]], labels: Labels = ()) -> list[NodeFamily]:
    return [NodeFamily(group, Family(name, kind, help), key, labels) for name, kind, help, key in rows]


CHURN = _of_node(
    "connection_churn_metrics",
    (
        ("connections_opened_total", COUNTER, "Connections that came", "connection_created"),
        ("connections_closed_total", COUNTER, "Connections that went", "connection_closed"),
        ("channels_opened_total", COUNTER, "Channels that were opened", "channel_created"),
        ("channels_closed_total", COUNTER, "Channels that were closed", "channel_closed"),
        ("queues_declared_total", COUNTER, "Queues asked for, new or not", "queue_declared"),
        ("queues_created_total", COUNTER, "Queues that were made", "queue_created"),
        ("queues_deleted_total", COUNTER, "Queues that were deleted", "queue_deleted"),
    ),
)

MACHINE = _of_node(
    "node_coarse_metrics",
    (
        ("process_open_fds", GAUGE, "Open files", "files"),
        ("process_open_tcp_sockets", GAUGE, "Sockets of clients", "sockets"),
        ("process_resident_memory_bytes", GAUGE, "Memory of this process", "memory"),
        ("disk_space_available_bytes", GAUGE, "Free space beside the data", "disk_free"),
    ),
) + _of_node(
    "node_metrics",
    (
        ("process_max_fds", GAUGE, "Files that may be open", "most_files"),
        ("process_max_tcp_sockets", GAUGE, "Sockets that may be open", "most_files"),
        ("resident_memory_limit_bytes", GAUGE, "Memory above which publishers wait", "memory_mark"),
        ("disk_space_available_limit_bytes", GAUGE, "Free space below which publishers wait", "disk_mark"),
        ("erlang_uptime_seconds", GAUGE, "Seconds since the start", "uptime"),
    ),
)

ALARMS = _of_node(
    "alarms",
    (
        ("alarms_memory_used_watermark", UNTYPED, "1 while publishers wait for memory", "alarm_memory"),
        ("alarms_free_disk_space_watermark", UNTYPED, "1 while publishers wait for disk space", "alarm_disk"),
        ("alarms_file_descriptor_limit", UNTYPED, "1 while there are no more files to open", "alarm_files"),
    ),
)

OBJECTS = _of_node(
    "objects",
    (
        ("connections", GAUGE, "Connections there are", "connections"),
        ("channels", GAUGE, "Channels there are", "channels"),
        ("consumers", GAUGE, "Consumers there are", "consumers"),
        ("queues", GAUGE, "Queues there are", "queues"),
    ),
)

SUMS = _of_node(
    "sums",
    (
        ("queue_messages_ready", GAUGE, "Messages that wait for a consumer", "messages_ready"),
        ("queue_messages_unacked", GAUGE, "Messages in the hands of consumers", "messages_unacknowledged"),
        ("queue_messages", GAUGE, "Messages, waiting or in hands", "messages"),
        ("queue_consumers", GAUGE, "Consumers of queues", "consumers"),
        ("channel_consumers", GAUGE, "Consumers on channels", "consumers"),
        ("queue_process_memory_bytes", GAUGE, "Memory that queues hold, about", "queue_memory"),
        ("queue_messages_published_total", COUNTER, "Messages that came to queues", "to_queues"),
        ("channel_messages_published_total", COUNTER, "Messages that publishers sent", "publish"),
        ("channel_messages_confirmed_total", COUNTER, "Publishes that were confirmed", "confirm"),
        ("channel_messages_unconfirmed", GAUGE, "Publishes that wait for a confirm", "unconfirmed"),
        ("channel_messages_unroutable_returned_total", COUNTER, "Given back, no queue", "return_unroutable"),
        ("channel_messages_unroutable_dropped_total", COUNTER, "Dropped, no queue", "drop_unroutable"),
        ("channel_messages_delivered_ack_total", COUNTER, "Delivered, to be acked", "deliver"),
        ("channel_messages_delivered_total", COUNTER, "Delivered without acks", "deliver_no_ack"),
        ("channel_messages_redelivered_total", COUNTER, "Given again", "redeliver"),
        ("channel_messages_acked_total", COUNTER, "Acked by consumers", "ack"),
        ("channel_get_ack_total", COUNTER, "Got by hand, to be acked", "get"),
        ("channel_get_total", COUNTER, "Got by hand without acks", "get_no_ack"),
        ("channel_get_empty_total", COUNTER, "Gets that found nothing", "get_empty"),
        ("connection_incoming_bytes_total", COUNTER, "Bytes that came", "received_bytes"),
        ("connection_outgoing_bytes_total", COUNTER, "Bytes that went", "sent_bytes"),
    ),
)

BOUNDS = _of_node(
    "bounds",
    (
        (
            "messages_routing_refused_total",
            COUNTER,
            "Messages not routed because that would take more than max_routing_steps",
            "routing_refused",
        ),
        (
            "loop_longest_turn_seconds",
            GAUGE,
            "Longest time in the last 30 to 60 seconds that one event held the event loop, within 25 milliseconds",
            "longest_turn",
        ),
        ("sockets", GAUGE, "Accepted sockets of all protocols", "admitted_sockets"),
        ("max_sockets", GAUGE, "Sockets that may be open at once", "admitted_max_sockets"),
        ("unauthenticated_connections", GAUGE, "Connections that have not logged in", "unauthenticated"),
        (
            "connections_evicted_total",
            COUNTER,
            "Idle HTTP or unauthenticated connections closed in favour of a new connection",
            "evicted",
        ),
        (
            "connections_refused_total",
            COUNTER,
            "Connections closed at accept because no file descriptor could be spared",
            "refused",
        ),
    ),
)

GLOBAL = _of_node(
    "global",
    (
        ("global_messages_received_total", COUNTER, "Messages that publishers sent", "publish"),
        ("global_messages_received_confirm_total", COUNTER, "Sent by those who want confirms", "received_confirm"),
        ("global_messages_routed_total", COUNTER, "Messages that reached queues, one for each", "to_queues"),
        ("global_messages_confirmed_total", COUNTER, "Publishes that were confirmed", "confirm"),
        ("global_messages_unroutable_returned_total", COUNTER, "Given back, no queue", "return_unroutable"),
        ("global_messages_unroutable_dropped_total", COUNTER, "Dropped, no queue", "drop_unroutable"),
        ("global_messages_delivered_total", COUNTER, "Given to consumers in any way", "deliver_get"),
        ("global_messages_delivered_consume_manual_ack_total", COUNTER, "Delivered, to be acked", "deliver"),
        ("global_messages_delivered_consume_auto_ack_total", COUNTER, "Delivered without acks", "deliver_no_ack"),
        ("global_messages_delivered_get_manual_ack_total", COUNTER, "Got by hand, to be acked", "get"),
        ("global_messages_delivered_get_auto_ack_total", COUNTER, "Got by hand without acks", "get_no_ack"),
        ("global_messages_get_empty_total", COUNTER, "Gets that found nothing", "get_empty"),
        ("global_messages_redelivered_total", COUNTER, "Given again", "redeliver"),
        ("global_messages_acknowledged_total", COUNTER, "Acked by consumers", "ack"),
        ("global_publishers", GAUGE, "Channels that have published", "publishers"),
        ("global_consumers", GAUGE, "Consumers there are", "consumers"),
    ),
    AMQP,
)
