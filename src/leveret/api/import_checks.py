"""Checks of one object of a definitions file: whether it is valid, already exists, or needs a change.

Nothing is changed here. A check raises a LeveretError with the cause, or yields a Step. The checks of exchanges, queues
and bindings are in import_topology.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from leveret.api.import_plan import Impossible, Plan, Step, name_in, short_text_in, step_to
from leveret.api.policies import policy_given
from leveret.api.views.parameter import (
    COMPONENTS,
    LIMITS,
    policy_parameter_given,
    set_vhost_limits,
    vhost_limits_given,
    vhost_limits_of,
)
from leveret.api.views.schema import compatibility_given, schema_given
from leveret.api.views.user import Given, limits_of, user_given
from leveret.api.views.vhost import cell_given, metadata_given
from leveret.auth.permissions import Permission, TopicPermission, compile_pattern
from leveret.auth.users import User
from leveret.broker.policies import touched_by
from leveret.broker.policy import Policy, make_policy
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.schemas import HIGHEST_VERSION
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_cells import place_vhost, refuse_cell
from leveret.broker.vhost_metadata import metadata_of, note_metadata
from leveret.errors import LeveretError, PreconditionFailed
from leveret.http.errors import BadRequest
from leveret.http.rows import Row
from leveret.http.values import integer_of, text_of
from leveret.logs import get_log
from leveret.schemas.schema import MODES, Schema, checked_schema

# ---- users and virtual hosts


def check_vhost(plan: Plan, row: Row) -> Step:
    name = name_in(row)
    says_something = not row.keys().isdisjoint({"description", "tags", "metadata", "default_queue_type"})
    facts, cell = metadata_given(row), _cell(plan, name, row)
    plan.vhosts.add(name)
    plan.cells[name] = cell or ""
    here = plan.here(name)
    before = None if here is None else (metadata_of(here), here.cell)

    def apply() -> None:
        vhost = plan.broker.add_vhost(name)
        place_vhost(plan.broker, vhost, vhost.cell if cell is None else cell)
        if says_something:
            note_metadata(vhost, facts)

    after = None if before is None else (facts if says_something else before[0], before[1] if cell is None else cell)
    return step_to("vhosts", name, None, before, after, apply)


def _cell(plan: Plan, name: str, row: Row) -> str | None:
    """None leaves the virtual host where it is. A broker that is a single cell imports what others have exported."""
    cell = cell_given(row)
    if cell and not plan.broker.cells.names:
        plan.ignored.append(f"cell '{cell}' of vhost '{name}'")
        get_log("definitions").warning("cell of a virtual host ignored: no --cells", vhost=name, cell=cell)
        return None
    if cell is not None:
        try:
            refuse_cell(plan.broker, name, cell)
        except PreconditionFailed as problem:
            raise Impossible(
                problem.text, "name another cell, or remove 'cell': the virtual host spans all cells"
            ) from None
    return cell


def check_user(plan: Plan, row: Row) -> Step:
    name = name_in(row)
    given = user_given(name, row)
    plan.users.add(name)
    plan.to_hash = given.password
    before = plan.broker.users.get(name)

    def apply() -> None:
        limits = _limits(given, plan.broker.users.get(name))
        plan.broker.users.add(
            name,
            password_hash=plan.made_hashes[name] if given.password else given.password_hash,
            tags=given.tags,
            max_connections=limits.get("max-connections"),
            max_channels=limits.get("max-channels"),
        )

    after = (given.password or given.password_hash, given.tags, _limits(given, before))
    return step_to("users", name, None, _user_facts(before), after, apply)


def _limits(given: Given, before: User | None) -> Mapping[str, int]:
    if given.limits is not None:
        return given.limits
    return {} if before is None else limits_of(before)


def _user_facts(user: User | None) -> tuple[object, ...] | None:
    if user is None:
        return None
    return user.password_hash, list(user.tags), limits_of(user)


def check_permission(plan: Plan, row: Row) -> Step:
    user, vhost = _user_of(plan, row), plan.vhost_of(row)
    patterns = [_pattern(row, kind) for kind in ("configure", "write", "read")]
    permissions = plan.broker.permissions
    apply = partial(permissions.set, user, vhost, *patterns)
    return step_to("permissions", user, vhost, permissions.get(user, vhost), Permission(user, vhost, *patterns), apply)


def check_topic_permission(plan: Plan, row: Row) -> Step:
    user, vhost = _user_of(plan, row), plan.vhost_of(row)
    exchange = short_text_in(row, "exchange")
    rule = (user, vhost, exchange, _pattern(row, "write"), _pattern(row, "read"))
    before, after = plan.topic_rules.get((user, vhost, exchange)), TopicPermission(*rule)
    return step_to("topic_permissions", user, vhost, before, after, partial(plan.broker.permissions.set_topic, *rule))


def _user_of(plan: Plan, row: Row) -> str:
    user = name_in(row, "user")
    if user not in plan.users:
        raise Impossible(f"user '{user}' not found", "create the user first, or add it to the file under 'users'")
    return user


def _pattern(row: Row, kind: str) -> str:
    pattern = text_of(row, kind)
    compile_pattern(pattern)
    return pattern


# ---- parameters and policies


def check_parameter(plan: Plan, row: Row) -> Step:
    component, name = name_in(row, "component"), name_in(row)
    vhost = plan.vhost_of(row)
    if component not in COMPONENTS:
        raise Impossible(
            f"component {component} not found: known components are {', '.join(COMPONENTS)}",
            f"remove the parameter: this broker does not support component '{component}'",
        )
    if component != LIMITS:
        operator = component == POLICY_COMPONENTS[True]
        given = policy_parameter_given(component, name, row.get("value"))
        return _policy_step(plan, "parameters", vhost, name, given, operator)
    limits = vhost_limits_given(name, row.get("value", {}))
    plan.limits[vhost] = limits
    here = plan.here(vhost)
    before = {} if here is None else vhost_limits_of(here)

    def apply() -> None:
        set_vhost_limits(plan.broker, plan.broker.vhost(vhost), limits)

    return step_to("parameters", name, vhost, None if limits and not before else before, limits, apply)


def check_global_parameter(plan: Plan, row: Row) -> Step:
    name = name_in(row)
    if "value" not in row:
        raise BadRequest(f"global parameter '{name}' has no 'value'")
    value = row["value"]
    apply = partial(plan.broker.parameters.put, name, value)
    return step_to("global_parameters", name, None, plan.globals.get(name), value, apply)


def check_policy(plan: Plan, row: Row) -> Step:
    name, vhost = name_in(row), plan.vhost_of(row)
    return _policy_step(plan, "policies", vhost, name, policy_given(row, f"policy '{name}'"), operator=False)


def _policy_step(plan: Plan, kind: str, vhost: str, name: str, given: dict[str, Any], operator: bool) -> Step:
    policy = make_policy(vhost, name, **given, operator=operator)
    here = plan.here(vhost)
    before = None
    if here is not None:
        before = here.policies.get(name, operator)
        _refuse_slow(policy, here)
    plan.broker.plugins.refuse_policy(policy, before)

    def apply() -> None:
        plan.broker.policies.set(vhost, name, **given, operator=operator)

    return step_to(kind, name, vhost, before, policy, apply)


# ---- schemas


def schema_in(row: object) -> Schema | LeveretError | None:
    """The schema of a row, or why it is refused. It may take some time: call it in a thread."""
    try:
        given = {name: value for name, value in row.items() if value is not None} if isinstance(row, dict) else None
        return None if given is None else checked_schema(*schema_given(given))
    except LeveretError as problem:
        return problem


def check_schema(plan: Plan, row: Row) -> Step:
    """One version of a schema. Its compatibility with the version before was checked when it was added. A version that
    exists is accepted as it is: an earlier version of Leveret may have accepted more."""
    name, vhost = name_in(row), plan.vhost_of(row)
    number, mode = integer_of(row, "version", 1, HIGHEST_VERSION), compatibility_given(row, MODES[0])
    here, before = plan.here(vhost), None
    named = None if here is None else here.schemas.get(name)
    schema = plan.schema
    if isinstance(schema, LeveretError):
        problem, schema = schema, Schema(*schema_given(row))
        if named is None or named.versions.get(number) != schema.id:
            raise problem
    assert schema is not None
    if here is not None:
        here.schemas.refuse_other_version(name, schema, number)
        before = named.compatibility if named is not None and number in named.versions else None

    def apply() -> None:
        schemas = plan.broker.vhost(vhost).schemas
        schemas.refuse_other_version(name, schema, number)
        schemas.add(name, schema, mode, number)

    return step_to("schemas", name, vhost, before, mode, apply)


def _refuse_slow(policy: Policy, vhost: Vhost) -> None:
    try:
        touched_by(vhost, policy)
    except TimeoutError:
        raise Impossible(
            f"{policy.label}: pattern {policy.pattern!r} takes too long to match existing names", "use a simpler one"
        ) from None
