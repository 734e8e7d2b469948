"""Policies and operator policies of virtual hosts, and the source of each value in effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of, vhost_lists
from leveret.broker.policy import Policy
from leveret.broker.policy_merge import Explained
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import as_bad_request
from leveret.http.authorization import name_of, role_to_change, seen_vhost, vhost_to_change
from leveret.http.bodies import read_object
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.rows import Row, WholeRows
from leveret.http.values import text_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.routing.exchange import Exchange


def routes(context: ApiContext) -> list[Route]:
    found: list[Route] = []
    for path, operator in (("/api/policies", False), ("/api/operator-policies", True)):
        policies = Policies(context, operator)
        found += vhost_lists(context, path, POLICY_ROWS, policies.found)
        found += routes_of(f"{path}/{{vhost}}/{{name}}", GET=policies.show, PUT=policies.put, DELETE=policies.delete)
    return [*found, Route("/api/policies-explained/{vhost}/{kind}/{name}", explained)]


def policy_row(policy: Policy) -> Row:
    return {"vhost": policy.vhost, "name": policy.name, **policy_value(policy)}


def policy_value(policy: Policy) -> Row:
    """The policy as the value of a parameter."""
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def policy_given(given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The arguments of ``Policies.set``, which checks the values."""
    for name in ("pattern", "definition"):
        if given.get(name) is None:
            raise BadRequest(f"{what} is missing '{name}': a policy needs a pattern and a definition")
    return {
        "pattern": given["pattern"],
        "definition": given["definition"],
        "apply_to": text_of(given, "apply-to", "all"),
        "priority": given.get("priority", 0),
    }


POLICY_ROWS = WholeRows(("vhost", "name", "pattern", "apply-to", "definition", "priority"), policy_row)


class Policies(Endpoints):
    """Policies, or operator policies."""

    def __init__(self, context: ApiContext, operator: bool) -> None:
        super().__init__(context)
        self._operator = operator

    def found(self, request: Request, vhosts: Sequence[Vhost]) -> list[Policy]:
        policies = [policy for vhost in vhosts for policy in vhost.policies.in_order()]
        return [policy for policy in policies if policy.operator == self._operator]

    async def show(self, request: Request) -> Response:
        return object_response(request, policy_row(self._policy(request, seen_vhost(request))))

    async def put(self, request: Request) -> Response:
        self._to_change(request)
        name = name_of(request, "name")
        given = policy_given(await read_object(request), f"{self._kind} '{name}'")
        vhost = self._to_change(request)  # again: it may have been deleted until the body was received
        is_new = vhost.policies.get(name, self._operator) is None
        with as_bad_request():
            self._broker.policies.set(vhost.name, name, **given, operator=self._operator)
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        vhost = self._to_change(request)
        policy = self._policy(request, vhost)
        self._broker.policies.delete(vhost.name, policy.name, self._operator)
        return await self._changed()

    @property
    def _kind(self) -> str:
        return "operator policy" if self._operator else "policy"

    def _to_change(self, request: Request) -> Vhost:
        return vhost_to_change(request, role_to_change(POLICY_COMPONENTS[self._operator]))

    def _policy(self, request: Request, vhost: Vhost) -> Policy:
        name = name_of(request, "name")
        policy = vhost.policies.get(name, self._operator)
        if policy is None:
            raise ObjectNotFound(f"no {self._kind} '{name}' in vhost '{vhost.name}': create it with PUT")
        return policy


async def explained(request: Request) -> Response:
    """All values from arguments, policies and defaults, and which of them are in effect."""
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
