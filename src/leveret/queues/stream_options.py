"""The arguments of streams and of their readers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from leveret.delivery.consumer import Consumer
from leveret.errors import PreconditionFailed, Unsupported
from leveret.queues.argument_kinds import Arguments, flag, text, whole_number

STREAM = "stream"
READER_NAME, PINNED = "x-stream-consumer", "x-stream-pinned"
SMALLEST_SEGMENT, LARGEST_SEGMENT = 4 << 10, 1 << 31
# Arguments of other queue types that a stream does not support.
NOT_FOR_STREAMS = (
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-priority",
    "x-max-redeliveries",
    "x-overflow",
    "x-pending-message-limit",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-message-deduplication",
    "x-message-groups",
)
FAMILIES = ("x-dead-letter-", "x-retry-", "x-delayed-retry")  # prefixes
UNITS = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}
AGE = re.compile(r"([1-9][0-9]{0,8})([YMDhms])")
MOST_FILTERS = 100


@dataclass(frozen=True, slots=True)
class Retention:
    """The amount of data that a stream keeps; None: unlimited."""

    max_bytes: int | None = None
    max_age: float | None = None  # seconds


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The start of a reader, its filter, and the name under which its offset is stored."""

    start: str | int | float  # "first", "last", "next", an offset, or (float) seconds since 1970
    name: str | None
    pinned: bool
    filters: frozenset[str] | None
    unfiltered: bool  # also messages without a filter value


def refuse_what_streams_cannot(arguments: Arguments, durable: bool, exclusive: bool) -> None:
    """The error (406) for an argument or property that streams do not support."""
    if exclusive:
        raise unfit("exclusive-owner")
    if not durable:
        raise unfit("non-durable")
    for name in arguments:
        if name in NOT_FOR_STREAMS or name.startswith(FAMILIES):
            raise PreconditionFailed(f"invalid arg '{name}' for a queue of type stream: leave it out")


def unfit(name: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"invalid property '{name}' for a queue of type stream: declare it durable, not exclusive and not auto-delete"
    )


def max_age(arguments: Arguments) -> float | None:
    """The maximum age in seconds, from RabbitMQ's format: a number and a unit, for example 7D."""
    value = text(arguments, "x-max-age")
    if value is None:
        return None
    seconds = interval(value)
    if seconds is None:
        raise PreconditionFailed(f"invalid arg 'x-max-age': {value!r} is not a number with one of Y, M, D, h, m, s")
    return seconds


def segment_bytes(arguments: Arguments) -> int | None:
    return whole_number(arguments, "x-stream-max-segment-size-bytes", SMALLEST_SEGMENT, LARGEST_SEGMENT)


def interval(value: str) -> float | None:
    match = AGE.fullmatch(value)
    return None if match is None else float(match[1]) * UNITS[match[2]]


def checked_reader(consumer: Consumer, queue: str, wall: float) -> ReaderOptions:
    """The options of a consumer; refuses one that streams cannot serve. ``queue``: its name in error messages."""
    if not consumer.is_limited:
        raise PreconditionFailed(f"consumer prefetch count is not set for stream {queue}: set it by basic.qos")
    if consumer.no_ack:
        raise Unsupported(f"automatic acknowledgement not supported by stream {queue}: consume with acks")
    return reader_options(consumer.arguments, wall)


def get_unsupported(queue: str) -> Unsupported:
    return Unsupported(f"basic.get not supported by stream queues {queue}: consume it with a prefetch")


def purge_unsupported(queue: str) -> Unsupported:
    return Unsupported(f"queue.purge not supported by stream queues {queue}: let retention remove messages")


def reader_options(arguments: Mapping[str, object], wall: float) -> ReaderOptions:
    filters = arguments.get("x-stream-filter")
    if isinstance(filters, str):
        filters = [filters]
    if filters is not None and (
        not isinstance(filters, list)
        or not 1 <= len(filters) <= MOST_FILTERS
        or not all(isinstance(each, str) for each in filters)
    ):
        raise PreconditionFailed(
            f"invalid arg 'x-stream-filter': {filters!r} is not a string or a list of 1 to {MOST_FILTERS} strings"
        )
    name = text(arguments, READER_NAME)
    pinned = flag(arguments, PINNED)
    if name == "" or (pinned and name is None):
        raise PreconditionFailed(f"invalid arg '{READER_NAME}': a pinned reader needs a name, which is not empty")
    return ReaderOptions(
        start=_start(arguments.get("x-stream-offset", "next"), wall),
        name=name,
        pinned=pinned,
        filters=None if filters is None else frozenset(filters),
        unfiltered=flag(arguments, "x-stream-match-unfiltered"),
    )


def _start(value: object, wall: float) -> str | int | float:
    if isinstance(value, str):
        if value in ("first", "last", "next"):
            return value
        seconds = interval(value)
        if seconds is not None:
            return wall - seconds
    elif isinstance(value, datetime):
        return value.timestamp()
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise PreconditionFailed(
        f"invalid arg 'x-stream-offset': {value!r}; accepted: first, last, next, an offset, a timestamp, or an "
        "interval such as 1h"
    )
