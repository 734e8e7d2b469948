"""The parameters of a virtual host in RabbitMQ's sense: its limits and policies, as rows with a component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leveret.api.policies import policy_given, policy_value
from leveret.api.views.user import limits_given
from leveret.broker.broker import Broker
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.vhost import Vhost
from leveret.http.errors import BadRequest
from leveret.http.rows import Row
from leveret.http.values import excerpt

LIMITS, LIMITS_NAME = "vhost-limits", "limits"
VHOST_LIMITS = ("max-connections", "max-queues")
COMPONENTS = (LIMITS, *POLICY_COMPONENTS.values())


def parameters_of(vhost: Vhost, component: str | None = None) -> list[Row]:
    """The parameters of one component, or of all."""
    rows: list[Row] = []
    limits = vhost_limits_of(vhost)
    if limits:
        rows.append(_row(vhost, LIMITS, LIMITS_NAME, limits))
    for policy in vhost.policies.in_order():
        rows.append(_row(vhost, POLICY_COMPONENTS[policy.operator], policy.name, policy_value(policy)))
    return [row for row in rows if component in (None, row["component"])]


def _row(vhost: Vhost, component: str, name: str, value: object) -> Row:
    return {"value": value, "vhost": vhost.name, "component": component, "name": name}


def put_parameter(broker: Broker, vhost: Vhost, component: str, name: str, value: object) -> None:
    """Raises BadRequest or PreconditionFailed if the value is invalid."""
    if component == LIMITS:
        set_vhost_limits(broker, vhost, vhost_limits_given(name, value))
    else:
        given = policy_parameter_given(component, name, value)
        broker.policies.set(vhost.name, name, **given, operator=component == POLICY_COMPONENTS[True])


def policy_parameter_given(component: str, name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"the value of {component} '{name}' must be a table, not {excerpt(value)}")
    return policy_given({key: each for key, each in value.items() if each is not None}, f"{component} '{name}'")


def drop_parameter(broker: Broker, vhost: Vhost, component: str, name: str) -> None:
    """Delete an existing parameter."""
    if component == LIMITS:
        set_vhost_limits(broker, vhost, {})
    else:
        broker.policies.delete(vhost.name, name, component == POLICY_COMPONENTS[True])


# ---- limits of a virtual host


def vhost_limits_of(vhost: Vhost) -> dict[str, int]:
    both = {"max-connections": vhost.max_connections, "max-queues": vhost.max_queues}
    return {name: limit for name, limit in both.items() if limit is not None}


def vhost_limits_given(name: str, value: object) -> dict[str, int]:
    if name != LIMITS_NAME:
        raise BadRequest(f"the parameter of component '{LIMITS}' is named '{LIMITS_NAME}', not {excerpt(name)}")
    return limits_given(value, VHOST_LIMITS)


def set_vhost_limits(broker: Broker, vhost: Vhost, limits: Mapping[str, int | None]) -> None:
    broker.limit_vhost(vhost.name, max_queues=limits.get("max-queues"), max_connections=limits.get("max-connections"))
