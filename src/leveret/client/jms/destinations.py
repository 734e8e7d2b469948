"""Destinations: queues, topics, and temporary ones that are deleted with their connection.

A queue is a durable AMQP queue of the same name; messages are published to it by the default exchange. A topic is a
routing key of a topic exchange; ActiveMQ's wildcards ``*`` (one word) and ``>`` (all following words) become AMQP's
``*`` and ``#``.

As in ActiveMQ, the kind may precede a name and options may follow it:
``queue://orders?consumer.prefetchSize=10&consumer.exclusive=true``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qsl

from leveret.client.jms.errors import InvalidDestination
from leveret.client.messages import Delivery
from leveret.client.option_reader import Fixed, OptionReader
from leveret.wire.fields import Table

if TYPE_CHECKING:
    from leveret.client.jms.registrar import Registrar

LONGEST_NAME = 255  # bytes
LARGEST_PREFETCH = 0xFFFF
LEAST_PRIORITY, MOST_PRIORITY = -(1 << 31), (1 << 31) - 1
TOPIC_PREFIX = "topic://"
QUEUE_PREFIX = "queue://"
PREFIXES = (TOPIC_PREFIX, QUEUE_PREFIX, "temp-queue://", "temp-topic://")
CONSUMER = "consumer."
FIXED = {
    "dispatchAsync": Fixed(("true",), "a consumer never delays deliveries to other consumers; remove it"),
    "maximumPendingMessageLimit": Fixed(("0",), "limit the queues of subscribers by a policy"),
    "retroactive": Fixed(("false",), "topics store nothing for later subscribers: subscribe durably"),
}
"""Options without an effect, without ``consumer.``."""


@dataclass(slots=True, frozen=True)
class Layout:
    """How the destinations of a factory are represented on the broker."""

    queue_arguments: Table = field(default_factory=dict)  # for queues that are declared at their first use
    topic_exchange: str = "amq.topic"
    declares_queues: bool = True  # False: they must exist
    broker_selects: bool | None = None  # whether the broker supports selectors; None: if it is Leveret


class Destination:
    """``name`` is without the options; these are attributes."""

    PREFIX = ""

    def __init__(self, name: str) -> None:
        self.name, _, query = name.removeprefix(self.PREFIX).partition("?")
        if self.name.startswith(PREFIXES):
            raise InvalidDestination(f"'{self.name}' has a wrong prefix: a {type(self).__name__} is {self.PREFIX}NAME")
        refuse_wrong_length(self.name)
        given = dict(parse_qsl(query, keep_blank_values=True))
        options = OptionReader(given, InvalidDestination, f"'{self.name}'", prefix=CONSUMER, fixed=FIXED)
        self.prefetch = options.whole("prefetchSize", 0, LARGEST_PREFETCH)
        self.consumer_priority = options.whole("priority", LEAST_PRIORITY, MOST_PRIORITY)
        self.is_exclusive = bool(options.truth("exclusive"))
        self.is_without_local = bool(options.truth("noLocal"))
        self.selector = options.text("selector") or ""
        options.refuse_left()

    @classmethod
    def exactly(cls, name: str) -> Self:
        """For the name in a received message: a question mark is a part of it."""
        refuse_wrong_length(name)
        made = cls("-")
        made.name = name
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and self.reply_name == other.reply_name

    def __hash__(self) -> int:
        return hash(self.reply_name)

    # ---- in AMQP

    @property
    def reply_name(self) -> str:
        """Its name in the reply_to of a message."""
        raise NotImplementedError

    def route(self, layout: Layout) -> tuple[str, str]:
        """Exchange and routing key of messages for it."""
        raise NotImplementedError

    def of_delivery(self, delivery: Delivery) -> Destination:
        """The destination to which a message was sent that a consumer of this destination received."""
        return self


class Queue(Destination):
    """``is_ours`` False: it is not declared by this connection, such as a reply destination."""

    PREFIX = QUEUE_PREFIX

    def __init__(self, name: str, *, is_ours: bool = True) -> None:
        super().__init__(name)
        self.is_ours = is_ours

    @property
    def reply_name(self) -> str:
        return self.name

    def route(self, layout: Layout) -> tuple[str, str]:
        return "", self.name


class Topic(Destination):
    PREFIX = TOPIC_PREFIX

    @property
    def reply_name(self) -> str:
        return TOPIC_PREFIX + self.name

    @property
    def is_pattern(self) -> bool:
        return any(word in ("*", ">", "#") for word in self.name.split("."))

    @property
    def key(self) -> str:
        """The pattern of its binding."""
        return ".".join("#" if word == ">" else word for word in self.name.split("."))

    def route(self, layout: Layout) -> tuple[str, str]:
        if self.is_pattern:
            raise InvalidDestination(
                f"topic '{self.name}' has wildcards, which are for subscribers: send to one topic by its whole name"
            )
        return layout.topic_exchange, self.name

    def of_delivery(self, delivery: Delivery) -> Destination:
        return Topic.exactly(delivery.routing_key) if self.is_pattern and delivery.routing_key else self


class TemporaryQueue(Queue):
    """Created by a session, deleted with its connection or by ``delete()``. Only consumers of its own connection may
    receive from it; any client may send to it."""

    def __init__(self, name: str, registrar: Registrar) -> None:
        super().__init__(name, is_ours=False)
        self._registrar = registrar

    async def delete(self) -> None:
        await self._registrar.delete_temporary(self)


class TemporaryTopic(Topic):
    """Created by a session, deleted with its connection or by ``delete()``."""

    def __init__(self, name: str, registrar: Registrar) -> None:
        super().__init__(name)
        self._registrar = registrar

    async def delete(self) -> None:
        await self._registrar.delete_temporary(self)


def refuse_wrong_length(name: str) -> None:
    if not 0 < len(name.encode(errors="replace")) <= LONGEST_NAME:
        raise InvalidDestination(f"the name of a destination must have 1 to {LONGEST_NAME} bytes: '{name[:80]}'")


def destination_named(name: str) -> Queue | Topic:
    """``queue://NAME`` or ``topic://NAME``, with options or without. A plain name is a queue."""
    return Topic(name) if name.startswith(TOPIC_PREFIX) else Queue(name)


def named_in_reply_to(name: str) -> Destination | None:
    """The reply destination of a message, if it has one. A plain name is a queue, as in all AMQP clients."""
    if name in ("", TOPIC_PREFIX, QUEUE_PREFIX):
        return None
    if name.startswith(TOPIC_PREFIX):
        return Topic.exactly(name.removeprefix(TOPIC_PREFIX))
    queue = Queue.exactly(name.removeprefix(QUEUE_PREFIX))
    queue.is_ours = False
    return queue
