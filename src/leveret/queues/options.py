"""The x- arguments of queue.declare, checked once and converted to typed values.

No other module reads the argument table. Unknown arguments are stored with the queue and shown, but have no effect and
are never refused: clients written for newer brokers must be able to declare queues. Values from policies are converted
in the same way: they are merged into the arguments first (broker/policies.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from leveret.errors import PreconditionFailed
from leveret.message import Message
from leveret.queues.argument_kinds import (
    Arguments,
    flag,
    list_of_milliseconds,
    milliseconds,
    number,
    one_of,
    text,
    whole_number,
)
from leveret.queues.leader_locator import leader_locator
from leveret.queues.stream_options import STREAM, max_age, refuse_what_streams_cannot, segment_bytes

BATCH = 256  # messages at a time: each batch is one group of the log
NOWHERE = 0  # the sequence of a message that never had a place in the queue
REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"
MOST_DELAYS = 100
LONGEST = 365 * 86400.0
TYPES = ("disabled", "all", "failed", "returned")
MAX_PRIORITY = 255
MOST = (1 << 53) - 1
QUEUE_TYPE = "x-queue-type"
QUEUE_TYPES = ("classic", "quorum", STREAM)
DURABILITIES = ("fsync", "os")
DROP_HEAD, REJECT, REJECT_DLX = "drop-head", "reject-publish", "reject-publish-dlx"
DEAD_LETTER_EXCHANGE, DEAD_LETTER_STRATEGY = "x-dead-letter-exchange", "x-dead-letter-strategy"
DEAD_LETTER_QUEUE, DEAD_LETTER_QUEUE_PREFIX = "x-dead-letter-queue", "x-dead-letter-queue-prefix"
SHARED, INDIVIDUAL = "shared", "individual"
STRATEGIES = (SHARED, INDIVIDUAL, "at-most-once", "at-least-once")
QUORUM_DELIVERY_LIMIT = 20
ACTIVEMQ_REDELIVERIES = 6
DEFAULT_DEDUPLICATION_HEADER = "x-deduplication-header"
# Arguments that make two declarations different, as RabbitMQ compares them.
COMPARED = (
    "x-expires",
    "x-message-ttl",
    "x-max-priority",
    QUEUE_TYPE,
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-durability",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-retry-delays",
    "x-message-deduplication",
    "x-message-groups",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
)
USUAL = {QUEUE_TYPE: "classic"}  # declaring this value is equivalent to omitting it


class DeadMessage(NamedTuple):
    """A message that has left its lane and still has its place in the log.

    It leaves the queue without being consumed, for one of RabbitMQ's reasons in the x-death header: it expired, the
    queue is too long, a consumer rejected it, or it was delivered too often. The broker publishes it to the dead letter
    exchange, or drops it if the queue has none (``ClassicQueue.discard``).
    """

    lane: int
    sequence: int
    message: Message


def dead_messages(lane: int, sequence: int, messages: Sequence[Message]) -> list[DeadMessage]:
    """Make dead messages of messages with consecutive sequences."""
    return [DeadMessage(lane, place, message) for place, message in enumerate(messages, sequence)]


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The times at which a returned message is redelivered, in seconds.

    A plan is either a list of delays, one for each retry (x-retry-delays; after the last one the message is
    dead-lettered or dropped), or growing delays (x-retry-delay-min, -max, -multiplier, -jitter; RabbitMQ's
    x-delayed-retry-type, -min and -max grow with the delivery count), limited by the delivery limit of the queue.
    ``failed``: delay messages that were nacked or timed out; ``left``: delay messages of a consumer that was closed.
    """

    delays: tuple[float, ...] = ()
    shortest: float = 0.0
    longest: float = LONGEST
    multiplier: float | None = None  # None: the delay grows by the shortest delay with each delivery
    jitter: float = 0.0  # up to this fraction of a delay is subtracted, at random
    failed: bool = True
    left: bool = False

    @property
    def needs_limit(self) -> bool:
        """Whether the plan itself does not limit the number of retries."""
        return not self.delays

    def is_over(self, count: int) -> bool:
        """Whether a message with this delivery count is no longer retried."""
        return bool(self.delays) and count > len(self.delays)

    def delay(self, count: int, chance: float) -> float:
        """The delay of a message with this delivery count; ``chance`` is a random number within 0..1."""
        if self.delays:
            delay = self.delays[min(count, len(self.delays)) - 1]
        elif self.multiplier is None:
            delay = min(self.shortest * count, self.longest)
        else:
            delay = min(self.shortest * self.multiplier ** min(count - 1, 64), self.longest)
        return delay * (1.0 - self.jitter * chance)

    @staticmethod
    def of(arguments: Arguments) -> RetryPlan | None:
        delays = list_of_milliseconds(arguments, "x-retry-delays", MOST_DELAYS)
        shortest = milliseconds(arguments, "x-retry-delay-min", smallest=1)
        longest = milliseconds(arguments, "x-retry-delay-max", smallest=1)
        multiplier = number(arguments, "x-retry-multiplier", 1, 1000)
        jitter = number(arguments, "x-retry-jitter", 0, 1) or 0.0
        if delays is not None:
            if shortest is not None:
                raise PreconditionFailed("invalid args 'x-retry-delays' and 'x-retry-delay-min': give one of the two")
            return RetryPlan(delays=delays, jitter=jitter)
        if shortest is not None:
            _check_order(shortest, longest, "x-retry-delay")
            return RetryPlan(shortest=shortest, longest=longest or LONGEST, multiplier=multiplier or 2.0, jitter=jitter)
        return _as_rabbitmq(arguments)


