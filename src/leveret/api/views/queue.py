"""Rows of queues in JSON: RabbitMQ's columns, and some more.

All values are in memory: only the first message is decoded, and nothing is read from disk. Added columns:

    messages_delayed     messages that wait for a delayed retry
    oldest_message_age   age of the oldest ready message in seconds, to within five seconds if it is only known from
                         samples; null if there is no message or its age is unknown
    drain_estimate       seconds until the queue is empty at the current rates; null if it does not shrink
    counters             all counters of the queue since it was declared
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from leveret.api.policy_matches import PolicyMatches
from leveret.api.views.connection import CONSUMER_ROWS, FoundConsumer, connection_details
from leveret.api.views.message import plain
from leveret.backlog.counters import QueueCounters
from leveret.backlog.lane import Lane
from leveret.broker.policy import Policy
from leveret.broker.policy_keys import ARGUMENTS, KEYS
from leveret.broker.policy_merge import effective_arguments, merged
from leveret.broker.publish_rules import readable_properties
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer_ring import SingleActive
from leveret.http.rows import Field, Row, RowCache, RowDescription
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.connection import Connection
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats
from leveret.wire.content import PROPERTIES_AT, body_at
from leveret.wire.properties import FLAG_EXPIRATION, FLAG_TIMESTAMP

AGE = "oldest_message_age"
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
)
COUNTS = attrgetter(*QueueCounters.__slots__)
NUMBERS = attrgetter("accounted", "bytes", "held", "unacked")
LONGEST_PROPERTIES = 8 << 10  # bytes: larger properties of the first message are not decoded


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
    ) -> None:
        self.cache = cache
        self.stats = stats
        self._matches = matches
        self.node = node
        self.windows = windows
        self.has_samples = windows != NO_WINDOWS
        self._definitions: dict[tuple[int, ...], Row] = {}

    def row(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        return QUEUE_ROWS.row((vhost, queue, self))

    def rates(self, queue: DeclaredQueue, windows: Windows | None = None) -> Row:
        rates = self.stats.of_queue(queue, self.windows if windows is None else windows)
        rates["drain_estimate"] = drain_estimate(queue.ready + queue.unacked, rates.get("messages_details"))
        return rates

    def oldest_age(self, queue: DeclaredQueue) -> float | None:
        """In a stream the age of the first message; else the highest age of the first messages of its lanes."""
        if not queue.ready:
            return None
        if queue.stream is not None:
            return queue.stream.first_age()
        backlog = queue.backlog
        assert backlog is not None
        lanes = backlog.lanes if len(backlog.lanes) == 1 else [lane for lane in backlog.lanes if lane]
        ages = [self._age_in(queue, lane) for lane in lanes]
        return max([age for age in ages if age is not None], default=None)

    def _age_in(self, queue: DeclaredQueue, lane: Lane) -> float | None:
        """The age from the first message itself, or else from the sample in which its number was first counted."""
        waiting = lane.first()
        age = None if waiting is None else _age_from_message(queue, waiting[2])
        if age is not None:
            return age
        number = _first_number(lane)
        return None if number is None else self.stats.waiting_since(queue, lane, number)

    def detail(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        row = self.row(vhost, queue)
        row["consumer_details"] = [
            CONSUMER_ROWS.row(FoundConsumer(queue, consumer, self.node)) for consumer in queue.consumers
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
    return consumers.paused, len(consumers), first.tag, first.exclusive, active and active.tag


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
        "exclusive_consumer_tag": first.tag if first is not None and first.exclusive else None,
        "single_active_consumer_tag": None if active is None else active.tag,
    }


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


# ---- the first message


def _flags(message: Message) -> int:
    return int.from_bytes(message[0][PROPERTIES_AT : PROPERTIES_AT + 2], "big")


def state_of(queue: DeclaredQueue) -> str:
    return "paused" if queue.consumers.paused else "running"


def _timestamp(message: Message | None) -> int | None:
    """The timestamp property of the message, in seconds since 1970."""
    if message is None or not _flags(message) & FLAG_TIMESTAMP or body_at(message[0]) > LONGEST_PROPERTIES:
        return None
    time: int | None = plain(readable_properties(message).timestamp)
    return time


def _first_number(lane: Lane) -> int | None:
    """The number of the first message in order of arrival, also if it is on disk only."""
    waiting = lane.first()
    if waiting is not None:
        return waiting[0]
    if lane.paged:
        return lane.page_start
    return lane.page_stop if lane.fresh else None


def _age_from_message(queue: DeclaredQueue, first: Message) -> float | None:
    """The age from the remaining TTL of the queue, else from the timestamp of the publisher."""
    context = queue.context
    ttl = queue.options.ttl
    if ttl is not None and not _flags(first) & FLAG_EXPIRATION and first[2].deadline < float("inf"):
        return max(0.0, context.now() - (first[2].deadline - ttl))
    sent = _timestamp(first)
    return None if sent is None else max(0.0, context.now() + context.wall_ahead() - sent)


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
        Field(("node",), lambda found: found[2].node),
        Field(("state",), lambda found: state_of(found[1]), _consumer_state),
        Field(("consumers",), lambda found: len(found[1].consumers), _consumer_state),
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
        Field(("head_message_timestamp",), lambda found: _timestamp(found[1].first_message())),
        Field(
            STATS,
            lambda found: found[2].rates(found[1]),
            read_to_sort=lambda found: found[2].rates(found[1], NO_WINDOWS),
        ),
        Field((AGE,), lambda found: found[2].oldest_age(found[1]), volatile=lambda found: found[1].ready > 0),
    ],
    exists=lambda found: found[1].alive,
)
