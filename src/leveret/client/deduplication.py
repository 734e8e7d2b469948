"""Queues of this broker that are declared to take each message id once: what a client sends twice is taken once."""

from __future__ import annotations

from copy import copy

from leveret.errors import PreconditionFailed
from leveret.wire import methods as m
from leveret.wire.fields import Table

TAKES_EACH_ONCE: Table = {"x-message-deduplication": True, "x-deduplication-header": "message-id"}


def with_deduplication(method: m.QueueDeclare) -> m.QueueDeclare | None:
    """The same queue with it; None if that cannot be, or if something was said about it."""
    kind = method.arguments.get("x-queue-type", "classic")
    if method.passive or method.exclusive or kind != "classic" or "x-message-deduplication" in method.arguments:
        return None
    wanted = copy(method)
    wanted.arguments = method.arguments | TAKES_EACH_ONCE
    return wanted


def exists_without_it(problem: PreconditionFailed) -> bool:
    return "x-message-deduplication" in problem.text