def _check_order(shortest: float, longest: float | None, name: str) -> None:
    if longest is not None and longest < shortest:
        raise PreconditionFailed(f"invalid arg '{name}-max': it is below '{name}-min'")


def _as_rabbitmq(arguments: Arguments) -> RetryPlan | None:
    kind = one_of(arguments, "x-delayed-retry-type", TYPES)
    shortest = milliseconds(arguments, "x-delayed-retry-min", smallest=1)
    longest = milliseconds(arguments, "x-delayed-retry-max", smallest=1)
    if kind == "disabled" or (kind is None and shortest is None):
        return None
    if shortest is None:
        raise PreconditionFailed(f"invalid arg 'x-delayed-retry-type': '{kind}' needs 'x-delayed-retry-min'")
    _check_order(shortest, longest, "x-delayed-retry")
    kind = kind or "all"
    failed, left = kind in ("all", "failed"), kind in ("all", "returned")
    return RetryPlan(shortest=shortest, longest=longest or LONGEST, failed=failed, left=left)


@dataclass(frozen=True, slots=True)
class DeadLetterTo:
    """The dead-letter target of a queue. ``key_prefix``: the routing key is this prefix plus the name of the queue."""

    exchange: str
    key: str | None = None
    key_prefix: str | None = None
    makes_queue: bool = False  # the queue with this name is declared for the first dead letter
    takes_expired: bool = True
    takes_transient: bool = True

    def takes(self, reason: str, message: Message) -> bool:
        """Whether a message that leaves its queue for this reason is dead-lettered."""
        if reason == EXPIRED and not self.takes_expired:
            return False
        return self.takes_transient or message[2].persistent

    def key_of(self, queue: str) -> str | None:
        """The routing key for messages of this queue; None: each message keeps its own key."""
        return self.key if self.key_prefix is None else self.key_prefix + queue


