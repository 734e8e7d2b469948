"""Users: for administrators only. Passwords are hashed in a thread."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.api.permissions import RULE_ROWS, TOPIC_RULE_ROWS
from leveret.api.views.user import USER_ROWS, keep_pending_hash, limits_of, user_given
from leveret.auth.passwords import hash_password
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.http.authorization import name_of
from leveret.http.bodies import read_object
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.values import excerpt
from leveret.session.connection import Connection


def routes(context: ApiContext) -> list[Route]:
    users, one = Users(context), "/api/users/{user}"
    return [
        Route("/api/users", users.all),
        Route("/api/users/without-permissions", users.without_permissions),
        Route("/api/users/bulk-delete", users.bulk_delete, methods=["POST"]),
        *routes_of(one, GET=users.show, PUT=users.put, DELETE=users.delete),
        Route(f"{one}/permissions", users.permissions),
        Route(f"{one}/topic-permissions", users.topic_permissions),
    ]


def delete_user(broker: Broker, name: str) -> None:
    """Deletes the user with its permissions and closes its connections, as RabbitMQ does."""
    broker.users.delete(name)
    broker.permissions.clear_user(name)
    for connection in list(broker.registry.connections):
        if isinstance(connection, Connection) and connection.user.name == name:
            connection.force_close(f"user '{name}' is deleted")


class Users(Endpoints):
    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await self._listed(request, self._broker.users.list(), USER_ROWS)

    async def without_permissions(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        allowed = {rule.user for rule in self._broker.permissions.list()}
        users = [user for user in self._broker.users.list() if user.name not in allowed]
        return await self._listed(request, users, USER_ROWS)

    async def show(self, request: Request) -> Response:
        """Includes the hash of a password that was not used for a login yet, so that the row can be imported again."""
        user = self._user(request)
        await keep_pending_hash(self._context, user)
        return object_response(request, USER_ROWS.row(self._broker.users.get(user.name) or user))

    async def put(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "user")
        given = user_given(name, await read_object(request))
        password_hash = given.password_hash
        if given.password is not None:
            password = given.password
            password_hash = await self._context.in_worker(lambda: hash_password(password))
            refuse_unless_role(request, ADMINISTRATOR)  # again: the tags may have changed meanwhile
        before = self._broker.users.get(name)
        limits = given.limits if given.limits is not None else limits_of(before) if before is not None else {}
        self._broker.users.add(
            name,
            password_hash=password_hash,
            tags=given.tags,
            max_connections=limits.get("max-connections"),
            max_channels=limits.get("max-channels"),
        )
        return await self._put(before is None)

    async def delete(self, request: Request) -> Response:
        delete_user(self._broker, self._user(request).name)
        return await self._changed()

    async def bulk_delete(self, request: Request) -> Response:
        """Deletes all of them, or none if one does not exist."""
        refuse_unless_role(request, ADMINISTRATOR)
        names = (await read_object(request, required=["users"]))["users"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadRequest(f"'users' must be a list of names, not {excerpt(names)}")
        unknown = [name for name in names if name not in self._broker.users]
        if unknown:
            shown = ", ".join(excerpt(name) for name in unknown)
            raise BadRequest(f"no user {shown}: none was deleted, name existing users only")
        for name in dict.fromkeys(names):
            delete_user(self._broker, name)
        return await self._changed()

    async def permissions(self, request: Request) -> Response:
        name = self._user(request).name
        rules = [rule for rule in self._broker.permissions.list() if rule.user == name]
        return await self._listed(request, rules, RULE_ROWS)

    async def topic_permissions(self, request: Request) -> Response:
        name = self._user(request).name
        rules = [rule for rule in self._broker.permissions.list_topic() if rule.user == name]
        return await self._listed(request, rules, TOPIC_RULE_ROWS)

    def _user(self, request: Request) -> User:
        refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "user")
        user = self._broker.users.get(name)
        if user is None:
            raise ObjectNotFound(f"user '{name}' not found: name an existing one, percent-encoded, in the path")
        return user
