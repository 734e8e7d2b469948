"""Totals over queues, exchanges, connections and channels, counted in steps since there may be many.

The virtual host keeps the counters of its deleted queues, exchanges and channels (broker/counters.py), so that totals
never decrease.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from leveret.backlog.counters import QueueCounters
from leveret.broker.broker import Broker
from leveret.broker.counters import ExchangeCounters
from leveret.broker.vhost import Vhost
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.samples import Column, Row

SLICE = 125  # queues or connections per step

COUNTED = ("publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "redeliver", "ack")
QUEUE = (*COUNTED, "messages_ready", "messages_unacknowledged")
TOTAL = (*QUEUE, "confirm", "return_unroutable", "drop_unroutable", "get_empty", "received_confirm", "to_queues")
CHURN = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
MEMORY_KINDS = (
    *("queue_procs", "definitions", "unfinished_messages", "transactions", "unread_output", "routes", "connections"),
    "uploads",
)  # as in broker/memory_users.py
MEASURED_VALUES = ("disk_free", "fd_used", "sockets_used", "proc_used", "loop_lag")  # lag in microseconds
MEASURED_COUNTS = (
    *("cpu_time", "io_sync_count", "io_sync_time", "io_write_count", "io_write_bytes"),  # times in microseconds
    *("io_write_time", "io_read_count", "io_read_bytes", "io_read_time"),
)
MEASURED = (*MEASURED_VALUES, *MEASURED_COUNTS, *(f"memory_{kind}" for kind in MEMORY_KINDS))
TRAFFIC_COUNTS = ("recv_oct", "send_oct")  # bytes from and to clients
VHOST = (*TOTAL, *TRAFFIC_COUNTS)
NODE = (*TOTAL, *CHURN, *TRAFFIC_COUNTS, "mem_used", *MEASURED)

QUEUE_USE = ("consumers", "get_empty")  # these columns follow in the row of a queue, then those of lanes
LANES = len(QUEUE) + len(QUEUE_USE)
RECEIVED, ACKED = QUEUE.index("publish"), QUEUE.index("ack")
GIVEN = tuple(QUEUE.index(name) for name in ("deliver", "deliver_no_ack", "get", "get_no_ack"))
GIVEN_COUNTS: tuple[Column, ...] = (*((name, (QUEUE.index(name),)) for name in COUNTED), ("deliver_get", GIVEN))
QUEUE_COUNTS: tuple[Column, ...] = (*GIVEN_COUNTS, ("get_empty", (len(QUEUE) + QUEUE_USE.index("get_empty"),)))
TOTAL_COUNTS: tuple[Column, ...] = (
    *GIVEN_COUNTS,
    *((name, (TOTAL.index(name),)) for name in ("confirm", "return_unroutable", "drop_unroutable", "get_empty")),
)
READY, UNACKED = QUEUE.index("messages_ready"), QUEUE.index("messages_unacknowledged")
LENGTHS: tuple[Column, ...] = (
    ("messages", (READY, UNACKED)),
    ("messages_ready", (READY,)),
    ("messages_unacknowledged", (UNACKED,)),
)
MEASURES: tuple[Column, ...] = tuple((name, (NODE.index(name),)) for name in ("mem_used", *MEASURED))
CHURN_COUNTS: tuple[Column, ...] = tuple((name, (NODE.index(name),)) for name in CHURN)
CHANNEL_COUNTS: tuple[Column, ...] = (
    ("publish", (0,)),
    ("confirm", (1,)),
    ("return_unroutable", (2,)),
    ("deliver_get", (3,)),
)
DELIVERED = 3  # the position of the last delivery tag in the row of a channel
TRAFFIC: tuple[Column, ...] = tuple((name, (place,)) for place, name in enumerate(TRAFFIC_COUNTS))
NODE_TRAFFIC: tuple[Column, ...] = tuple((name, (NODE.index(name),)) for name in TRAFFIC_COUNTS)
VHOST_TRAFFIC: tuple[Column, ...] = tuple((name, (VHOST.index(name),)) for name in TRAFFIC_COUNTS)
EXCHANGE_COUNTS: tuple[Column, ...] = (("publish_in", (0,)), ("publish_out", (1,)))

Sampled = DeclaredQueue | ExchangeCounters | Connection | Channel
Met = Callable[[Sampled, Row], None]
T = TypeVar("T")


NO_CONNECTIONS = (0, 0, 0, 0)


class VhostTotals(NamedTuple):
    row: Row  # columns as in TOTAL
    traffic: Row  # bytes from and to clients
    churn: Row  # queues declared, created, deleted
    queues: int
    consumers: int
    exchanges: int
    connections: int
    channels: int


class Totals(NamedTuple):
    """Totals of all virtual hosts; ``publishers``: channels that have published."""

    vhosts: dict[str, VhostTotals]
    publishers: int

    def sum_of(self, field: str) -> int:
        return sum(getattr(vhost, field) for vhost in self.vhosts.values())


def queue_row(queue: DeclaredQueue) -> Row:
    """Columns as in QUEUE and QUEUE_USE; for a priority queue also the messages received by each lane."""
    counters = queue.counters
    no_ack, got_no_ack = counters.delivered_no_ack, counters.got_no_ack
    backlog = queue.backlog
    received = () if backlog is None or len(backlog.lanes) == 1 else [lane.tail - 1 for lane in backlog.lanes]
    return (
        counters.received,
        counters.delivered - no_ack,
        no_ack,
        counters.got - got_no_ack,
        got_no_ack,
        counters.redelivered,
        counters.acked,
        queue.ready,
        queue.unacked,
        len(queue.consumers),
        counters.got_nothing,
        *received,
    )


def channel_row(channel: Channel) -> Row:
    confirms = channel.confirms
    confirmed = 0 if confirms is None else confirms.issued - confirms.outstanding
    return channel.published, confirmed, channel.returned, channel.unacked.next_tag - 1


def open_sessions(broker: Broker) -> list[Connection]:
    """The connections of clients, and the links of other cells, that have opened a virtual host."""
    known: list[object] = list(broker.registry.connections)
    return [each for each in known if isinstance(each, Connection) and has_vhost(each)]


def open_connections(broker: Broker) -> list[Connection]:
    """The connections of clients that have opened a virtual host. Links of other cells are not among them."""
    return [each for each in open_sessions(broker) if not each.is_link]


def traffic(broker: Broker) -> tuple[int, int]:
    """Bytes received from and sent to clients since the start, closed connections included; links are no clients.

    Counted at once: a connection that is closed between two steps would be counted twice, or not at all.
    """
    registry = broker.registry
    known: list[object] = list(registry.connections)
    peers = [each.peer for each in known if isinstance(each, Connection) and not each.is_link]
    received, sent = sum([peer.received for peer in peers]), sum([peer.sent for peer in peers])
    return registry.past_received + received, registry.past_sent + sent


def vhost_traffic(broker: Broker) -> dict[str, tuple[int, int]]:
    """The same by virtual host. Counted at once as well."""
    sums = {name: [each.counters.past_received, each.counters.past_sent] for name, each in broker.vhosts.items()}
    for connection in open_connections(broker):
        own = sums.get(connection.vhost.name)
        if own is not None:
            own[0] += connection.peer.received
            own[1] += connection.peer.sent
    return {name: (received, sent) for name, (received, sent) in sums.items()}


def own_queues(vhost: Vhost) -> list[DeclaredQueue]:
    """Without those of other cells, which count them."""
    queues = list(vhost.queues.values())
    return queues if vhost.cells.watcher is None else [queue for queue in queues if queue.home is None]


def has_vhost(connection: Connection) -> bool:
    vhost: Vhost | None = connection.vhost
    return vhost is not None


def run_out(walk: Generator[int, None, T]) -> T:
    """Run all steps at once and return the result."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            result: T = end.value
            return result


