"""Definitions as rows: virtual hosts, users, permissions, exchanges, queues, bindings, parameters.

Only durable definitions become rows. Arguments are AMQP field tables as bytes, so every type in them, nested or not,
comes back as it was. A change either puts a row (in place of one with the same key) or drops one.
"""

from __future__ import annotations

from typing import NamedTuple


class VhostRow(NamedTuple):
    name: str
    max_queues: int | None
    max_connections: int | None


class UserRow(NamedTuple):
    """``password_hash`` is None for a user without a password, or whose configured password was never used yet."""

    name: str
    password_hash: str | None
    is_pending: bool  # the configured password becomes the hash at its first use
    tags: str  # with commas
    max_connections: int | None
    max_channels: int | None


class PermissionRow(NamedTuple):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(NamedTuple):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ExchangeRow(NamedTuple):
    vhost: str
    name: str
    kind: str
    auto_delete: bool
    internal: bool
    arguments: bytes


class QueueRow(NamedTuple):
    id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes


class BindingRow(NamedTuple):
    vhost: str
    source: str
    destination_kind: str  # queue or exchange
    destination: str
    key: str
    arguments: bytes


class ParameterRow(NamedTuple):
    """A parameter of a ``component``, such as a policy. ``value`` is JSON."""

    vhost: str
    component: str
    name: str
    value: bytes


Row = VhostRow | UserRow | PermissionRow | TopicPermissionRow | ExchangeRow | QueueRow | BindingRow | ParameterRow

KEYS: dict[type[Row], tuple[str, ...]] = {
    VhostRow: ("name",),
    UserRow: ("name",),
    PermissionRow: ("user", "vhost"),
    TopicPermissionRow: ("user", "vhost", "exchange"),
    ExchangeRow: ("vhost", "name"),
    QueueRow: ("id",),
    BindingRow: ("vhost", "source", "destination_kind", "destination", "key", "arguments"),
    ParameterRow: ("vhost", "component", "name"),
}


class Put(NamedTuple):
    row: Row


class Drop(NamedTuple):
    """``key``: the values of KEYS[kind], in that order."""

    kind: type[Row]
    key: tuple[str | int | bytes, ...]


Change = Put | Drop


class Definitions(NamedTuple):
    """All rows, in the order in which they were first put."""

    vhosts: list[VhostRow]
    users: list[UserRow]
    permissions: list[PermissionRow]
    topic_permissions: list[TopicPermissionRow]
    exchanges: list[ExchangeRow]
    queues: list[QueueRow]
    bindings: list[BindingRow]
    parameters: list[ParameterRow]
    highest_queue: int  # the highest id that any queue ever had
