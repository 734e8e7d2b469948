"""Import of definitions: first a plan of all changes, then the changes.

Theory of operation. The objects of the file are checked in the order in which RabbitMQ imports them: virtual hosts,
users, permissions, parameters, policies, exchanges, queues, bindings (import_checks.py, import_topology.py); schemas,
which RabbitMQ does not have, after policies. Each check yields a step, with the change that it would make, or a
problem. An object may refer to an earlier one that is only planned. If there is any problem, nothing is changed and the
response lists all problems. A dry run ends with the plan. Checking stops early in a file with too many problems.

Both passes run in time slices, and schemas are parsed in a thread, so other requests may change objects in between: the
first step that then fails ends the import, and the response reports the completed steps. Imports run one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from leveret.api.context import ApiContext
from leveret.api.import_checks import (
    check_global_parameter,
    check_parameter,
    check_permission,
    check_policy,
    check_schema,
    check_topic_permission,
    check_user,
    check_vhost,
    schema_in,
)
from leveret.api.import_plan import Impossible, Plan, Step
from leveret.api.import_topology import check_binding, check_exchange, check_queue, too_many_queues
from leveret.auth.passwords import hash_password
from leveret.errors import AmqpError, LeveretError
from leveret.http.authorization import LONGEST_NAME
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, Conflict
from leveret.http.rows import Row
from leveret.http.time_slice import TimeSlice
from leveret.http.values import excerpt

CHECKS: dict[str, Callable[[Plan, Row], Step]] = {
    "vhosts": check_vhost,
    "users": check_user,
    "permissions": check_permission,
    "topic_permissions": check_topic_permission,
    "parameters": check_parameter,
    "global_parameters": check_global_parameter,
    "policies": check_policy,
    "schemas": check_schema,
    "exchanges": check_exchange,
    "queues": check_queue,
    "bindings": check_binding,
}
OF_A_VHOST = ("parameters", "policies", "schemas", "exchanges", "queues", "bindings")
FACTS = {  # metadata of the export itself
    "rabbit_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "rabbitmq_definition_format",
    "original_cluster_name",
    "original_vhost_name",
    "explanation",
}
MOST_PROBLEMS = 10_000
REMEDIES = {
    "vhosts": "give it a valid name and description, or remove it",
    "users": "correct it in the file, or remove it and create the user with a new password",
    "permissions": "add the user and the vhost to the file, correct the patterns, or remove it",
    "topic_permissions": "add the user and the vhost to the file, correct the patterns, or remove it",
    "parameters": "correct its value, or remove it if its component is not supported",
    "global_parameters": "give it a name and a value, or remove it",
    "policies": "correct the pattern or the definition, or remove it",
    "schemas": "correct its text, type or version, delete the existing version, or remove it",
    "exchanges": "use a type and arguments that this broker supports, delete the existing exchange, or remove it",
    "queues": "change its name or arguments, delete the existing queue, or remove it",
    "bindings": "add its source and destination to the file, correct its arguments, or remove it",
}


async def planned(context: ApiContext, definitions: Row, into: str | None, *, hashes: bool) -> Plan:
    """``into``: the virtual host to import into; then only objects of virtual hosts are imported. Without ``hashes``
    plain passwords are not hashed, and the plan must not be carried out."""
    plan = Plan(context.broker, into)
    wanted = [section for section in CHECKS if into is None or section in OF_A_VHOST]
    plan.ignored = sorted(definitions.keys() - FACTS - {*wanted})
    time_slice = TimeSlice()
    checked = 0
    for section in wanted:
        rows = definitions.get(section) or []
        if not isinstance(rows, list):
            raise BadRequest(f"'{section}' must be a list, not {excerpt(rows)}")
        for row in rows:
            if section == "schemas":
                plan.schema = await context.in_worker(partial(schema_in, row))
            _check(plan, section, row)
            checked += 1
            if len(plan.problems) >= MOST_PROBLEMS:
                _refuse_problems(plan, f"{len(plan.problems)} of its first {checked} objects cannot be imported")
            if plan.to_hash is not None:
                await _hash(context, plan, hashes=hashes)
            await time_slice.pause_if_over()
    limits = [_problem("vhosts", {"name": name}, cause, remedy) for name, cause, remedy in too_many_queues(plan)]
    plan.problems += limits
    plan.can_skip = not limits  # they are not about single objects
    return plan


def _check(plan: Plan, section: str, row: object) -> None:
    try:
        if not isinstance(row, dict):
            raise BadRequest(f"it must be a table, not {excerpt(row)}")
        step = CHECKS[section](plan, {name: value for name, value in row.items() if value is not None})
        plan.steps.append(step)
    except Impossible as problem:
        plan.problems.append(_problem(section, row, problem.cause, problem.remedy))
    except LeveretError as problem:
        plan.problems.append(_problem(section, row, _text(problem), REMEDIES[section]))


async def _hash(context: ApiContext, plan: Plan, *, hashes: bool) -> None:
    """Hash the password of the user that was checked last."""
    password, plan.to_hash = plan.to_hash, None
    if hashes and password is not None:
        plan.made_hashes[plan.steps[-1].name] = await context.in_worker(lambda: hash_password(password))


def _problem(section: str, row: object, cause: str, remedy: str) -> Row:
    given: dict[str, Any] = row if isinstance(row, dict) else {}
    named = [key for key in ("name", "user", "source", "destination", "component") if key in given]
    told: Row = {key: _in_short(given[key]) for key in (*named, "vhost") if key in given}
    return {"kind": section, "vhost": None, **told, "cause": cause, "remedy": remedy}


def _in_short(value: object) -> object:
    """The value if it is a name, else an excerpt: it may be of any type and size."""
    return value if value is None or (isinstance(value, str) and len(value) <= LONGEST_NAME) else excerpt(value)


def _text(problem: LeveretError) -> str:
    return problem.text if isinstance(problem, AmqpError) else str(problem)


def refuse_problems(plan: Plan) -> None:
    if plan.problems:
        _refuse_problems(plan, f"{len(plan.problems)} of the objects cannot be imported")


def _refuse_problems(plan: Plan, how_many: str) -> NoReturn:
    raise BadRequest(
        f"nothing was imported: {how_many}, see 'problems'; a dry run shows the whole plan. The first: "
        f"{plan.problems[0]['cause']}",
        problems=plan.problems,
    )


async def carry_out(context: ApiContext, plan: Plan) -> None:
    """Make all changes of a plan; they are durable when this returns. Objects with problems are not part of it."""
    changes = [step for step in plan.steps if step.apply is not None]
    time_slice = TimeSlice()
    for number, step in enumerate(changes):
        _carry_out(step, number)
        context.broker.wake()
        await time_slice.pause_if_over()
    await wait_until_durable(context.broker)


def _carry_out(step: Step, before: int) -> None:
    assert step.apply is not None
    try:
        step.apply()
    except LeveretError as problem:
        told = {"kind": step.kind, "name": step.name, "vhost": step.vhost, "cause": _text(problem)}
        raise Conflict(
            f"the import stopped after {before} changes, which stay in effect: other requests changed objects "
            f"meanwhile. Import again, existing objects are unchanged. {_text(problem)}",
            problems=[{**told, "remedy": "import again"}],
        ) from None


def report(plan: Plan, *, is_dry_run: bool = True) -> Row:
    told: dict[str, list[Row]] = {"created": [], "changed": [], "existing": []}
    for step in plan.steps:
        told[step.state].append({"kind": step.kind, "name": step.name, "vhost": step.vhost})
    facts = {"problems": plan.problems, "can_skip": plan.can_skip, "ignored": plan.ignored}
    return {"dry_run": is_dry_run, **told, **facts}