@dataclass(frozen=True, slots=True)
class DuplicateWindow:
    """The time and the number of messages for which a queue stores IDs for deduplication; None: unlimited."""

    header: str
    seconds: float | None
    count: int | None


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The options of a queue; times in seconds."""

    ttl: float | None = None
    expires: float | None = None
    max_priority: int | None = None
    kind: str = "classic"
    durability: str | None = None  # None: the setting of the node
    max_length: int | None = None  # ready messages
    max_bytes: int | None = None  # of their bodies and headers
    overflow: str = DROP_HEAD
    discards: bool = False  # messages dropped by a limit are not dead-lettered
    dead_letter: DeadLetterTo | None = None
    delivery_limit: int | None = None  # redeliveries before a message is dead-lettered or dropped
    single_active: bool = False
    ack_timeout: float | None = None
    retry: RetryPlan | None = None
    duplicates: DuplicateWindow | None = None
    groups: bool = False
    max_age: float | None = None  # of messages in a stream
    segment_bytes: int | None = None  # of the files of a stream
    leader_locator: str | None = None  # None: the setting of the node

    @staticmethod
    def of(arguments: Mapping[str, object], durable: bool = False, exclusive: bool = False) -> QueueOptions:
        if not arguments:
            return NO_ARGUMENTS
        kind = _queue_type(arguments)
        if kind == "quorum" and (exclusive or not durable):
            wrong = "'exclusive' true" if exclusive else "'durable' false"
            raise PreconditionFailed(f"invalid property {wrong} for a queue of type quorum: declare it durable")
        if kind == STREAM:
            refuse_what_streams_cannot(arguments, durable, exclusive)
            return QueueOptions(
                kind=kind,
                durability=one_of(arguments, "x-durability", DURABILITIES),
                max_bytes=whole_number(arguments, "x-max-length-bytes", 0, MOST),
                max_age=max_age(arguments),
                segment_bytes=segment_bytes(arguments),
                leader_locator=leader_locator(arguments),
            )
        pending = whole_number(arguments, "x-pending-message-limit", 0, MOST)
        max_length = whole_number(arguments, "x-max-length", 0, MOST)
        lengths = [each for each in (pending, max_length) if each is not None]
        retry = RetryPlan.of(arguments)
        return QueueOptions(
            ttl=milliseconds(arguments, "x-message-ttl", smallest=0),
            expires=milliseconds(arguments, "x-expires", smallest=1),
            max_priority=whole_number(arguments, "x-max-priority", 0, MAX_PRIORITY),
            kind=kind,
            durability=one_of(arguments, "x-durability", DURABILITIES),
            max_length=min(lengths, default=None),
            max_bytes=whole_number(arguments, "x-max-length-bytes", 0, MOST),
            overflow=one_of(arguments, "x-overflow", (DROP_HEAD, REJECT, REJECT_DLX)) or DROP_HEAD,
            discards=pending is not None and pending == min(lengths),
            dead_letter=dead_letter_target(arguments),
            delivery_limit=_delivery_limit(arguments, kind, retry),
            single_active=flag(arguments, "x-single-active-consumer"),
            ack_timeout=milliseconds(arguments, "x-consumer-timeout", smallest=1),
            retry=retry,
            duplicates=_duplicates(arguments),
            groups=flag(arguments, "x-message-groups"),
            leader_locator=leader_locator(arguments),
        )


NO_ARGUMENTS = QueueOptions()  # a start restores thousands of such queues


def _queue_type(arguments: Arguments) -> str:
    kind = arguments.get(QUEUE_TYPE, USUAL[QUEUE_TYPE])
    if kind not in QUEUE_TYPES:
        raise PreconditionFailed(f"invalid arg 'x-queue-type': {kind!r}; this broker has {', '.join(QUEUE_TYPES)}")
    return str(kind)


def dead_letter_target(arguments: Arguments) -> DeadLetterTo | None:
    exchange = text(arguments, DEAD_LETTER_EXCHANGE)
    key = text(arguments, "x-dead-letter-routing-key")
    if exchange is not None:
        return DeadLetterTo(exchange, key)
    if key is not None and not _has_strategy(arguments):
        raise PreconditionFailed(
            "invalid arg 'x-dead-letter-routing-key' without 'x-dead-letter-exchange': give both, or neither"
        )
    return _strategy(arguments)


def _has_strategy(arguments: Arguments) -> bool:
    """Whether the strategy is one of ActiveMQ's. RabbitMQ's two values mean something else; here they behave alike."""
    return one_of(arguments, DEAD_LETTER_STRATEGY, STRATEGIES) in (SHARED, INDIVIDUAL)


def _strategy(arguments: Arguments) -> DeadLetterTo | None:
    """As in ActiveMQ: one dead letter queue for all queues, or one for each queue, declared when it is needed."""
    if not _has_strategy(arguments):
        return None
    strategy = arguments[DEAD_LETTER_STRATEGY]
    prefix = text(arguments, DEAD_LETTER_QUEUE_PREFIX)
    expired = arguments.get("x-process-expired") is None or flag(arguments, "x-process-expired")
    return DeadLetterTo(
        "",
        key=(text(arguments, DEAD_LETTER_QUEUE) or "ActiveMQ.DLQ") if strategy == SHARED else None,
        key_prefix=("DLQ." if prefix is None else prefix) if strategy == INDIVIDUAL else None,
        makes_queue=True,
        takes_expired=expired,
        takes_transient=flag(arguments, "x-process-non-persistent"),
    )


def _delivery_limit(arguments: Arguments, kind: str, retry: RetryPlan | None) -> int | None:
    limit = whole_number(arguments, "x-delivery-limit", -1, MOST)
    redeliveries = whole_number(arguments, "x-max-redeliveries", -1, MOST)
    given = [each for each in (limit, redeliveries) if each is not None]
    if given:
        return None if min(given) < 0 else min(given)  # -1: no limit
    if _has_strategy(arguments):
        return ACTIVEMQ_REDELIVERIES
    return QUORUM_DELIVERY_LIMIT if kind == "quorum" or (retry is not None and retry.needs_limit) else None


def _duplicates(arguments: Arguments) -> DuplicateWindow | None:
    if not flag(arguments, "x-message-deduplication"):
        return None
    count = whole_number(arguments, "x-cache-size", 1, MOST)
    seconds = milliseconds(arguments, "x-cache-ttl", smallest=1)
    if count is None and seconds is None:
        count = 100_000  # an unlimited window would grow forever
    return DuplicateWindow(text(arguments, "x-deduplication-header") or DEFAULT_DEDUPLICATION_HEADER, seconds, count)


def differing_argument(
    current: Mapping[str, object], received: Mapping[str, object]
) -> tuple[str, object, object] | None:
    """The first compared argument in which two declarations differ: (name, received, current)."""
    for name in COMPARED:
        usual = USUAL.get(name)
        have, wanted = current.get(name, usual), received.get(name, usual)
        if have != wanted or type(have) is not type(wanted):  # 10, 10.0 and true are different arguments
            return name, received.get(name), current.get(name)
    return None
