"""Queues of this cell that were deleted, until the first cell has stored that.

Otherwise a queue that was deleted while the first cell was away would come back: the first cell still has it, and this
cell would take it for one that was declared meanwhile. They are parameters of the virtual host, in the same transaction
as the deletion, so a restart does not forget them. Their number has a bound: while the first cell is away, clients
cannot declare queues.
"""

from __future__ import annotations

from collections.abc import Container

from leveret.broker.broker import Broker
from leveret.cells.shared_definitions import Key
from leveret.queues.declared_queue import DeclaredQueue

REMOVED = "removed"  # component of the parameters


class RemovedQueues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def note(self, queue: DeclaredQueue) -> None:
        """Transient queues need no note: they are only in the cells that have them in memory."""
        vhost = self._broker.vhosts.get(queue.vhost)
        if queue.is_lasting and vhost is not None:
            vhost.parameters.put(REMOVED, queue.name, b"true")

    def has(self, vhost: str, name: str) -> bool:
        found = self._broker.vhosts.get(vhost)
        return found is not None and found.parameters.get(REMOVED, name) is not None

    def forget(self, vhost: str, name: str) -> None:
        """The first cell does not have the queue any more, or it was declared again."""
        if (found := self._broker.vhosts.get(vhost)) is not None:
            found.parameters.drop(REMOVED, name)

    def forget_all_but(self, known: Container[Key]) -> None:
        """``known``: the definitions of the first cell."""
        for vhost in self._broker.vhosts.values():
            for name in vhost.parameters.names(REMOVED):
                if ("queue", vhost.name, name) not in known:
                    vhost.parameters.drop(REMOVED, name)
