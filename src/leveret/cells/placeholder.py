"""What stands for a queue of this cell while it is neither here nor there, and which queues can be moved.

The placeholder is a RemoteQueue whose links are never connected: all that clients do with the queue waits, for as long
as for a cell that is away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from leveret.cells.home_cell import HomeCell
from leveret.cells.remote_queue import RemoteQueue
from leveret.errors import PreconditionFailed
from leveret.queues.classic import ClassicQueue
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import Declaration, DeclaredQueue


class Placeholder(RemoteQueue):
    """Stands for a queue while it is neither here nor there."""

    __slots__ = ("_on_deleted",)

    def __init__(
        self, declared: Declaration, context: QueueContext, cell: HomeCell, on_deleted: Callable[[], None]
    ) -> None:
        super().__init__(declared, context, cell)
        self._on_deleted = on_deleted

    def die(self) -> int:
        number = super().die()
        self._on_deleted()
        return number


def movable(queue: DeclaredQueue) -> ClassicQueue:
    """The queue, if it can be moved by this cell; else PreconditionFailed with the cause and the remedy."""
    name = queue.name
    if isinstance(queue, RemoteQueue):
        raise PreconditionFailed(f"queue '{name}' is in cell {queue.cell.name}")
    if queue.backlog is None:
        raise PreconditionFailed(
            f"queue '{name}' is a stream, which cannot be moved: declare a new one in the other cell"
        )
    if queue.owner is not None:
        raise PreconditionFailed(f"queue '{name}' is exclusive, and stays in the cell of its connection")
    pager = queue.backlog.pager
    if pager is not None and pager.leases is not None and pager.leases.number:
        raise PreconditionFailed(f"queue '{name}' has messages reserved for Spark: wait for the end of the query")
    return cast(ClassicQueue, queue)
