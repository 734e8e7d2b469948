"""Parameters of virtual hosts, global ones, and the limits of virtual hosts and users.

Only parameters with an effect can be set: the limits of a virtual host, and both kinds of policies. As in RabbitMQ,
policies are listed only if their component is requested. Components that the broker uses internally are not exposed.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.views.parameter import (
    COMPONENTS,
    VHOST_LIMITS,
    drop_parameter,
    parameters_of,
    put_parameter,
    set_vhost_limits,
    vhost_limits_of,
)
from leveret.api.views.user import USER_LIMITS, limit_of, limits_of
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed
from leveret.http.authorization import name_of, role_to_change, seen_vhost, vhost_to_change
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import (
    ADMINISTRATOR,
    MANAGEMENT,
    MONITORING,
    POLICYMAKER,
    has_role,
    refuse_unless_role,
    visible_vhosts,
)
from leveret.http.rows import Row


def routes(context: ApiContext) -> list[Route]:
    parameters, globals_, limits = Parameters(context), GlobalParameters(context), Limits(context)
    component, one = "/api/parameters/{component}", "/api/parameters/{component}/{vhost}/{name}"
    one_global = "/api/global-parameters/{name}"
    vhost_limit, user_limit = "/api/vhost-limits/{vhost}", "/api/user-limits/{user}"
    return [
        Route("/api/parameters", parameters.all),
        Route(component, parameters.of_component),
        Route(f"{component}/{{vhost}}", parameters.of_vhost),
        Route(one, parameters.show),
        Route(one, parameters.put, methods=["PUT"]),
        Route(one, parameters.delete, methods=["DELETE"]),
        Route("/api/global-parameters", globals_.all),
        Route(one_global, globals_.show),
        Route(one_global, globals_.put, methods=["PUT"]),
        Route(one_global, globals_.delete, methods=["DELETE"]),
        Route("/api/vhost-limits", limits.of_vhosts),
        Route(vhost_limit, limits.of_vhost),
        Route(f"{vhost_limit}/{{name}}", limits.put_of_vhost, methods=["PUT"]),
        Route(f"{vhost_limit}/{{name}}", limits.delete_of_vhost, methods=["DELETE"]),
        Route("/api/user-limits", limits.of_users),
        Route(user_limit, limits.of_user),
        Route(f"{user_limit}/{{name}}", limits.put_of_user, methods=["PUT"]),
        Route(f"{user_limit}/{{name}}", limits.delete_of_user, methods=["DELETE"]),
    ]


class Parameters:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        rows = [row for vhost in visible_vhosts(request) for row in parameters_of(vhost)]
        return await self._listed(request, [row for row in rows if row["component"] != POLICY_COMPONENTS[False]])

    async def of_component(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        component = name_of(request, "component")
        rows = [row for vhost in visible_vhosts(request) for row in parameters_of(vhost, component)]
        return await self._listed(request, rows)

    async def of_vhost(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        return await self._listed(request, parameters_of(seen_vhost(request), name_of(request, "component")))

    async def _listed(self, request: Request, rows: list[Row]) -> Response:
        return await list_response(self._context, request, rows)

    async def show(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        return object_response(request, self._row(request, seen_vhost(request)))

    async def put(self, request: Request) -> Response:
        vhost = self._to_change(request)
        component, name = name_of(request, "component"), name_of(request, "name")
        value = (await read_object(request, required=["value"]))["value"]
        vhost = self._to_change(request)  # it may have gone while the body came
        is_new = name not in [row["name"] for row in parameters_of(vhost, component)]
        try:
            put_parameter(self._broker, vhost, component, name, value)
        except PreconditionFailed as problem:
            raise BadRequest(problem.text) from None
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        vhost = self._to_change(request)
        row = self._row(request, vhost)
        drop_parameter(self._broker, vhost, row["component"], row["name"])
        await wait_until_durable(self._broker)
        return no_content()

    def _to_change(self, request: Request) -> Vhost:
        refuse_unless_role(request, POLICYMAKER)
        component = name_of(request, "component")
        if component not in COMPONENTS:
            raise BadRequest(f"component {component} not found: known components are {', '.join(COMPONENTS)}")
        return vhost_to_change(request, role_to_change(component))

    def _row(self, request: Request, vhost: Vhost) -> Row:
        component, name = name_of(request, "component"), name_of(request, "name")
        for row in parameters_of(vhost, component):
            if row["name"] == name:
                return row
        raise ObjectNotFound(f"no parameter '{name}' of component '{component}' in vhost '{vhost.name}'")


class GlobalParameters:
    """Values that tools keep here; none changes what the broker does."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        rows = [{"name": name, "value": value} for name, value in self._broker.parameters.all().items()]
        return await list_response(self._context, request, rows)

    async def show(self, request: Request) -> Response:
        name = self._existing(request)
        return object_response(request, {"name": name, "value": self._broker.parameters.all()[name]})

    async def put(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        name = name_of(request, "name")
        value = (await read_object(request, required=["value"]))["value"]
        is_new = name not in self._broker.parameters
        self._broker.parameters.put(name, value)
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        self._broker.parameters.drop(self._existing(request))
        await wait_until_durable(self._broker)
        return no_content()

    def _existing(self, request: Request) -> str:
        refuse_unless_role(request, POLICYMAKER)
        name = name_of(request, "name")
        if name not in self._broker.parameters:
            raise ObjectNotFound(f"no global parameter '{name}': a PUT here makes it")
        return name


class Limits:
    """Set and taken away by administrators; a negative limit is none."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    # ---- of virtual hosts

    async def of_vhosts(self, request: Request) -> Response:
        refuse_unless_role(request, MANAGEMENT)
        return await list_response(self._context, request, visible_vhosts(request), _vhost_row)

    async def of_vhost(self, request: Request) -> Response:
        return await list_response(self._context, request, [seen_vhost(request)], _vhost_row)

    async def put_of_vhost(self, request: Request) -> Response:
        name = self._limit(request, VHOST_LIMITS)
        vhost_to_change(request, ADMINISTRATOR)
        value = limit_of(name, (await read_object(request, required=["value"]))["value"])
        return await self._limit_vhost(vhost_to_change(request, ADMINISTRATOR), name, value)

    async def delete_of_vhost(self, request: Request) -> Response:
        name = self._limit(request, VHOST_LIMITS)
        return await self._limit_vhost(vhost_to_change(request, ADMINISTRATOR), name, None)

    async def _limit_vhost(self, vhost: Vhost, name: str, value: int | None) -> Response:
        set_vhost_limits(self._broker, vhost, {**vhost_limits_of(vhost), name: value})
        await wait_until_durable(self._broker)
        return no_content()

    # ---- of users

    async def of_users(self, request: Request) -> Response:
        """The limits of all users for monitoring and administrator, else those of the user of the request."""
        asking = refuse_unless_role(request, MANAGEMENT)
        sees_all = has_role(asking, MONITORING)
        names = [user.name for user in self._broker.users.list() if sees_all or user.name == asking.name]
        return await list_response(self._context, request, names, self._user_row)

    async def of_user(self, request: Request) -> Response:
        asking = refuse_unless_role(request, MANAGEMENT)
        name = name_of(request, "user")
        if name != asking.name:
            refuse_unless_role(request, MONITORING)
        if name not in self._broker.users:
            raise ObjectNotFound(f"user '{name}' not found: name an existing one, percent-encoded, in the path")
        return await list_response(self._context, request, [name], self._user_row)

    async def put_of_user(self, request: Request) -> Response:
        name = self._limit(request, USER_LIMITS)
        value = limit_of(name, (await read_object(request, required=["value"]))["value"])
        return await self._limit_user(request, name, value)

    async def delete_of_user(self, request: Request) -> Response:
        return await self._limit_user(request, self._limit(request, USER_LIMITS), None)

    async def _limit_user(self, request: Request, name: str, value: int | None) -> Response:
        user = self._broker.users.get(name_of(request, "user"))
        if user is None:
            raise BadRequest(
                f"user '{name_of(request, 'user')}' not found: limits are for existing users, make it first"
            )
        limits: dict[str, int | None] = {**limits_of(user), name: value}
        self._broker.users.set_limits(
            user.name, max_connections=limits.get("max-connections"), max_channels=limits.get("max-channels")
        )
        await wait_until_durable(self._broker)
        return no_content()

    def _user_row(self, name: str) -> Row | None:
        user = self._broker.users.get(name)
        limits = {} if user is None else limits_of(user)
        return {"user": name, "value": limits} if limits else None

    def _limit(self, request: Request, known: tuple[str, ...]) -> str:
        refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "name")
        if name not in known:
            raise BadRequest(f"limit '{name}' is unknown: known limits are {', '.join(known)}")
        return name


def _vhost_row(vhost: Vhost) -> Row | None:
    limits = vhost_limits_of(vhost)
    return {"vhost": vhost.name, "value": limits} if limits else None
