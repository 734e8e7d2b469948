"""The queue types: which class implements the options of a queue."""

from __future__ import annotations

from collections.abc import Mapping

from leveret.errors import PreconditionFailed
from leveret.queues.classic import ClassicQueue
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.queues.stream import StreamQueue
from leveret.queues.stream_options import STREAM, unfit


def make_queue(
    id_: int,
    name: str,
    vhost: str,
    options: QueueOptions,
    context: QueueContext,
    *,
    durable: bool = False,
    auto_delete: bool = False,
    owner: object | None = None,
    arguments: Mapping[str, object] | None = None,
) -> DeclaredQueue:
    if options.kind == STREAM:
        return StreamQueue(id_, name, vhost, options, context, arguments=arguments)
    return ClassicQueue(
        id_,
        name,
        vhost,
        options,
        context,
        durable=durable,
        auto_delete=auto_delete,
        owner=owner,
        arguments=arguments,
    )


def refuse_kind(options: QueueOptions, auto_delete: bool, is_named: bool) -> None:
    """Refuse properties of the declaration that the queue type does not support."""
    if options.kind == STREAM:
        if not is_named:
            raise PreconditionFailed("cannot declare a server-named queue for type stream: give it a name")
        if auto_delete:
            raise unfit("auto-delete")
