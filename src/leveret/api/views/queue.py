"""Rows of queues in JSON: RabbitMQ's columns, and some more.

All values are in memory: only the first message is decoded, and nothing is read from disk. Added columns:

    messages_delayed     messages that wait for a delayed retry
    oldest_message_age   age of the oldest ready message in seconds, to within five seconds if it is only known from
                         samples; null if there is no message or its age is unknown
    drain_estimate       seconds until the queue is empty at the current rates; null if it does not shrink
    consumers_busy       whether all consumers that receive messages have as many as their prefetch limits allow
    delivery_idle_time   seconds since the last delivery or acknowledgement, to within five seconds; null if no message
                         is unacknowledged
    counters             all counters of the queue since it was declared
    home                 the cell of the queue; null without ``--cells``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from operator import attrgetter

from leveret.api.policy_matches import PolicyMatches
from leveret.api.views.connection import CONSUMER_ROWS, FoundConsumer, connection_details, is_of_link
from leveret.api.views.message import plain
from leveret.api.views.message_age import oldest_age, timestamp_of
from leveret.backlog.counters import QueueCounters
from leveret.broker.policy import Policy
from leveret.broker.policy_keys import ARGUMENTS, KEYS
from leveret.broker.policy_merge import effective_arguments, merged
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer_ring import BY_DEPARTURES, BY_OPERATOR, SingleActive
from leveret.http.rows import Field, Row, RowCache, RowDescription
from leveret.queues.declared_queue import DeclaredQueue, home_of
from leveret.session.connection import Connection
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats

AGE, DELIVERY_IDLE = "oldest_message_age", "delivery_idle_time"
SIZES = (
    "message_bytes",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "message_bytes_ram",
    "message_bytes_paged_out",
    "messages_ram",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
    "messages_paged_out",
)
CONSUMER_TAGS = ("exclusive_consumer_tag", "single_active_consumer_tag")
POLICIES = ("policy", "operator_policy", "effective_policy_definition")
STATS = (
    "message_stats",
    "messages_details",
    "messages_ready_details",
    "messages_unacknowledged_details",
    "drain_estimate",
    "idle_since",
)
COUNTS = attrgetter(*QueueCounters.__slots__)
NUMBERS = attrgetter("accounted", "bytes", "held", "unacked")


FoundQueue = tuple[Vhost, DeclaredQueue, "QueueView"]


class QueueView:
    """The rows of queues for one response. Queues with the same policies share one effective definition."""

    def __init__(
        self,
        stats: Stats,
        matches: PolicyMatches,
        node: str,
        cache: RowCache[DeclaredQueue],
        windows: Windows = NO_WINDOWS,
        nodes: Mapping[str, str] | None = None,
    ) -> None:
        """``nodes``: by cell, if there are several."""
        self.cache = cache
        self.stats = stats
        self._matches = matches
        self.node = node
        self._nodes = nodes or {}
        self.windows = windows
        self.has_samples = windows != NO_WINDOWS
        self._definitions: dict[tuple[int, ...], Row] = {}

    def row(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        return QUEUE_ROWS.row((vhost, queue, self))

    def home(self, queue: DeclaredQueue) -> str:
        return self.node if queue.home is None else self._nodes.get(queue.home.cell_name, queue.home.cell_name)

    def rates(self, queue: DeclaredQueue, windows: Windows | None = None) -> Row:
        rates = self.stats.of_queue(queue, self.windows if windows is None else windows)
        rates["drain_estimate"] = drain_estimate(queue.ready + queue.unacked, rates.get("messages_details"))
        idle_since = self.stats.idle_since(queue)
        if idle_since is not None:  # RabbitMQ leaves it out while a queue is in use
            rates["idle_since"] = datetime.fromtimestamp(idle_since, UTC).isoformat(timespec="milliseconds")
        return rates

    def detail(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        row = self.row(vhost, queue)
        row["consumer_details"] = [
            CONSUMER_ROWS.row(FoundConsumer(queue, consumer, self.node))
            for consumer in queue.consumers
            if not is_of_link(consumer)
        ]
        row["deliveries"] = row["incoming"] = []
        row["backing_queue_status"] = {"mode": "default", "len": row["messages_ready"]}
        if (stream := queue.stream) is not None:
            row["first_offset"], row["next_offset"] = stream.first_offset, stream.end_offset
        return row

    def policies(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        """The names of the policies with the highest priority; the definition merges all that match."""
        policies, operators = self._matches.of(vhost, queue)
        key = tuple(map(id, (*policies, None, *operators)))
        definition = self._definitions.get(key)
        if definition is None:
            definition = self._definitions[key] = _definition(policies, operators)
        return {
            "policy": policies[0].name if policies else None,
            "operator_policy": operators[0].name if operators else None,
            "effective_policy_definition": definition,
        }


# ---- fields


def _home(vhost: Vhost, queue: DeclaredQueue) -> str | None:
    """The cell of the queue, as moves take it; None if it cannot be in another one."""
    cells = vhost.cells
    if cells.queue_moves is not None:
        return cells.queue_moves.home(queue)
    return home_of(queue) or cells.name or None


def _counters(queue: DeclaredQueue) -> Row:
    return {name: getattr(queue.counters, name) for name in QueueCounters.__slots__}


def _message_state(found: FoundQueue) -> tuple[object, ...]:
    queue = found[1]
    backlog = queue.backlog
    paged = 0 if backlog is None or backlog.pager is None else backlog.pager.bytes
    return queue.ready, NUMBERS(queue), COUNTS(queue.counters), paged


def _consumer_state(found: FoundQueue) -> object:
    consumers = found[1].consumers
    if not consumers.total:
        return consumers.paused
    first, active = next(iter(consumers)), getattr(consumers, "active", None)
    return consumers.paused, len(consumers), first.client_tag, first.exclusive, active and active.client_tag


def _sizes(queue: DeclaredQueue) -> Row:
    sizes = {
        "message_bytes": queue.total_bytes,
        "message_bytes_ready": queue.ready_bytes,
        "message_bytes_unacknowledged": queue.held,
    }
    backlog = queue.backlog
    if backlog is None:
        return {**sizes, "message_bytes_ram": min(queue.accounted, sizes["message_bytes"])}
    paged = 0 if backlog.pager is None else backlog.pager.bytes
    on_disk = sum([lane.paged for lane in backlog.lanes])
    return {
        **sizes,
        "message_bytes_ram": queue.bytes - paged,
        "message_bytes_paged_out": paged,
        "messages_ram": queue.ready - on_disk + queue.unacked,
        "messages_ready_ram": queue.ready - on_disk,
        "messages_unacknowledged_ram": queue.unacked,
        "messages_paged_out": on_disk,
    }


def _consumer_tags(queue: DeclaredQueue) -> Row:
    consumers = queue.consumers
    first = next(iter(consumers), None)
    active = consumers.active if isinstance(consumers, SingleActive) else None
    return {
        "exclusive_consumer_tag": first.client_tag if first is not None and first.exclusive else None,
        "single_active_consumer_tag": None if active is None else active.client_tag,
    }


def _are_consumers_busy(found: FoundQueue) -> bool:
    consumers = found[1].consumers
    receiving = islice(consumers, 1) if isinstance(consumers, SingleActive) else consumers
    return consumers.total > 0 and all(consumer.is_at_limit for consumer in receiving)


def _owner(queue: DeclaredQueue) -> Row:
    """A queue of the broker's own process has no connection as its owner."""
    if not isinstance(queue.owner, Connection):
        return {"exclusive": queue.owner is not None}
    return {"exclusive": True, "owner_pid_details": connection_details(queue.owner)}


