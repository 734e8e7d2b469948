"""What queues look like in JSON: RabbitMQ's names, and beside them what we know more.

Everything is read from what the queue holds in memory; no message is looked into but the first one, and nothing is read
from disk. Ours in addition:

    messages_delayed     wait for their next try
    oldest_message_age   seconds, of the oldest message, to within five where nothing tells it better; null if none
                         waits, or if nobody knows when it came
    drain_estimate       seconds until it is empty if all goes on as now; null if it does not shrink
    counters             all that the queue has counted since it was made
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leveret.api.policy_matches import PolicyMatches
from leveret.api.views.connection import connection_details, consumer_view
from leveret.api.views.message import plain
from leveret.backlog.counters import QueueCounters
from leveret.backlog.lane import Lane
from leveret.broker.policy import Policy
from leveret.broker.policy_keys import ARGUMENTS, KEYS
from leveret.broker.policy_merge import effective_arguments, merged
from leveret.broker.queue_jobs import readable_properties
from leveret.broker.vhost import Vhost
from leveret.delivery.single_active import SingleActive
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.connection import Connection
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats
from leveret.wire.content import PROPERTIES_AT, body_at
from leveret.wire.properties import FLAG_EXPIRATION, FLAG_TIMESTAMP

Row = dict[str, Any]

AGE = "oldest_message_age"
LONGEST_PROPERTIES = 8 << 10  # bytes: the properties of a first message that has more are not looked into


class QueueView:
    """The queues of one answer. What policies come to is worked out once for all queues that follow the same ones."""

    def __init__(self, stats: Stats, matches: PolicyMatches, node: str, windows: Windows = NO_WINDOWS) -> None:
        self._stats = stats
        self._matches = matches
        self._node = node
        self._windows = windows
        self._definitions: dict[tuple[int, ...], Row] = {}

    def row(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        """For a list: thousands of them are made in one go."""
        ready, unacked = queue.ready, queue.unacked
        first = queue.first_message()
        row: Row = {
            "name": queue.name,
            "vhost": vhost.name,
            "type": queue.options.kind,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "exclusive": queue.owner is not None,
            "arguments": plain(queue.arguments),
            "node": self._node,
            "state": state_of(queue),
            "consumers": len(queue.consumers),
            "messages": ready + unacked,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
            "messages_delayed": queue.delayed_messages,
            "memory": queue.accounted,
            "head_message_timestamp": _timestamp(first),
            AGE: self.oldest_age(queue, first),
            "counters": {name: getattr(queue.counters, name) for name in QueueCounters.__slots__},
            **_sizes(queue),
            **_consumer_tags(queue),
            **_owner(queue),
            **self._policies(vhost, queue),
            **self._stats.of_queue(queue, self._windows),
        }
        row["drain_estimate"] = drain_estimate(ready + unacked, row.get("messages_details"))
        return row

    def oldest_age(self, queue: DeclaredQueue, first: Message | None) -> float | None:
        """Of a stream what the message tells; else of the lane whose first message is the oldest."""
        if queue.stream is not None:
            return queue.stream.first_age()
        backlog = queue.backlog
        assert backlog is not None
        lanes = backlog.lanes if len(backlog.lanes) == 1 else [lane for lane in backlog.lanes if lane]
        ages = [self._age_in(queue, lane) for lane in lanes]
        return max([age for age in ages if age is not None], default=None)

    def _age_in(self, queue: DeclaredQueue, lane: Lane) -> float | None:
        """What the lane's first message tells, or else when its number was counted."""
        waiting = lane.first()
        told = None if waiting is None else _told_age(queue, waiting[2])
        if told is not None:
            return told
        number = _first_number(lane)
        return None if number is None else self._stats.waiting_since(queue, lane, number)

    def detail(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        row = self.row(vhost, queue)
        row["consumer_details"] = [consumer_view(self._node, queue, consumer) for consumer in queue.consumers]
        row["deliveries"] = row["incoming"] = []
        row["backing_queue_status"] = {"mode": "default", "len": row["messages_ready"]}
        if (stream := queue.stream) is not None:
            row["first_offset"], row["next_offset"] = stream.first_offset, stream.end_offset
        return row

    def _policies(self, vhost: Vhost, queue: DeclaredQueue) -> Row:
        """The names of those that come first; the definition is what all that match come to."""
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


# ---- parts


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
    """Of an exclusive queue, unless it belongs to somebody in the broker's own process."""
    if not isinstance(queue.owner, Connection):
        return {}
    return {"owner_pid_details": connection_details(queue.owner)}


def _definition(policies: Sequence[Policy], operators: Sequence[Policy]) -> Row:
    by_policy, by_operator = merged(policies), merged(operators)
    effective = effective_arguments({}, by_policy, by_operator)
    names = [name for name in {**by_policy, **by_operator} if KEYS[name].about == "queues"]
    return {name: effective[ARGUMENTS[name]] for name in names}


def drain_estimate(messages: int, details: Mapping[str, float] | None) -> float | None:
    """Seconds. The details tell by how many messages a second the queue grows."""
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
    """What its publisher says, in seconds since 1970."""
    if message is None or not _flags(message) & FLAG_TIMESTAMP or body_at(message[0]) > LONGEST_PROPERTIES:
        return None
    time: int | None = plain(readable_properties(message).timestamp)
    return time


def _first_number(lane: Lane) -> int | None:
    """Of the first message, in the order in which they came; also of one that is on disk only."""
    waiting = lane.first()
    if waiting is not None:
        return waiting[0]
    if lane.paged:
        return lane.page_start
    return lane.page_stop if lane.fresh else None


def _told_age(queue: DeclaredQueue, first: Message) -> float | None:
    """By what is left of the queue's TTL, else by the publisher's timestamp."""
    context = queue.context
    ttl = queue.options.ttl
    if ttl is not None and not _flags(first) & FLAG_EXPIRATION and first[2].deadline < float("inf"):
        return max(0.0, context.now() - (first[2].deadline - ttl))
    said = _timestamp(first)
    return None if said is None else max(0.0, context.now() + context.wall_ahead() - said)
