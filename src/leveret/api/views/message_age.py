"""The age of the oldest ready message of a queue, in seconds.

It is known from the message itself if it has a TTL or a timestamp, else from the samples of the statistics, to within
the five seconds between two of them. Only the first message is decoded, and nothing is read from disk.
"""

from __future__ import annotations

from leveret.api.views.message import plain
from leveret.backlog.lane import Lane
from leveret.broker.publish_rules import readable_properties
from leveret.message import Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.stats.stats import Stats
from leveret.wire.content import PROPERTIES_AT, body_at
from leveret.wire.properties import FLAG_EXPIRATION, FLAG_TIMESTAMP

LONGEST_PROPERTIES = 8 << 10  # bytes: larger properties of the first message are not decoded


def oldest_age(stats: Stats, queue: DeclaredQueue) -> float | None:
    """In a stream the age of the first message; else the highest age of the first messages of its lanes. None if there
    is no message or its age is unknown."""
    if not queue.ready:
        return None
    if queue.stream is not None:
        return queue.stream.first_age()
    backlog = queue.backlog
    if backlog is None:
        return None  # it is in another cell
    lanes = backlog.lanes if len(backlog.lanes) == 1 else [lane for lane in backlog.lanes if lane]
    ages = [_age_in(stats, queue, lane) for lane in lanes]
    return max([age for age in ages if age is not None], default=None)


def timestamp_of(message: Message | None) -> int | None:
    """The timestamp property of the message, in seconds since 1970."""
    if message is None or not _flags(message) & FLAG_TIMESTAMP or body_at(message[0]) > LONGEST_PROPERTIES:
        return None
    time: int | None = plain(readable_properties(message).timestamp)
    return time


def _age_in(stats: Stats, queue: DeclaredQueue, lane: Lane) -> float | None:
    """The age from the first message itself, or else from the sample in which its number was first counted."""
    waiting = lane.first()
    age = None if waiting is None else _age_from_message(queue, waiting[2])
    if age is not None:
        return age
    number = _first_number(lane)
    return None if number is None else stats.waiting_since(queue, lane, number)


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
    sent = timestamp_of(first)
    return None if sent is None else max(0.0, context.now() + context.wall_ahead() - sent)


def _flags(message: Message) -> int:
    return int.from_bytes(message[0][PROPERTIES_AT : PROPERTIES_AT + 2], "big")
