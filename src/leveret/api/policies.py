"""Policies and operator policies of virtual hosts, and why a value holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.broker.policy import Policy
from leveret.broker.policy_merge import Explained
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed
from leveret.http.authorization import name_of, role_to_change, seen_vhost, vhost_to_change
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.rows import Row
from leveret.http.values import text_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.routing.exchange import Exchange


def routes(context: ApiContext) -> list[Route]:
    found: list[Route] = []
    for path, operator in (("/api/policies", False), ("/api/operator-policies", True)):
        policies = Policies(context, operator)
        one = f"{path}/{{vhost}}/{{name}}"
        found += [
            Route(path, policies.all),
            Route(f"{path}/{{vhost}}", policies.of_vhost),
            Route(one, policies.show),
            Route(one, policies.put, methods=["PUT"]),
            Route(one, policies.delete, methods=["DELETE"]),
        ]
    return [*found, Route("/api/policies-explained/{vhost}/{kind}/{name}", explained)]


def policy_row(policy: Policy) -> Row:
    return {"vhost": policy.vhost, "name": policy.name, **policy_value(policy)}


def policy_value(policy: Policy) -> Row:
    """As the value of a parameter."""
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def policy_given(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """As the arguments of ``Policies.set``, which checks the values."""
    for name in ("pattern", "definition"):
        if given.get(name) is None:
            raise BadRequest(f"{what} lacks '{name}': give a pattern and a definition")
    return {
        "pattern": given["pattern"],
        "definition": given["definition"],
        "apply_to": text_of(given, "apply-to", "all"),
        "priority": given.get("priority", 0),
    }


class Policies:
    """Of one of the two kinds."""

    def __init__(self, context: ApiContext, operator: bool) -> None:
        self._context = context
        self._broker = context.broker
        self._operator = operator

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        policies = [policy for vhost in visible_vhosts(request) for policy in self._of(vhost)]
        return await list_response(self._context, request, policies, policy_row)

    async def of_vhost(self, request: Request) -> Response:
        return await list_response(self._context, request, self._of(seen_vhost(request)), policy_row)

    async def show(self, request: Request) -> Response:
        return object_response(request, policy_row(self._policy(request, seen_vhost(request))))

    async def put(self, request: Request) -> Response:
        self._to_change(request)
        name = name_of(request, "name")
        given = policy_given(await read_object(request), f"{self._kind} '{name}'")
        vhost = self._to_change(request)  # it may have gone while the body came
        is_new = vhost.policies.get(name, self._operator) is None
        try:
            self._broker.policies.set(vhost.name, name, **given, operator=self._operator)
        except PreconditionFailed as problem:
            raise BadRequest(problem.text) from None
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        vhost = self._to_change(request)
        policy = self._policy(request, vhost)
        self._broker.policies.delete(vhost.name, policy.name, self._operator)
        await wait_until_durable(self._broker)
        return no_content()

    @property
    def _kind(self) -> str:
        return "operator policy" if self._operator else "policy"

    def _to_change(self, request: Request) -> Vhost:
        return vhost_to_change(request, role_to_change(POLICY_COMPONENTS[self._operator]))

    def _of(self, vhost: Vhost) -> list[Policy]:
        return [policy for policy in vhost.policies.in_order() if policy.operator == self._operator]

    def _policy(self, request: Request, vhost: Vhost) -> Policy:
        name = name_of(request, "name")
        policy = vhost.policies.get(name, self._operator)
        if policy is None:
            raise ObjectNotFound(f"no {self._kind} '{name}' in vhost '{vhost.name}': a PUT here makes it")
        return policy


async def explained(request: Request) -> Response:
    """Every value that an argument, a policy or a default gives, and which of them holds."""
    vhost = seen_vhost(request)
    kind, name = name_of(request, "kind"), name_of(request, "name")
    values = vhost.policies.explain(_thing(vhost, kind, name))
    return object_response(
        request,
        {
            "vhost": vhost.name,
            "kind": kind,
            "name": name,
            "effective": {each.key: each.value for each in values if each.is_effective},
            "values": [_value_row(each) for each in values],
        },
    )


def _value_row(each: Explained) -> Row:
    return {"key": each.key, "value": each.value, "source": each.source, "is_effective": each.is_effective}


def _thing(vhost: Vhost, kind: str, name: str) -> DeclaredQueue | Exchange:
    found: DeclaredQueue | Exchange | None
    if kind == "queue":
        found = vhost.queues.get(name)
    elif kind == "exchange":
        found = vhost.exchanges.get(name)
    else:
        raise BadRequest(f"'{kind}' is neither 'queue' nor 'exchange': name one of them in the path")
    if found is None:
        raise ObjectNotFound(f"no {kind} '{name}' in vhost '{vhost.name}'")
    return found
