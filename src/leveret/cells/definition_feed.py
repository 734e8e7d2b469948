"""The first cell: puts the changes of shared definitions in order, and reports them to the other cells.

Another cell gets everything when it connects, then each change, as frames on one connection. Its requests come on the
same connection: the answer follows the changes that the request has made, so a cell that has the answer has them too.

    {"definitions": [[kind, item], ...]}            first, and once
    {"put": [kind, item]}   {"drop": [kind, key]}   a change; the key is the first fields of the item
    {"id": 7}   {"id": 7, "error": [code, text]}    the answer to a request, see cells/definition_requests.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.cells.placement import Placement
from leveret.cells.shared_definitions import (
    NAMES,
    Item,
    is_shared,
    is_shared_key,
    shared_binding,
    shared_exchange,
    shared_queue,
    snapshot,
)
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.leader_locator import CLIENT_LOCAL
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.store.definitions import Change, Put

Frame = dict[str, Any]
Send = Callable[[Frame], None]


def packed(item: Item) -> list[Any]:
    return [NAMES[type(item)], msgspec.to_builtins(item)]


class DefinitionFeed:
    """A broker.cells.DefinitionWatcher. ``cell``: the name of this cell."""

    def __init__(self, broker: Broker, cell: str, locator: str = CLIENT_LOCAL) -> None:
        """``locator``: where new queues are."""
        self._broker = broker
        self._cell = cell
        self._placement = broker.cells.placement = Placement(broker, locator, self.connected)
        self._cells: dict[str, Send] = {}  # by name
        broker.cells.watcher, broker.cells.name = self, cell

    def join(self, cell: str, send: Send) -> None:
        """A cell has connected. A former connection of it counts no more."""
        self._cells[cell] = send
        send({"definitions": [packed(item) for item in snapshot(self._broker, self._cell)]})

    def connected(self) -> list[str]:
        """The other cells."""
        return sorted(self._cells)

    def leave(self, cell: str, send: Send) -> None:
        if self._cells.get(cell) == send:
            del self._cells[cell]

    def send_to(self, cell: str, frame: Frame) -> bool:
        """False if it is not connected."""
        send = self._cells.get(cell)
        if send is not None:
            send(frame)
        return send is not None

    def _put(self, item: Item) -> None:
        self._tell({"put": packed(item)})

    def _drop(self, kind: str, *key: str) -> None:
        self._tell({"drop": [kind, list(key)]})

    def _tell(self, frame: Frame) -> None:
        for send in list(self._cells.values()):
            send(frame)

    # ---- from the broker

    def recorded(self, change: Change) -> None:
        if isinstance(change, Put):
            if is_shared(change.row):
                self._put(change.row)  # type: ignore[arg-type]
        elif is_shared_key(change):
            self._drop(NAMES[change.kind], *[str(field) for field in change.key])  # type: ignore[index]

    def exchange_added(self, vhost: Vhost, exchange: Exchange) -> None:
        self._put(shared_exchange(vhost.name, exchange))

    def exchange_removed(self, vhost: Vhost, name: str) -> None:
        self._drop("exchange", vhost.name, name)

    def queue_added(self, vhost: Vhost, queue: DeclaredQueue) -> None:
        self._placement.added(queue)
        self._put(shared_queue(queue, self._cell))

    def queue_moved(self, queue: DeclaredQueue) -> None:
        """To another cell."""
        self._placement.moved()
        self._put(shared_queue(queue, self._cell))

    def queue_removed(self, vhost: Vhost, queue: DeclaredQueue) -> None:
        self._placement.removed(queue)
        self._drop("queue", vhost.name, queue.name)

    def bound(self, vhost: Vhost, binding: Binding) -> None:
        self._put(shared_binding(vhost.name, binding))

    def unbound(self, vhost: Vhost, binding: Binding) -> None:
        self._tell({"drop": packed(shared_binding(vhost.name, binding))})
