"""Another cell than the first: its copy of the shared definitions.

Each change is applied as the first cell reports it, and recorded in the own definitions: at the next start the cell has
them before it reaches the first one. When it has connected, everything is compared.

Queues are an exception: only their home cell knows whether they exist. A queue of this cell that the first one does not
know, because it was restarted and the queue is transient, is reported to it; one that the first cell knows and this one
does not is reported as removed, unless it is durable and was not deleted here: then it was declared while this cell was
away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.parameters import COMPONENT as GLOBAL
from leveret.broker.parameters import LEFT_CELLS, SLOT_TABLES
from leveret.broker.plugins import COMPONENT as PLUGIN
from leveret.broker.plugins import find_plugin
from leveret.broker.restoration import restore_parameter, restore_user
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.tracing import COMPONENT as TRACING
from leveret.broker.tracing import set_tracing
from leveret.broker.vhost_cells import COMPONENT as CELL
from leveret.cells.removed_queues import RemovedQueues
from leveret.cells.shared_definitions import (
    COPIED,
    KEY_FIELDS,
    KINDS,
    Item,
    Key,
    RemoteOwner,
    SharedBinding,
    SharedExchange,
    SharedQueue,
    binding_of,
    declare_exchange,
    is_predeclared,
    key_of,
    snapshot,
    table_of,
)
from leveret.errors import LeveretError
from leveret.logs import get_log
from leveret.queues.declared_queue import HERE
from leveret.store.definitions import (
    ParameterRow,
    PermissionRow,
    Put,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)


class QueueHomes(Protocol):
    def held(self) -> list[list[str]]:
        """Moves that the first cell has to decide: number, virtual host, queue and cell."""

    def rehome(self, vhost_name: str, name: str, home: str) -> None:
        """The home of the queue, as the first cell has it: the queue may have moved."""

    def confirm_arrival(self, vhost_name: str, name: str) -> bool:
        """The first cell has this cell as the home of the queue, or had it when it was deleted. Whether it has moved
        here, and the first cell has not confirmed that before."""


class DefinitionCopy:
    """``cell``: the name of this cell."""

    def __init__(self, broker: Broker, cell: str, default_user: str = "", default_password: str = "") -> None:
        self.applying: Key | None = None  # the last change of the first cell
        self._broker = broker
        self._cell = cell
        self._default_user, self._default_password = default_user, default_password
        self._log = get_log("cells").bind(cell=cell)
        self.moves: QueueHomes | None = None
        self.removed = RemovedQueues(broker)

    # ---- everything

    def compare(self, items: Iterable[Item], is_reported: bool = True) -> tuple[list[Item], list[SharedQueue]]:
        """Make the own definitions equal to these. Returns what the first cell must be told: queues of this cell that
        it lacks, with their bindings, and queues that do not exist here any more. ``is_reported`` False: it may not
        have got all that the last comparison has returned."""
        wanted = {key_of(item): item for item in items}
        known = wanted if is_reported else {}  # their bindings too
        self._follow_placements(wanted.values())
        for item in reversed(snapshot(self._broker, self._cell)):
            key = key_of(item)
            is_replaced = isinstance(item, SharedExchange | SharedQueue) and not _is_same(wanted.get(key), item)
            if (key not in wanted or is_replaced) and not self._is_own(item, known):
                self.drop(key[0], _fields(item)[: KEY_FIELDS[key[0]]])  # its bindings go with it
        existing = {key_of(item): item for item in snapshot(self._broker, self._cell)}
        gone: list[SharedQueue] = []
        for key, item in wanted.items():
            if isinstance(item, SharedQueue) and item.home == self._cell and key not in existing:
                if item.durable and not item.owner and not self.removed.has(item.vhost, item.name):
                    self.put(item)  # declared while this cell was away
                else:
                    gone.append(item)
            elif existing.get(key) != item:
                self.put(item)
        self.removed.forget_all_but(wanted)
        held = [] if self.moves is None else self.moves.held()
        undecided = {("queue", vhost, queue) for _, vhost, queue, _ in held}
        present = snapshot(self._broker, self._cell)  # with what policies have added
        lacking = [item for item in present if key_of(item) not in wanted and self._is_own(item, known)]
        return [item for item in lacking if key_of(item) not in undecided or not _is_durable(item)], gone

    def _follow_placements(self, items: Iterable[Item]) -> None:
        """Before anything is compared: what a virtual host has, of which this cell is the home now, is not shared. A
        virtual host that was in another cell was deleted and created again since then."""
        placed = {item.vhost: item for item in items if isinstance(item, ParameterRow) and item.component == CELL}
        for vhost in list(self._broker.vhosts.values()):
            item = placed.get(vhost.name)
            cell = "" if item is None else item.value.decode()
            if vhost.cell and vhost.cell != cell:
                self.drop("vhost", [vhost.name])
            elif item is not None and not vhost.cell:
                self.put(item)

    def _is_own(self, item: Item, known: Mapping[Key, Item]) -> bool:
        """A queue of this cell, or a binding of one that the first cell does not know; it decides about bindings of
        others. The shards of this cell may have moved while it was out of service."""
        if isinstance(item, SharedQueue):
            return item.home == self._cell
        if isinstance(item, SharedBinding) and item.destination_kind == "queue":
            queue, shards = self._broker.vhosts[item.vhost].queues.get(item.destination), self._broker.cells.shards
            is_shard = shards is not None and shards.has_bound(item.vhost, item.source, item.destination)
            is_unknown = ("queue", item.vhost, item.destination) not in known
            return queue is not None and ((queue.home is None and is_unknown) or is_shard)
        return False

    # ---- one change

    def put(self, item: Item) -> None:
        self.applying = key_of(item)
        try:
            self._put(item)
        except LeveretError as problem:
            self._log.error("shared definition cannot be applied", definition=str(key_of(item)), reason=str(problem))

    def _put(self, item: Item) -> None:
        broker = self._broker
        if isinstance(item, VhostRow):
            broker.add_vhost(item.name, max_queues=item.max_queues, max_connections=item.max_connections)
            broker.limit_vhost(item.name, max_queues=item.max_queues, max_connections=item.max_connections)
        elif isinstance(item, UserRow):
            broker.record(Put(item))
            restore_user(broker, item, self._default_password if item.name == self._default_user else None)
        elif isinstance(item, PermissionRow):
            broker.permissions.set(*item)
        elif isinstance(item, TopicPermissionRow):
            broker.permissions.set_topic(*item)
        elif isinstance(item, ParameterRow):
            if item.component == PLUGIN:
                broker.plugins.disable(find_plugin(item.name))
            elif item.component == TRACING:
                set_tracing(broker, broker.vhost(item.vhost), True)
            else:
                restore_parameter(broker, item)
                self._tell_shards(item.vhost, item.component, item.name)
        elif isinstance(item, SharedExchange):
            declare_exchange(broker, item, is_limited=False)
        elif isinstance(item, SharedQueue):
            self._put_queue(item)
        else:
            broker.vhost(item.vhost).bind(binding_of(item), is_limited=False)

    def lacks_own(self, item: SharedQueue) -> bool:
        """Whether it is a queue of this cell that could not be declared, or whose connection is closed."""
        if item.home != self._cell:
            return False
        vhost = self._broker.vhosts.get(item.vhost)
        return vhost is not None and item.name not in vhost.queues

    def _tell_shards(self, vhost: str, component: str, name: str) -> None:
        shards = self._broker.cells.shards
        if shards is not None and component == SLOT_TABLES:
            shards.table_changed(vhost, name)
        elif shards is not None and (component, name) == (GLOBAL, LEFT_CELLS):
            shards.members_changed()

    def _put_queue(self, item: SharedQueue) -> None:
        vhost = self._broker.vhost(item.vhost)
        if item.name in vhost.queues:
            if self.moves is not None:
                self.moves.rehome(item.vhost, item.name, item.home)
            return
        is_here = item.home == self._cell
        if is_here and self.moves is not None and self.moves.confirm_arrival(item.vhost, item.name):
            return  # it was deleted since it moved here
        owner: object | None = None
        if item.owner:
            owner = self._connection(item.owner) if is_here else RemoteOwner(item.home, item.owner)
            if owner is None:
                return  # the connection is closed
        vhost.declare_queue(
            item.name,
            durable=item.durable,
            exclusive=owner is not None,
            auto_delete=item.auto_delete,
            arguments=table_of(item.arguments),
            owner=owner,
            is_made_up=True,
            home=HERE if is_here else item.home,
            is_limited=False,
        )

    def _connection(self, name: str) -> object | None:
        return next((each for each in self._broker.registry.connections if each.name == name), None)

    def drop(self, kind: str, key: list[Any]) -> None:
        is_binding = kind == "binding"
        self.applying = key_of(msgspec.convert(key, SharedBinding)) if is_binding else (kind, *map(str, key))
        try:
            self._drop(kind, key)
        except LeveretError as problem:
            self._log.debug("shared definition cannot be removed", definition=str((kind, key)), reason=str(problem))

    def _drop(self, kind: str, key: list[Any]) -> None:
        broker = self._broker
        if kind == "vhost":
            broker.delete_vhost(key[0])
        elif kind == "user":
            broker.users.delete(key[0])
        elif kind == "permission":
            broker.permissions.clear(key[0], key[1])
        elif kind == "topic_permission":
            broker.permissions.clear_topic(key[0], key[1], key[2])
        elif kind == "parameter":
            self._drop_parameter(*key[:3])
        elif key[0] in broker.vhosts:
            vhost = broker.vhosts[key[0]]
            if kind == "exchange":
                if not is_predeclared(key[1]):
                    vhost.delete_exchange(key[1])
            elif kind == "queue":
                if (queue := vhost.queues.get(key[1])) is not None:
                    vhost.remove_queue(queue)
            else:
                vhost.unbind(binding_of(msgspec.convert(key, SharedBinding)))

    def _drop_parameter(self, vhost: str, component: str, name: str) -> None:
        broker = self._broker
        if component == CELL:
            return  # goes with the virtual host
        if component == PLUGIN:
            broker.plugins.enable(find_plugin(name))
        elif component == GLOBAL:
            broker.parameters.drop(name)
            self._tell_shards(vhost, component, name)
        elif component in COPIED:
            broker.vhost(vhost).parameters.drop(component, name)
        elif component == TRACING:
            set_tracing(broker, broker.vhost(vhost), False)
        else:
            broker.policies.delete(vhost, name, operator=component == POLICY_COMPONENTS[True])


def _is_same(wanted: Item | None, item: Item) -> bool:
    """A queue that has moved is the same one."""
    if isinstance(wanted, SharedQueue) and isinstance(item, SharedQueue):
        return wanted._replace(home=item.home) == item
    return wanted == item


def _is_durable(item: Item) -> bool:
    """Whether it is a queue that the first cell cannot have forgotten: it was deleted."""
    return isinstance(item, SharedQueue) and item.durable


def unpacked(pair: list[Any]) -> Item:
    kind, fields = pair
    return msgspec.convert(fields, KINDS[kind])


def _fields(item: Item) -> list[Any]:
    return list(msgspec.to_builtins(item))
