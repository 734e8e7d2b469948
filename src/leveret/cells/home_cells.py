"""All other cells, by virtual host, and the queues that are in them."""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.cells.home_cell import HomeCell
from leveret.cells.remote_queue import RemoteQueue
from leveret.cells.remote_replies import RemoteReplies, ReplyQueueProxy
from leveret.queues.context import RemoteQueues
from leveret.queues.declared_queue import Declaration


class HomeCells(RemoteQueues):
    """Create it before the definitions are restored, which may have queues of other cells."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._cells: dict[tuple[str, str], HomeCell] = {}
        self._on_added: Callable[[str, HomeCell], None] | None = None
        broker.cells.remote_queues = self
        for vhost in broker.vhosts.values():
            vhost.queue_context.remote_queues = self

    def of(self, vhost: str, cell: str) -> HomeCell:
        found = self._cells.get((vhost, cell))
        if found is None:
            found = self._cells[vhost, cell] = HomeCell(cell, self._broker)
            if self._on_added is not None:
                self._on_added(vhost, found)
        return found

    def watch(self, on_added: Callable[[str, HomeCell], None]) -> None:
        """Call this for every cell and virtual host with queues, present and future ones."""
        self._on_added = on_added
        for (vhost, _), cell in list(self._cells.items()):
            on_added(vhost, cell)

    def has(self, vhost: str, cell: HomeCell) -> bool:
        """Not if the virtual host was deleted: one that is created later with the same name has another object."""
        found = self._broker.vhosts.get(vhost)
        return found is not None and not found.cell and self._cells.get((vhost, cell.name)) is cell

    def forget(self, vhost: str, cell: HomeCell) -> None:
        """The virtual host was deleted, or is in one cell now."""
        if self._cells.get((vhost, cell.name)) is cell:
            del self._cells[vhost, cell.name]

    def reply_queue(self, vhost: str, cell: str, name: str) -> ReplyQueueProxy:
        home = self.of(vhost, cell)
        if home.replies is None:
            home.replies = RemoteReplies(vhost, home, self._broker.vhosts[vhost].queue_context)
        return ReplyQueueProxy(name, home.replies)

    def make_queue(self, declared: Declaration) -> RemoteQueue:
        context = self._broker.vhosts[declared.vhost].queue_context
        return RemoteQueue(declared, context, self.of(declared.vhost, declared.home))
