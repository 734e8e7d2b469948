"""The definitions that all cells of a cluster have, as items that can be sent and compared.

Virtual hosts, users, permissions and some parameters are rows of the definitions (store/definitions.py). Exchanges,
queues and bindings have items of their own, because transient ones are shared too, and a queue has a home. Those of a
virtual host that is in one cell are not shared (broker/vhost_cells.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from leveret.auth.permissions import AnyPermission
from leveret.broker.broker import Broker
from leveret.broker.parameters import COMPONENT as GLOBAL
from leveret.broker.parameters import NO_VHOST, SLOT_TABLES
from leveret.broker.plugins import COMPONENT as PLUGIN
from leveret.broker.plugins import PLUGINS
from leveret.broker.rows import POLICY_COMPONENTS, policy_row, rule_saved, user_row
from leveret.broker.schemas import COMPONENTS as SCHEMAS
from leveret.broker.tracing import COMPONENT as TRACING
from leveret.broker.tracing import is_traced
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_cells import COMPONENT as CELL
from leveret.broker.vhost_cells import NAME as CELL_NAME
from leveret.broker.vhost_metadata import COMPONENT as METADATA
from leveret.queues.declared_queue import DeclaredQueue, home_of
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.store.definitions import Drop, ParameterRow, PermissionRow, TopicPermissionRow, UserRow, VhostRow
from leveret.wire.fields import Table, decode_table, encode_table

# Of parameters.
COPIED = (SLOT_TABLES, METADATA, *SCHEMAS)  # components of parameters that mean nothing beyond their value
SHARED_COMPONENTS = frozenset((*POLICY_COMPONENTS.values(), GLOBAL, PLUGIN, CELL, TRACING, *COPIED))


class SharedExchange(NamedTuple):
    vhost: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes


class SharedQueue(NamedTuple):
    """``owner``: of an exclusive queue, the name by which its home cell knows the connection."""

    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    owner: str
    arguments: bytes
    home: str


class SharedBinding(NamedTuple):
    vhost: str
    source: str
    destination_kind: str
    destination: str
    key: str
    arguments: bytes


Item = (
    VhostRow
    | UserRow
    | PermissionRow
    | TopicPermissionRow
    | ParameterRow
    | SharedExchange
    | SharedQueue
    | SharedBinding
)
Key = tuple[str, ...]  # the name of the kind, and the first fields of the item

KINDS: dict[str, type[Item]] = {  # in the order in which they can be put
    "vhost": VhostRow,
    "user": UserRow,
    "permission": PermissionRow,
    "topic_permission": TopicPermissionRow,
    "parameter": ParameterRow,
    "exchange": SharedExchange,
    "queue": SharedQueue,
    "binding": SharedBinding,
}
NAMES = {kind: name for name, kind in KINDS.items()}
KEY_FIELDS = {
    "vhost": 1,
    "user": 1,
    "permission": 2,
    "topic_permission": 3,
    "parameter": 3,
    "exchange": 2,
    "queue": 2,
    "binding": 6,
}


class RemoteOwner(NamedTuple):
    """The connection in another cell that an exclusive queue belongs to."""

    cell: str
    connection: str


def key_of(item: Item) -> Key:
    name = NAMES[type(item)]
    return (name, *(field.hex() if isinstance(field, bytes) else str(field) for field in item[: KEY_FIELDS[name]]))


def table_of(arguments: bytes) -> Table:
    return decode_table(arguments, 0, len(arguments))[0]


def shared_exchange(vhost: str, exchange: Exchange) -> SharedExchange:
    arguments = encode_table(exchange.arguments)
    flags = exchange.durable, exchange.auto_delete, exchange.internal
    return SharedExchange(vhost, exchange.name, exchange.kind, *flags, arguments)


def declare_exchange(broker: Broker, item: SharedExchange, *, is_limited: bool) -> None:
    broker.vhost(item.vhost).declare_exchange(
        item.name,
        item.kind,
        durable=item.durable,
        auto_delete=item.auto_delete,
        internal=item.internal,
        arguments=table_of(item.arguments),
        is_limited=is_limited,
    )


def shared_queue(queue: DeclaredQueue, cell: str) -> SharedQueue:
    """``cell``: the own one."""
    owner = queue.owner.connection if isinstance(queue.owner, RemoteOwner) else getattr(queue.owner, "name", "")
    arguments = encode_table(queue.arguments)
    home = home_of(queue) or cell
    return SharedQueue(queue.vhost, queue.name, queue.durable, queue.auto_delete, owner, arguments, home)


def shared_binding(vhost: str, binding: Binding) -> SharedBinding:
    kind, name = binding.destination
    return SharedBinding(vhost, binding.source, kind, name, binding.key, encode_table(binding.arguments))


def binding_of(item: SharedBinding) -> Binding:
    destination = Destination("queue" if item.destination_kind == "queue" else "exchange", item.destination)
    return Binding(item.source, destination, item.key, table_of(item.arguments))


def is_shared(row: object) -> bool:
    """Whether a row of the definitions is shared as it is."""
    if isinstance(row, ParameterRow):
        return row.component in SHARED_COMPONENTS
    return isinstance(row, VhostRow | UserRow | PermissionRow | TopicPermissionRow)


def is_shared_key(change: Drop) -> bool:
    if change.kind is ParameterRow:
        return change.key[1] in SHARED_COMPONENTS
    return change.kind in (VhostRow, UserRow, PermissionRow, TopicPermissionRow)


def is_predeclared(exchange: str) -> bool:
    return not exchange or exchange.startswith("amq.")


def snapshot(broker: Broker, cell: str) -> list[Item]:
    """Everything that is shared, in an order in which it can be put."""
    items: list[Item] = []
    vhosts = broker.vhosts.values()
    items += [VhostRow(vhost.name, vhost.max_queues, vhost.max_connections) for vhost in vhosts]
    items += [user_row(user) for user in broker.users.list()]
    rules: list[AnyPermission] = [*broker.permissions.list(), *broker.permissions.list_topic()]
    items += [rule_saved(rule).row for rule in rules]  # type: ignore[misc]
    items += _parameters(broker)
    for vhost in vhosts:
        if not vhost.cell:
            items += _topology(vhost, cell)
    return items


def _parameters(broker: Broker) -> Iterator[ParameterRow]:
    for name, vhost in broker.vhosts.items():
        if vhost.cell:
            yield ParameterRow(name, CELL, CELL_NAME, vhost.cell.encode())
        yield from (policy_row(policy) for policy in broker.policies.list(name))
        for component in COPIED:
            for owned in vhost.parameters.names(component):
                yield ParameterRow(name, component, owned, vhost.parameters.get(component, owned) or b"")
        if is_traced(vhost):
            yield ParameterRow(name, TRACING, TRACING, b"true")
    for name in broker.parameters.names():
        yield ParameterRow(NO_VHOST, GLOBAL, name, json.dumps(broker.parameters.get(name)).encode())
    for plugin in PLUGINS:
        if not broker.plugins.is_enabled(plugin):
            yield ParameterRow(NO_VHOST, PLUGIN, plugin.name, b"true")


def _topology(vhost: Vhost, cell: str) -> Iterable[Item]:
    for exchange in vhost.exchanges.values():
        if not is_predeclared(exchange.name):
            yield shared_exchange(vhost.name, exchange)
    for queue in vhost.queues.values():
        yield shared_queue(queue, cell)
    for exchange in vhost.exchanges.values():
        yield from (shared_binding(vhost.name, binding) for binding in vhost.bindings.of_source(exchange.name))
