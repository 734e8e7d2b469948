"""The queue types, and the class that implements each of them."""

from __future__ import annotations

from leveret.errors import PreconditionFailed
from leveret.queues.classic import ClassicQueue
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import HERE, Declaration, DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.queues.stream import StreamQueue
from leveret.queues.stream_options import STREAM, unfit


def make_queue(declared: Declaration, context: QueueContext) -> DeclaredQueue:
    if declared.home != HERE:
        return context.remote_queues.make_queue(declared)
    kind = StreamQueue if declared.options.kind == STREAM else ClassicQueue
    return kind(declared, context)


def refuse_kind(options: QueueOptions, auto_delete: bool, is_named: bool) -> None:
    """Refuse properties of the declaration that the queue type does not support."""
    if options.kind == STREAM:
        if not is_named:
            raise PreconditionFailed("cannot declare a server-named queue for type stream: give it a name")
        if auto_delete:
            raise unfit("auto-delete")