def _definition(policies: Sequence[Policy], operators: Sequence[Policy]) -> Row:
    by_policy, by_operator = merged(policies), merged(operators)
    effective = effective_arguments({}, by_policy, by_operator)
    names = [name for name in {**by_policy, **by_operator} if KEYS[name].about == "queues"]
    return {name: effective[ARGUMENTS[name]] for name in names}


def drain_estimate(messages: int, details: Mapping[str, float] | None) -> float | None:
    """Seconds until the queue is empty. ``details`` has its growth in messages per second."""
    if not messages:
        return 0.0
    rate = 0.0 if details is None else details.get("rate", 0.0)
    return messages / -rate if rate < 0 else None


def state_of(queue: DeclaredQueue) -> str:
    """Queues of other cells are listed here only while their cells do not answer."""
    if queue.home is not None:
        return "down"
    paused = queue.consumers.paused
    return "paused" if paused & BY_OPERATOR else "flow" if paused & BY_DEPARTURES else "running"


# ---- the row


def encoded_queue(found: FoundQueue) -> bytes | None:
    """The row as JSON, from the cache if the queue is idle; None if the queue is deleted."""
    _, queue, view = found
    if not queue.alive:
        return None
    if view.has_samples or not view.stats.is_still(queue) or queue.delayed_messages:
        return QUEUE_ROWS.encoded(found)
    if queue.has_offsets and queue.ready:
        return QUEUE_ROWS.encoded(found)
    return view.cache.encoded(queue, QUEUE_ROWS, found)


