"""Parameters of virtual hosts, global ones, and the limits of virtual hosts and users.

Only parameters with an effect can be set: the limits of a virtual host, and both kinds of policies. As in RabbitMQ,
policies are listed only if their component is requested. Components that the broker uses internally are not exposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of, vhost_lists
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
from leveret.auth.users import User
from leveret.broker.rows import POLICY_COMPONENTS
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import as_bad_request
from leveret.http.authorization import name_of, role_to_change, seen_vhost, vhost_to_change
from leveret.http.bodies import read_object
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.roles import (
    ADMINISTRATOR,
    MANAGEMENT,
    MONITORING,
    POLICYMAKER,
    has_role,
    refuse_unless_role,
    visible_vhosts,
)
from leveret.http.rows import Row, made_rows

PARAMETER_ROWS = made_rows("value", "vhost", "component", "name")
GLOBAL_ROWS = made_rows("name", "value")
VHOST_LIMIT_ROWS, USER_LIMIT_ROWS = made_rows("vhost", "value"), made_rows("user", "value")


def routes(context: ApiContext) -> list[Route]:
    parameters, globals_, limits = Parameters(context), GlobalParameters(context), Limits(context)
    one, one_global = "/api/parameters/{component}/{vhost}/{name}", "/api/global-parameters/{name}"
    of_vhost, of_user = "/api/vhost-limits/{vhost}/{name}", "/api/user-limits/{user}/{name}"
    return [
        Route("/api/parameters", parameters.all),
        Route("/api/parameters/{component}", parameters.of_component),
        Route("/api/parameters/{component}/{vhost}", parameters.of_vhost),
        *routes_of(one, GET=parameters.show, PUT=parameters.put, DELETE=parameters.delete),
        Route("/api/global-parameters", globals_.all),
        *routes_of(one_global, GET=globals_.show, PUT=globals_.put, DELETE=globals_.delete),
        *vhost_lists(context, "/api/vhost-limits", VHOST_LIMIT_ROWS, _vhost_rows),
        *routes_of(of_vhost, PUT=limits.put_of_vhost, DELETE=limits.delete_of_vhost),
        Route("/api/user-limits", limits.of_users),
        Route("/api/user-limits/{user}", limits.of_user),
        *routes_of(of_user, PUT=limits.put_of_user, DELETE=limits.delete_of_user),
    ]


class Parameters(Endpoints):
    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        rows = [row for vhost in visible_vhosts(request) for row in parameters_of(vhost)]
        without_policies = [row for row in rows if row["component"] != POLICY_COMPONENTS[False]]
        return await self._listed(request, without_policies, PARAMETER_ROWS)

    async def of_component(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        component = name_of(request, "component")
        rows = [row for vhost in visible_vhosts(request) for row in parameters_of(vhost, component)]
        return await self._listed(request, rows, PARAMETER_ROWS)

    async def of_vhost(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        rows = parameters_of(seen_vhost(request), name_of(request, "component"))
        return await self._listed(request, rows, PARAMETER_ROWS)

    async def show(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        return object_response(request, self._row(request, seen_vhost(request)))

    async def put(self, request: Request) -> Response:
        vhost = self._to_change(request)
        component, name = name_of(request, "component"), name_of(request, "name")
        value = (await read_object(request, required=["value"]))["value"]
        vhost = self._to_change(request)  # again: it may have been deleted until the body was received
        is_new = name not in [row["name"] for row in parameters_of(vhost, component)]
        with as_bad_request():
            put_parameter(self._broker, vhost, component, name, value)
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        vhost = self._to_change(request)
        row = self._row(request, vhost)
        drop_parameter(self._broker, vhost, row["component"], row["name"])
        return await self._changed()

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


class GlobalParameters(Endpoints):
    """Values that tools store; they have no effect on the broker."""

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        rows = [{"name": name, "value": value} for name, value in self._broker.parameters.all().items()]
        return await self._listed(request, rows, GLOBAL_ROWS)

    async def show(self, request: Request) -> Response:
        name = self._existing(request)
        return object_response(request, {"name": name, "value": self._broker.parameters.all()[name]})

    async def put(self, request: Request) -> Response:
        refuse_unless_role(request, POLICYMAKER)
        name = name_of(request, "name")
        value = (await read_object(request, required=["value"]))["value"]
        is_new = name not in self._broker.parameters
        self._broker.parameters.put(name, value)
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        self._broker.parameters.drop(self._existing(request))
        return await self._changed()

    def _existing(self, request: Request) -> str:
        refuse_unless_role(request, POLICYMAKER)
        name = name_of(request, "name")
        if name not in self._broker.parameters:
            raise ObjectNotFound(f"no global parameter '{name}': create it with PUT")
        return name


class Limits(Endpoints):
    """Changed by administrators only. A negative limit is no limit."""

    # ---- of virtual hosts

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
        return await self._changed()

    # ---- of users

    async def of_users(self, request: Request) -> Response:
        """The limits of all users for monitoring and administrator, else those of the user of the request."""
        asking = refuse_unless_role(request, MANAGEMENT)
        sees_all = has_role(asking, MONITORING)
        users = [user for user in self._broker.users.list() if sees_all or user.name == asking.name]
        return await self._listed(request, _user_rows(users), USER_LIMIT_ROWS)

    async def of_user(self, request: Request) -> Response:
        asking = refuse_unless_role(request, MANAGEMENT)
        name = name_of(request, "user")
        if name != asking.name:
            refuse_unless_role(request, MONITORING)
        user = self._broker.users.get(name)
        if user is None:
            raise ObjectNotFound(f"user '{name}' not found: name an existing one, percent-encoded, in the path")
        return await self._listed(request, _user_rows([user]), USER_LIMIT_ROWS)

    async def put_of_user(self, request: Request) -> Response:
        name = self._limit(request, USER_LIMITS)
        value = limit_of(name, (await read_object(request, required=["value"]))["value"])
        return await self._limit_user(request, name, value)

    async def delete_of_user(self, request: Request) -> Response:
        return await self._limit_user(request, self._limit(request, USER_LIMITS), None)

    async def _limit_user(self, request: Request, name: str, value: int | None) -> Response:
        user = self._broker.users.get(name_of(request, "user"))
        if user is None:
            raise BadRequest(f"user '{name_of(request, 'user')}' not found: create the user first")
        limits: dict[str, int | None] = {**limits_of(user), name: value}
        self._broker.users.set_limits(
            user.name, max_connections=limits.get("max-connections"), max_channels=limits.get("max-channels")
        )
        return await self._changed()

    def _limit(self, request: Request, known: tuple[str, ...]) -> str:
        refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "name")
        if name not in known:
            raise BadRequest(f"limit '{name}' is unknown: known limits are {', '.join(known)}")
        return name


def _vhost_rows(request: Request, vhosts: Sequence[Vhost]) -> list[Row]:
    found = [(vhost.name, vhost_limits_of(vhost)) for vhost in vhosts]
    return [{"vhost": name, "value": limits} for name, limits in found if limits]


def _user_rows(users: Iterable[User]) -> list[Row]:
    found = [(user.name, limits_of(user)) for user in users]
    return [{"user": name, "value": limits} for name, limits in found if limits]
