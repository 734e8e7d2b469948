"""The x- arguments of queue.declare, checked once at the door and turned into a typed value.

Nobody inside the house looks into an argument table again. What is not known here is kept with the queue and told to
whoever asks, but has no effect and is never refused: clients of newer brokers must be able to declare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leveret.errors import PreconditionFailed

MAX_PRIORITY = 255
LONGEST_MS = (1 << 53) - 1
QUEUE_TYPES = ("classic", "quorum")
DURABILITIES = ("fsync", "os")

# Arguments that make two declarations different, as RabbitMQ compares them.
COMPARED = (
    "x-expires",
    "x-message-ttl",
    "x-max-priority",
    "x-queue-type",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-durability",
)


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What the arguments ask for; times in seconds."""

    ttl: float | None = None
    expires: float | None = None
    max_priority: int | None = None
    kind: str = "classic"
    durability: str | None = None  # None: as the node

    @staticmethod
    def of(arguments: Mapping[str, object], durable: bool = False, exclusive: bool = False) -> QueueOptions:
        options = QueueOptions(
            ttl=_milliseconds(arguments, "x-message-ttl", smallest=0),
            expires=_milliseconds(arguments, "x-expires", smallest=1),
            max_priority=_whole_number(arguments, "x-max-priority", 0, MAX_PRIORITY),
            kind=_queue_type(arguments),
            durability=_durability(arguments),
        )
        if options.kind == "quorum" and (exclusive or not durable):
            wrong = "'exclusive' true" if exclusive else "'durable' false"
            raise PreconditionFailed(f"invalid property {wrong} for a queue of type quorum: declare it durable")
        return options


def _queue_type(arguments: Mapping[str, object]) -> str:
    kind = arguments.get("x-queue-type", "classic")
    if kind not in QUEUE_TYPES:
        raise PreconditionFailed(f"invalid arg 'x-queue-type': {kind!r}; this broker has {', '.join(QUEUE_TYPES)}")
    return str(kind)


def _durability(arguments: Mapping[str, object]) -> str | None:
    durability = arguments.get("x-durability")
    if durability is not None and durability not in DURABILITIES:
        raise PreconditionFailed(f"invalid arg 'x-durability': {durability!r}; accepted: {', '.join(DURABILITIES)}")
    return None if durability is None else str(durability)


def _milliseconds(arguments: Mapping[str, object], name: str, smallest: int) -> float | None:
    value = _whole_number(arguments, name, smallest, LONGEST_MS)
    return None if value is None else value / 1000


def _whole_number(arguments: Mapping[str, object], name: str, smallest: int, largest: int) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not a whole number")
    if not smallest <= value <= largest:
        raise PreconditionFailed(f"invalid arg '{name}': {value} is not within {smallest}..{largest}")
    return value


def differing_argument(
    current: Mapping[str, object], received: Mapping[str, object]
) -> tuple[str, object, object] | None:
    """The first compared argument in which two declarations differ: (name, received, current)."""
    for name in COMPARED:
        if current.get(name) != received.get(name):
            return name, received.get(name), current.get(name)
    return None
