"""Checks of a declaration: whether it is allowed and equivalent to the existing object. Errors name the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from leveret.errors import AccessRefused, PreconditionFailed, ResourceLocked
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.options import differing_argument
from leveret.routing.delayed import DELAYED_TYPE
from leveret.routing.exchange import ALTERNATE_EXCHANGE, Exchange


def check_same_exchange(current: Exchange, wanted: Exchange, vhost: str) -> None:
    what = f"exchange '{current.name}' in vhost '{vhost}'"
    _compare("type", what, wanted.kind, current.kind)
    _compare("durable", what, wanted.durable, current.durable)
    _compare("auto_delete", what, wanted.auto_delete, current.auto_delete)
    _compare("internal", what, wanted.internal, current.internal)
    _compare(DELAYED_TYPE, what, wanted.arguments.get(DELAYED_TYPE), current.arguments.get(DELAYED_TYPE))
    _compare(
        ALTERNATE_EXCHANGE, what, wanted.arguments.get(ALTERNATE_EXCHANGE), current.arguments.get(ALTERNATE_EXCHANGE)
    )


def check_same_queue(
    current: DeclaredQueue,
    vhost: str,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: Mapping[str, object],
) -> None:
    what = f"queue '{current.name}' in vhost '{vhost}'"
    if exclusive != (current.owner is not None):
        raise locked(current.name, vhost)
    _compare("durable", what, durable, current.durable)
    _compare("auto_delete", what, auto_delete, current.auto_delete)
    differing = differing_argument(current.arguments, arguments)
    if differing is not None:
        name, received, have = differing
        _compare(name, what, received, have)


def locked(queue: str, vhost: str) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. It could be originally declared "
        "on another connection or the exclusive property value does not match that of the original declaration."
    )


def _compare(name: str, what: str, received: object, current: object) -> None:
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {what}: received {_shown(received)} but current is {_shown(current)}"
        )


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"'{str(value).lower()}'"
    return f"'{value}'"


def refuse_reserved(name: str, kind: Literal["queue", "exchange"], vhost: str) -> None:
    if name.startswith("amq."):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")
