"""From durable things of the broker to rows of the definitions."""

from __future__ import annotations

from leveret.auth.permissions import Permission, TopicPermission
from leveret.auth.users import User
from leveret.queues.classic import ClassicQueue
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.store.definitions import (
    BindingRow,
    Drop,
    ExchangeRow,
    PermissionRow,
    Put,
    QueueRow,
    TopicPermissionRow,
    UserRow,
)
from leveret.wire.fields import encode_table


def queue_row(queue: ClassicQueue) -> QueueRow:
    return QueueRow(queue.id, queue.vhost, queue.name, queue.auto_delete, encode_table(queue.arguments))


def exchange_row(vhost: str, exchange: Exchange) -> ExchangeRow:
    arguments = encode_table(exchange.arguments)
    return ExchangeRow(vhost, exchange.name, exchange.kind, exchange.auto_delete, exchange.internal, arguments)


def binding_row(vhost: str, binding: Binding) -> BindingRow:
    kind, name = binding.destination
    return BindingRow(vhost, binding.source, kind, name, binding.key, encode_table(binding.arguments))


def user_row(user: User) -> UserRow:
    tags = ",".join(sorted(user.tags))
    pending = user.password_hash is None and user.pending_password is not None
    return UserRow(user.name, user.password_hash, pending, tags, user.max_connections, user.max_channels)


def rule_saved(rule: Permission | TopicPermission) -> Put:
    if isinstance(rule, Permission):
        return Put(PermissionRow(rule.user, rule.vhost, rule.configure, rule.write, rule.read))
    return Put(TopicPermissionRow(rule.user, rule.vhost, rule.exchange, rule.write, rule.read))


def rule_dropped(rule: Permission | TopicPermission) -> Drop:
    if isinstance(rule, Permission):
        return Drop(PermissionRow, (rule.user, rule.vhost))
    return Drop(TopicPermissionRow, (rule.user, rule.vhost, rule.exchange))