def counting(broker: Broker, met: Met | None = None) -> Generator[int, None, Totals]:
    """Yields the number of objects counted in each step. ``met`` is called with each object and its row."""
    peers = _Peers()
    for connections in _sliced(iter(open_connections(broker))):
        for connection in connections:
            if has_vhost(connection):
                peers.meet(connection, met)
        yield len(connections)
    totals: dict[str, VhostTotals] = {}
    for vhost in list(broker.vhosts.values()):
        totals[vhost.name] = yield from counting_vhost(vhost, peers.by_vhost.get(vhost.name, NO_CONNECTIONS), met)
    bytes_of = vhost_traffic(broker)
    totals = {name: each._replace(traffic=bytes_of.get(name, each.traffic)) for name, each in totals.items()}
    return Totals(totals, peers.publishers)


class _Peers:
    """By virtual host: connections, channels, publishes on channels with confirms, and confirms."""

    def __init__(self) -> None:
        self.by_vhost: dict[str, list[int]] = {}
        self.publishers = 0

    def meet(self, connection: Connection, met: Met | None) -> None:
        seen = self.by_vhost.setdefault(connection.vhost.name, [0, 0, 0, 0])
        seen[0] += 1
        if met is not None:
            met(connection, (connection.peer.received, connection.peer.sent))
        for channel in connection.channels.values():
            row = channel_row(channel)
            seen[1] += 1
            seen[2] += 0 if channel.confirms is None else channel.confirms.issued
            seen[3] += row[1]
            self.publishers += channel.published > 0
            if met is not None:
                met(channel, row)


