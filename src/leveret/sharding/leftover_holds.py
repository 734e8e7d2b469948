"""Holds of a cell whose exchange is no longer resized in order: their messages move to the shards without the table.

A parameter of the cell has the owners of the slots at that time, so that a restart goes on with the move.
"""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.queues.declared_queue import DeclaredQueue
from leveret.sharding.hold import Hold
from leveret.sharding.slot_table import SlotTable, table_of

LEFT = "sharding-left"  # the component of these parameters; their names are those of the queues


class Leftover:
    """Moves the messages of a hold whose exchange is no longer resized in order (hold.SlotOwners)."""

    def __init__(self, vhost: Vhost, table: SlotTable) -> None:
        self._vhost, self._table = vhost, table

    @property
    def has_no_shard(self) -> bool:
        return not any(shard in self._vhost.queues for shard in self._table.shards)

    def target(self, slot: int) -> DeclaredQueue:
        queues = self._vhost.queues
        found = queues.get(self._table.owners[slot])
        return found or next(queues[shard] for shard in self._table.shards if shard in queues)

    def record(self) -> None: ...

    def drained(self, hold: Hold) -> None:
        hold.release()

    def last_stretch(self, hold: Hold) -> None: ...

    def freed(self, hold: Hold) -> None: ...

    def ended(self, hold: Hold) -> None:
        if hold.queue.name in self._vhost.internal.queues:
            self._vhost.internal.remove(hold.queue.name)
        self._vhost.parameters.drop(LEFT, hold.queue.name)


def move_leftovers(broker: Broker, vhost: Vhost) -> None:
    """Holds that the previous run of this cell had not moved to the end."""
    for name in vhost.parameters.names(LEFT):
        value, queue = vhost.parameters.get(LEFT, name), vhost.internal.queues.get(name)
        table = None if value is None else table_of(value, name, broker.cells.name)
        if queue is None or table is None:
            vhost.parameters.drop(LEFT, name)
        else:
            Hold(broker, vhost, name, queue, Leftover(vhost, table)).release()
