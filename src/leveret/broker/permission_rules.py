"""The permission rules: which permissions each operation needs on which objects, in every protocol.

``RULES`` is the whole list. AMQP, STOMP, the HTTP API, in-process calls, the permission check of the management API and
the permissions page of the guide all use it; ``broker/access.py`` compares a need with the permissions of a user.

An argument may name another object, or make the broker act on one: messages of a queue are dead-lettered to an
exchange, an exchange routes to queues by their names. The broker then does what the client could do itself, so the user
needs the permissions for that. A policy has the same effects and needs none of these permissions: setting a policy
requires the tag policymaker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from leveret.auth.permissions import Kind, TopicKind
from leveret.broker.internal_queues import SCHEDULE
from leveret.broker.vhost import Vhost
from leveret.queues.options import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_QUEUE,
    DEAD_LETTER_QUEUE_PREFIX,
    DEAD_LETTER_STRATEGY,
    INDIVIDUAL,
    SHARED,
    DeadLetterTo,
    dead_letter_target,
)
from leveret.queues.stream_options import PINNED, READER_NAME
from leveret.routing.direct import IMPLICIT_BINDINGS
from leveret.routing.exchange import ALTERNATE_EXCHANGE

Arguments = Mapping[str, object]
What = Literal["queue", "exchange"]
Operation = Literal[
    "declare queue",
    "delete queue",
    "pause queue",
    "move queue",
    "look at queue",
    "bind queue",
    "unbind queue",
    "consume",
    "get",
    "settle",
    "purge",
    "browse",
    "delete messages",
    "move messages",
    "receive moved messages",
    "publish",
    "list scheduled messages",
    "cancel scheduled message",
    "declare exchange",
    "delete exchange",
    "look at exchange",
    "bind exchange",
    "unbind exchange",
]
NO_ARGUMENTS: Arguments = MappingProxyType({})
GENERATED_NAME = "amq.gen-AAAAAAAAAAAAAAAAAAAAAA"  # stands for any server-generated queue name in permission checks


class Subject(NamedTuple):
    """The objects of an operation: ``name`` is the queue or exchange, ``source`` the source exchange of a binding.

    ``keys`` are the routing keys of a binding or a message, those in CC and BCC included.
    """

    name: str
    source: str = ""
    keys: Sequence[str] = ()
    arguments: Arguments = NO_ARGUMENTS


class Need(NamedTuple):
    """A permission on a queue or exchange. ``any``: one of configure, write and read is sufficient."""

    kind: Kind | Literal["any"]
    what: What
    name: str


class TopicNeed(NamedTuple):
    """A topic permission; without a ``key``, for every key. Checked for topic exchanges only.

    ``later``: the broker will route messages to the exchange from now on. The exchange may then be declared later, as a
    topic exchange, so the permission is checked for a missing exchange as well.
    """

    kind: TopicKind
    exchange: str
    key: str | None
    later: bool = False


Needs = Iterable[Need | TopicNeed]


class Rule(NamedTuple):
    """``text`` describes the needs on the permissions page; it is empty if they depend on arguments alone."""

    text: str
    needs: Callable[[Vhost, Subject], Needs]


def needs_of(vhost: Vhost, operation: Operation, subject: Subject) -> Iterator[Need | TopicNeed]:
    for rule in RULES[operation]:
        yield from rule.needs(vhost, subject)


# ---- permissions on the object itself


def _on(kind: Kind | Literal["any"], what: What) -> Rule:
    text = f"any permission on the {what}" if kind == "any" else f"{kind} {what}"
    return Rule(text, lambda vhost, of: (Need(kind, what, of.name),))


def _configure_exchange(vhost: Vhost, of: Subject) -> Needs:
    """The default exchange is refused for every user, whatever the permissions are."""
    return (Need("configure", "exchange", of.name),) if of.name else ()


# ---- publishing and binding


def _topics(vhost: Vhost, of: Subject) -> Needs:
    return [TopicNeed("write", of.name, key) for key in of.keys]


def _source_topics(vhost: Vhost, of: Subject) -> Needs:
    return [TopicNeed("read", of.source, key) for key in of.keys]


def _every_topic(vhost: Vhost, of: Subject) -> Needs:
    """A bound exchange receives messages with any key that reaches the source exchange."""
    return (TopicNeed("write", of.name, None, later=True),)


# ---- arguments


def _routed_to(exchange: str, key: str | None = None) -> Needs:
    return Need("write", "exchange", exchange), TopicNeed("write", exchange, key, later=True)


def _alternate_exchange(vhost: Vhost, of: Subject) -> Iterator[Need | TopicNeed]:
    alternate = of.arguments.get(ALTERNATE_EXCHANGE)
    if isinstance(alternate, str):
        yield Need("read", "exchange", of.name)
        yield from _routed_to(alternate)


def _implicit_bindings(vhost: Vhost, of: Subject) -> Iterator[Need]:
    """The exchange publishes to queues as the default exchange does. Checked for every type of exchange."""
    if of.arguments.get(IMPLICIT_BINDINGS):
        yield Need("read", "exchange", of.name)
        yield Need("write", "exchange", "")


def _dead_letters(vhost: Vhost, of: Subject) -> Iterator[Need | TopicNeed]:
    for target in _dead_letter_targets(of.arguments):
        key = target.key_of(of.name)
        yield Need("read", "queue", of.name)
        yield from _routed_to(target.exchange, key)
        if target.makes_queue and key is not None:
            yield Need("configure", "queue", key)


def _dead_letter_targets(arguments: Arguments) -> Iterator[DeadLetterTo]:
    """The dead-letter targets of these arguments, alone or combined with the strategy of a current or future policy."""
    strategy = arguments.get(DEAD_LETTER_STRATEGY)
    if isinstance(arguments.get(DEAD_LETTER_EXCHANGE), str) or strategy in (SHARED, INDIVIDUAL):
        strategies = [strategy]
    else:
        by_name = {SHARED: DEAD_LETTER_QUEUE, INDIVIDUAL: DEAD_LETTER_QUEUE_PREFIX}
        strategies = [each for each, name in by_name.items() if name in arguments]
    for each in strategies:
        target = dead_letter_target({**arguments, DEAD_LETTER_STRATEGY: each})
        if target is not None:
            yield target


def _pinned_reader(vhost: Vhost, of: Subject) -> Iterator[Need]:
    """Pinning stops retention, and consuming under the name of a pinned reader can end its pin."""
    reader = of.arguments.get(READER_NAME)
    if of.arguments.get(PINNED) or (isinstance(reader, str) and vhost.stream_offsets.is_pinned(of.name, reader)):
        yield Need("configure", "queue", of.name)


# ---- the rules

CONFIGURE_QUEUE, WRITE_QUEUE, READ_QUEUE = _on("configure", "queue"), _on("write", "queue"), _on("read", "queue")
CONFIGURE_EXCHANGE, WRITE_EXCHANGE = Rule("configure exchange", _configure_exchange), _on("write", "exchange")
WRITE_DEFAULT = Rule("write exchange amq.default", lambda vhost, of: (Need("write", "exchange", ""),))
WRITE_DESTINATION = Rule("write destination", WRITE_EXCHANGE.needs)
READ_SOURCE = Rule("read source", lambda vhost, of: (Need("read", "exchange", of.source),))
TOPICS, SOURCE_TOPICS = Rule("write topic", _topics), Rule("read topic", _source_topics)

RULES: dict[Operation, tuple[Rule, ...]] = {
    "declare queue": (CONFIGURE_QUEUE, Rule("", _dead_letters)),
    "delete queue": (CONFIGURE_QUEUE,),
    "pause queue": (CONFIGURE_QUEUE,),
    "move queue": (CONFIGURE_QUEUE,),
    "look at queue": (_on("any", "queue"),),
    "bind queue": (WRITE_QUEUE, READ_SOURCE, SOURCE_TOPICS),
    "unbind queue": (WRITE_QUEUE, READ_SOURCE, SOURCE_TOPICS),
    "consume": (READ_QUEUE, Rule("", _pinned_reader)),
    "get": (READ_QUEUE,),
    "settle": (),  # delivery tags belong to the channel or session that received the messages
    "purge": (READ_QUEUE,),
    "browse": (READ_QUEUE,),
    "delete messages": (READ_QUEUE,),
    "move messages": (READ_QUEUE, WRITE_DEFAULT),
    "receive moved messages": (WRITE_QUEUE, WRITE_DEFAULT),  # from a queue of another virtual host
    "publish": (WRITE_EXCHANGE, TOPICS),
    "list scheduled messages": (Rule(f"read queue {SCHEDULE}", lambda vhost, of: (Need("read", "queue", SCHEDULE),)),),
    "cancel scheduled message": (
        Rule(f"configure queue {SCHEDULE}", lambda vhost, of: (Need("configure", "queue", SCHEDULE),)),
    ),
    "declare exchange": (CONFIGURE_EXCHANGE, Rule("", _alternate_exchange), Rule("", _implicit_bindings)),
    "delete exchange": (CONFIGURE_EXCHANGE,),
    "look at exchange": (_on("any", "exchange"),),
    "bind exchange": (WRITE_DESTINATION, Rule("write every topic", _every_topic), READ_SOURCE, SOURCE_TOPICS),
    "unbind exchange": (WRITE_DESTINATION, READ_SOURCE, SOURCE_TOPICS),
}
