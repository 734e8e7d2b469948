"""Every key of policy definitions: the objects it applies to, its values, and how it is merged.

A key has the name of its argument without ``x-``, with a few exceptions. The smallest value of a *limit* applies,
whatever its source; operator policies have limits only. A key *about* nothing is accepted, because definitions made
for RabbitMQ contain it, but has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from leveret.errors import PreconditionFailed
from leveret.queues.leader_locator import LOCATORS
from leveret.queues.options import QueueOptions

About = Literal["queues", "exchanges", "nothing"]
Complaint = str | None
Check = Callable[[object], Complaint]

LARGEST = (1 << 53) - 1  # the largest whole number that every JSON parser reads exactly
LONGEST_TEXT = 255  # bytes: names and routing keys have to fit a short string
MOST_DELAYS = 100
MOST_SHARDS = 1_024


def whole(smallest: int = 0, largest: int = LARGEST) -> Check:
    def check(value: object) -> Complaint:
        if isinstance(value, bool) or not isinstance(value, int):
            return "is not a whole number"
        return None if smallest <= value <= largest else f"is not within {smallest}..{largest}"

    return check


def number(smallest: float, largest: float) -> Check:
    def check(value: object) -> Complaint:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "is not a number"
        return None if smallest <= value <= largest else f"is not within {smallest:g}..{largest:g}"

    return check


def text(value: object) -> Complaint:
    if not isinstance(value, str):
        return "is not a string"
    return None if len(value.encode(errors="replace")) <= LONGEST_TEXT else f"is longer than {LONGEST_TEXT} bytes"


def flag(value: object) -> Complaint:
    return None if isinstance(value, bool) else "is not true or false"


def one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"is not one of {', '.join(choices)}"


def delays(value: object) -> Complaint:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_DELAYS:
        return f"is not a list of 1 to {MOST_DELAYS} delays"
    complaints = [f"has {one!r}, which {wrong}" for one in value if (wrong := whole()(one))]
    return complaints[0] if complaints else None


def anything(value: object) -> Complaint:
    return None


class PolicyKey(NamedTuple):
    name: str
    about: About
    check: Check
    is_limit: bool = False
    for_operators: bool = False
    argument: str = ""  # its queue or exchange argument, if that is not "x-" plus the name
    needs: Mapping[str, object] = {}  # other arguments that its argument requires


def _limit(name: str, smallest: int, *, for_operators: bool = True) -> PolicyKey:
    return PolicyKey(name, "queues", whole(smallest), is_limit=True, for_operators=for_operators)


WITH_TARGET = {"x-dead-letter-exchange": ""}
WITH_DELAY = {"x-delayed-retry-min": 1}
WITH_DUPLICATES = {"x-message-deduplication": True}
LOCATOR_KEY = "queue-leader-locator"
ACTIVEMQ_STRATEGIES = ("shared", "individual")
RABBITMQ_STRATEGIES = ("at-most-once", "at-least-once")  # Leveret always uses the second

_KEYS = [
    # Limits.
    _limit("message-ttl", 0),
    _limit("expires", 1),
    _limit("max-length", 0),
    _limit("max-length-bytes", 0),
    _limit("delivery-limit", -1),
    _limit("consumer-timeout", 1, for_operators=False),
    # Overflow and dead-lettering.
    PolicyKey("overflow", "queues", one_of("drop-head", "reject-publish", "reject-publish-dlx")),
    PolicyKey("dead-letter-exchange", "queues", text),
    PolicyKey("dead-letter-routing-key", "queues", text, needs=WITH_TARGET),
    # Retries.
    PolicyKey("retry-delays", "queues", delays),
    PolicyKey("retry-delay-min", "queues", whole(1)),
    PolicyKey("retry-delay-max", "queues", whole(1), needs={"x-retry-delay-min": 1}),
    PolicyKey("retry-multiplier", "queues", number(1, 1_000), needs={"x-retry-delay-min": 1}),
    PolicyKey("retry-jitter", "queues", number(0, 1), needs={"x-retry-delay-min": 1}),
    PolicyKey("delayed-retry-type", "queues", one_of("disabled", "all", "failed", "returned"), needs=WITH_DELAY),
    PolicyKey("delayed-retry-min", "queues", whole(1)),
    PolicyKey("delayed-retry-max", "queues", whole(1), needs=WITH_DELAY),
    # Duplicates and groups.
    PolicyKey("message-deduplication", "queues", flag),
    PolicyKey("deduplication-header", "queues", text, needs=WITH_DUPLICATES),
    PolicyKey("deduplication-window-ms", "queues", whole(1), argument="x-cache-ttl", needs=WITH_DUPLICATES),
    PolicyKey("deduplication-window-count", "queues", whole(1), argument="x-cache-size", needs=WITH_DUPLICATES),
    PolicyKey("message-groups", "queues", flag),
    # Equivalents of ActiveMQ's destination policies.
    PolicyKey("dead-letter-strategy", "queues", one_of(*ACTIVEMQ_STRATEGIES, *RABBITMQ_STRATEGIES), needs=WITH_TARGET),
    PolicyKey("dead-letter-queue", "queues", text),
    PolicyKey("dead-letter-queue-prefix", "queues", text),
    PolicyKey("process-expired", "queues", flag),
    PolicyKey("process-non-persistent", "queues", flag),
    PolicyKey("max-redeliveries", "queues", whole(-1)),
    PolicyKey("pending-message-limit", "queues", whole()),
    # The disk.
    PolicyKey("durability", "queues", one_of("fsync", "os")),
    # The cell of a new queue.
    PolicyKey(LOCATOR_KEY, "queues", one_of(*LOCATORS)),
    # Exchanges.
    PolicyKey("alternate-exchange", "exchanges", text, argument="alternate-exchange"),
    PolicyKey("shards-per-node", "exchanges", whole(0, MOST_SHARDS)),
    PolicyKey("routing-key", "exchanges", text),
    PolicyKey("shard-queue-type", "exchanges", one_of("classic", "quorum", "stream")),
    PolicyKey("ordered-resize", "exchanges", flag),
    PolicyKey("sharded", "exchanges", flag),
    PolicyKey("max-age", "queues", text, needs={"x-queue-type": "stream"}),
    PolicyKey("stream-max-segment-size-bytes", "queues", whole(), needs={"x-queue-type": "stream"}),
    # Keys that appear in definitions made for RabbitMQ.
    PolicyKey("max-in-memory-length", "nothing", whole(), is_limit=True, for_operators=True),
    PolicyKey("max-in-memory-bytes", "nothing", whole(), is_limit=True, for_operators=True),
    *(
        PolicyKey(name, "nothing", anything)
        for name in (
            "ha-mode",
            "ha-params",
            "ha-promote-on-failure",
            "ha-promote-on-shutdown",
            "ha-sync-batch-size",
            "ha-sync-mode",
            "initial-cluster-size",
            "max-segment-size",
            "queue-master-locator",
            "queue-mode",
            "queue-version",
            "target-group-size",
        )
    ),
]

KEYS: dict[str, PolicyKey] = {key.name: key for key in _KEYS}
BY_ARGUMENT: dict[str, PolicyKey] = {key.argument or f"x-{key.name}": key for key in _KEYS}
ARGUMENTS: dict[str, str] = {key.name: argument for argument, key in BY_ARGUMENT.items()}
LIMITS = frozenset(argument for argument, key in BY_ARGUMENT.items() if key.is_limit)
# Fixed when the queue is declared: a policy cannot change them later.
ARGUMENT_ONLY = ("max-priority", "queue-type", "single-active-consumer")


def check_definition(definition: Mapping[str, object], operator: bool) -> None:
    """PreconditionFailed if the definition is invalid; the text names the key and the value."""
    if not definition:
        raise PreconditionFailed("no policy provided: the definition is empty, give it at least one key")
    for name, value in definition.items():
        key = _known(name, operator)
        complaint = key.check(value) or _complaint_of_options(key, value)
        if complaint is not None:
            raise PreconditionFailed(f"policy key '{name}': {value!r} {complaint}")


def _known(name: str, operator: bool) -> PolicyKey:
    if name in ARGUMENT_ONLY:
        raise PreconditionFailed(f"'{name}' cannot be set by a policy: declare the queue with the argument 'x-{name}'")
    key = KEYS.get(name)
    if key is None:
        raise PreconditionFailed(f"'{name}' is not a recognised policy setting; {_nearest(name)}")
    if operator and not key.for_operators:
        known = ", ".join(sorted(key.name for key in _KEYS if key.for_operators))
        raise PreconditionFailed(f"'{name}' is not a recognised operator policy setting; known are {known}")
    return key


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # needed for this error only

    near = get_close_matches(name[:LONGEST_TEXT], KEYS, 1)
    return f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(KEYS))}"


def _complaint_of_options(key: PolicyKey, value: object) -> Complaint:
    """The error that the same value causes as a queue argument: values are checked in one place."""
    if key.about != "queues":
        return None
    try:
        QueueOptions.of({**key.needs, ARGUMENTS[key.name]: value}, durable=True)
    except PreconditionFailed as refusal:
        return f"is refused: {refusal.text}"
    return None
