"""Durable objects as rows of the definitions, and a row as a policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from leveret.auth.permissions import AnyPermission, Permission
from leveret.auth.users import User
from leveret.broker.policy import Policy
from leveret.broker.policy_keys import LOCATOR_KEY
from leveret.errors import StoreError
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.leader_locator import without_unknown
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.store.definitions import (
    BindingRow,
    Change,
    Drop,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    Put,
    QueueRow,
    TopicPermissionRow,
    UserRow,
)
from leveret.wire.fields import encode_table

POLICY_COMPONENTS = {False: "policy", True: "operator_policy"}  # by whether it is an operator policy


def queue_row(queue: DeclaredQueue) -> QueueRow:
    return QueueRow(queue.id, queue.vhost, queue.name, queue.auto_delete, encode_table(queue.arguments))


def exchange_row(vhost: str, exchange: Exchange) -> ExchangeRow:
    arguments = encode_table(exchange.arguments)
    return ExchangeRow(vhost, exchange.name, exchange.kind, exchange.auto_delete, exchange.internal, arguments)


def binding_row(vhost: str, binding: Binding) -> BindingRow:
    kind, name = binding.destination
    return BindingRow(vhost, binding.source, kind, name, binding.key, encode_table(binding.arguments))


def user_row(user: User) -> UserRow:
    tags = ",".join(user.tags)
    pending = user.password_hash is None and user.pending_password is not None
    return UserRow(user.name, user.password_hash, pending, tags, user.max_connections, user.max_channels)


def policy_row(policy: Policy) -> ParameterRow:
    facts = {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "priority": policy.priority,
        "definition": policy.definition,
    }
    return ParameterRow(policy.vhost, POLICY_COMPONENTS[policy.operator], policy.name, json.dumps(facts).encode())


def policy_facts(row: ParameterRow) -> dict[str, Any]:
    """The row of a policy as the arguments of ``Policies.set``, which checks them."""
    try:
        facts = json.loads(row.value)
        return {
            "pattern": facts["pattern"],
            "definition": without_unknown(facts["definition"], LOCATOR_KEY),
            "apply_to": facts["apply-to"],
            "priority": facts["priority"],
            "operator": row.component == POLICY_COMPONENTS[True],
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise StoreError(f"its value is not a policy: {problem!r}") from None


def rule_saved(rule: AnyPermission) -> Put:
    if isinstance(rule, Permission):
        return Put(PermissionRow(rule.user, rule.vhost, rule.configure, rule.write, rule.read))
    return Put(TopicPermissionRow(rule.user, rule.vhost, rule.exchange, rule.write, rule.read))


def rule_dropped(rule: AnyPermission) -> Drop:
    if isinstance(rule, Permission):
        return Drop(PermissionRow, (rule.user, rule.vhost))
    return Drop(TopicPermissionRow, (rule.user, rule.vhost, rule.exchange))


class AuthRecords:
    """Changes of users and permissions, recorded before they take effect. ``forget_routes`` is called because cached
    publish routes depend on permissions."""

    def __init__(self, record: Callable[[Change], None], forget_routes: Callable[[], None]) -> None:
        self._record = record
        self._forget_routes = forget_routes

    def user_saved(self, user: User) -> None:
        self._record(Put(user_row(user)))

    def user_deleted(self, name: str) -> None:
        self._record(Drop(UserRow, (name,)))

    def rule_saved(self, rule: AnyPermission) -> None:
        self._record(rule_saved(rule))

    def rule_dropped(self, rule: AnyPermission) -> None:
        self._record(rule_dropped(rule))

    def rules_changed(self) -> None:
        self._forget_routes()
