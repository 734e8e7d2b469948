"""The permissions that an operation needs because of its arguments.

An argument may name another object, or make the broker act on one: messages of a queue are dead-lettered to an
exchange, an exchange routes to queues by their names. The broker then does what the client could do itself, so the user
needs the permissions for that. Every protocol asks here. A policy has the same effects and needs none of these
permissions: setting one takes the tag policymaker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from leveret.broker.access import Need
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
from leveret.routing.bindings import Destination
from leveret.routing.direct import IMPLICIT_BINDINGS
from leveret.routing.exchange import ALTERNATE_EXCHANGE

Arguments = Mapping[str, object]


def exchange_needs(name: str, arguments: Arguments) -> Iterator[Need]:
    """Of declaring an exchange."""
    if name:
        yield Need("configure", "exchange", name)
    alternate = arguments.get(ALTERNATE_EXCHANGE)
    if isinstance(alternate, str):
        yield Need("read", "exchange", name)
        yield Need("write", "exchange", alternate, routes=True)
    if arguments.get(IMPLICIT_BINDINGS):  # whatever its type: it publishes to queues as the default exchange does
        yield Need("read", "exchange", name)
        yield Need("write", "exchange", "")


def queue_needs(name: str, arguments: Arguments) -> Iterator[Need]:
    """Of declaring a queue."""
    yield Need("configure", "queue", name)
    for target in _dead_letter_targets(arguments):
        key = target.key_of(name)
        yield Need("read", "queue", name)
        yield Need("write", "exchange", target.exchange, routes=True, key=key)
        if target.makes_queue and key is not None:
            yield Need("configure", "queue", key)


def _dead_letter_targets(arguments: Arguments) -> Iterator[DeadLetterTo]:
    """Where these arguments can lead dead letters: on their own, or with a strategy that a policy sets now or later."""
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


def binding_needs(source: str, destination: Destination) -> Iterator[Need]:
    """Of binding. Whatever key a message has at the source, an exchange gets it with that key."""
    yield Need("write", destination.kind, destination.name, routes=destination.kind == "exchange")
    yield Need("read", "exchange", source)


def unbinding_needs(source: str, destination: Destination) -> Iterator[Need]:
    yield Need("write", destination.kind, destination.name)
    yield Need("read", "exchange", source)


def consumer_needs(vhost: Vhost, queue: str, arguments: Arguments) -> Iterator[Need]:
    """Of consuming. Pinning stops retention, and consuming under the name of a pinned reader can end its pin."""
    yield Need("read", "queue", queue)
    reader = arguments.get(READER_NAME)
    if arguments.get(PINNED) or (isinstance(reader, str) and vhost.stream_offsets.is_pinned(queue, reader)):
        yield Need("configure", "queue", queue)