def counting_vhost(
    vhost: Vhost, peers: Sequence[int] = NO_CONNECTIONS, met: Met | None = None
) -> Generator[int, None, VhostTotals]:
    """The totals of a virtual host, which may be deleted; its traffic without that of open connections."""
    sums = [0] * len(QUEUE)
    consumers = empty = 0
    own_ones = own_queues(vhost)
    for queues in _sliced(iter(own_ones)):
        for queue in queues:
            row = queue_row(queue)
            sums = [one + other for one, other in zip(sums, row, strict=False)]  # lanes are not summed
            empty += queue.counters.got_nothing
            consumers += len(queue.consumers)
            if met is not None:
                met(queue, row)
        yield len(queues)
    past = vhost.counters.past_queues
    sums = [one + other for one, other in zip(sums, _past_row(past), strict=True)]
    published = yield from _count_exchanges(vhost, met)
    connections, channels, wanted, confirmed = peers
    own = vhost.counters
    row = (
        published.published,  # a message counts once, however many queues it was routed to
        *sums[1:],
        confirmed + own.confirmed,
        published.returned,
        published.unroutable - published.returned,
        empty + past.got_nothing,
        wanted + own.confirm_wanted,
        sums[0],
    )
    churn = (own.queues_declared, own.queues_created, own.queues_deleted)
    traffic = own.past_received, own.past_sent
    return VhostTotals(row, traffic, churn, len(own_ones), consumers, len(vhost.exchanges), connections, channels)


def _past_row(past: QueueCounters) -> Row:
    no_ack, got_no_ack = past.delivered_no_ack, past.got_no_ack
    given = (past.delivered - no_ack, no_ack, past.got - got_no_ack, got_no_ack)
    return past.received, *given, past.redelivered, past.acked, 0, 0


def _count_exchanges(vhost: Vhost, met: Met | None) -> Generator[int, None, ExchangeCounters]:
    sums = ExchangeCounters()
    sums.absorb(vhost.counters.past_exchanges)
    for some in _sliced(iter(list(vhost.exchange_counters.values()))):
        for counters in some:
            sums.absorb(counters)
            if met is not None:
                met(counters, (counters.published, counters.routed))
        yield len(some)
    return sums


def _sliced(things: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(things, SLICE)):
        yield some