QUEUE_ROWS: RowDescription[FoundQueue] = RowDescription(
    [
        Field(("name",), lambda found: found[1].name),
        Field(("vhost",), lambda found: found[0].name),
        Field(("type",), lambda found: found[1].options.kind),
        Field(("durable",), lambda found: found[1].durable),
        Field(("auto_delete",), lambda found: found[1].auto_delete),
        Field(("exclusive", "owner_pid_details"), lambda found: _owner(found[1])),
        Field(("arguments",), lambda found: plain(found[1].arguments)),
        Field(("node",), lambda found: found[2].home(found[1])),
        Field(("home",), lambda found: _home(*found[:2])),
        Field(("state",), lambda found: state_of(found[1]), _consumer_state),
        Field(("consumers",), lambda found: len(found[1].consumers), _consumer_state),
        Field(("consumers_busy",), _are_consumers_busy, _are_consumers_busy),
        Field(CONSUMER_TAGS, lambda found: _consumer_tags(found[1]), _consumer_state),
        Field(("messages",), lambda found: found[1].ready + found[1].unacked, _message_state),
        Field(("messages_ready",), lambda found: found[1].ready, _message_state),
        Field(("messages_unacknowledged",), lambda found: found[1].unacked, _message_state),
        Field(("messages_delayed",), lambda found: found[1].delayed_messages, _message_state),
        Field(("memory",), lambda found: found[1].accounted, _message_state),
        Field(SIZES, lambda found: _sizes(found[1]), _message_state),
        Field(("counters",), lambda found: _counters(found[1]), _message_state),
        Field(POLICIES, lambda found: found[2].policies(*found[:2]), lambda found: found[0].policies.in_order()),
        # The first message and the rates of an idle queue change with its counters only.
        Field(("head_message_timestamp",), lambda found: timestamp_of(found[1].first_message())),
        Field(
            STATS,
            lambda found: found[2].rates(found[1]),
            lambda found: found[2].stats.changed_at(found[1]),  # idle_since depends on it
            read_to_sort=lambda found: found[2].rates(found[1], NO_WINDOWS),
        ),
        Field((AGE,), lambda found: oldest_age(found[2].stats, found[1]), volatile=lambda found: found[1].ready > 0),
        Field(
            (DELIVERY_IDLE,),
            lambda found: found[2].stats.delivery_idle_time(found[1]),
            volatile=lambda found: found[1].unacked > 0,
        ),
    ],
    exists=lambda found: found[1].alive,
)
