"""Users: made, changed and deleted by administrators only. A password is hashed in a thread before the user is made."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.permissions import rule_row, topic_row
from leveret.api.views.user import keep_pending_hash, limits_of, user_given, user_row
from leveret.auth.passwords import hash_password
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.http.authorization import name_of
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.values import excerpt
from leveret.session.connection import Connection


def routes(context: ApiContext) -> list[Route]:
    users = Users(context)
    one = "/api/users/{user}"
    return [
        Route("/api/users", users.all),
        Route("/api/users/without-permissions", users.without_permissions),
        Route("/api/users/bulk-delete", users.bulk_delete, methods=["POST"]),
        Route(one, users.show),
        Route(one, users.put, methods=["PUT"]),
        Route(one, users.delete, methods=["DELETE"]),
        Route(f"{one}/permissions", users.permissions),
        Route(f"{one}/topic-permissions", users.topic_permissions),
    ]


def delete_user(broker: Broker, name: str) -> None:
    """With its permissions; its connections are closed, as RabbitMQ does."""
    broker.users.delete(name)
    broker.permissions.clear_user(name)
    for connection in list(broker.registry.connections):
        if isinstance(connection, Connection) and connection.user.name == name:
            connection.force_close(f"user '{name}' is deleted")


class Users:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await self._listed(request, self._broker.users.list())

    async def without_permissions(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        allowed = {rule.user for rule in self._broker.permissions.list()}
        return await self._listed(request, [user for user in self._broker.users.list() if user.name not in allowed])

    async def _listed(self, request: Request, users: Sequence[User]) -> Response:
        return await list_response(self._context, request, users, user_row)

    async def show(self, request: Request) -> Response:
        """Includes the hash of a password that was not used for a login yet, so that the row can be imported again."""
        user = self._user(request)
        await keep_pending_hash(self._context, user)
        return object_response(request, user_row(self._broker.users.get(user.name) or user))

    async def put(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "user")
        given = user_given(name, await read_object(request))
        password_hash = given.password_hash
        if given.password is not None:
            password = given.password
            password_hash = await self._context.in_worker(lambda: hash_password(password))
            refuse_unless_role(request, ADMINISTRATOR)  # again: workers may have been busy for long
        before = self._broker.users.get(name)
        limits = given.limits if given.limits is not None else limits_of(before) if before is not None else {}
        self._broker.users.add(
            name,
            password_hash=password_hash,
            tags=given.tags,
            max_connections=limits.get("max-connections"),
            max_channels=limits.get("max-channels"),
        )
        await wait_until_durable(self._broker)
        return put_response(before is None)

    async def delete(self, request: Request) -> Response:
        delete_user(self._broker, self._user(request).name)
        await wait_until_durable(self._broker)
        return no_content()

    async def bulk_delete(self, request: Request) -> Response:
        """All of them, or none if one is not there."""
        refuse_unless_role(request, ADMINISTRATOR)
        names = (await read_object(request, required=["users"]))["users"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadRequest(f"'users' must be a list of names, not {excerpt(names)}")
        unknown = [name for name in names if name not in self._broker.users]
        if unknown:
            raise BadRequest(f"no user {', '.join(excerpt(name) for name in unknown)}: none was deleted, name others")
        for name in dict.fromkeys(names):
            delete_user(self._broker, name)
        await wait_until_durable(self._broker)
        return no_content()

    async def permissions(self, request: Request) -> Response:
        name = self._user(request).name
        rules = [rule for rule in self._broker.permissions.list() if rule.user == name]
        return await list_response(self._context, request, rules, rule_row)

    async def topic_permissions(self, request: Request) -> Response:
        name = self._user(request).name
        rules = [rule for rule in self._broker.permissions.list_topic() if rule.user == name]
        return await list_response(self._context, request, rules, topic_row)

    def _user(self, request: Request) -> User:
        refuse_unless_role(request, ADMINISTRATOR)
        name = name_of(request, "user")
        user = self._broker.users.get(name)
        if user is None:
            raise ObjectNotFound(f"user '{name}' not found: name an existing one, percent-encoded, in the path")
        return user
