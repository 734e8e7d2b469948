"""Permissions of users in virtual hosts, and topic permissions: by routing key at topic exchanges."""

from __future__ import annotations

from dataclasses import asdict, fields

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of
from leveret.auth.permissions import Permission, TopicPermission
from leveret.errors import ConfigError
from leveret.http.amqp_values import exchange_name
from leveret.http.authorization import LONGEST_NAME, name_of
from leveret.http.bodies import read_object
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.rows import RowDescription, WholeRows
from leveret.http.values import excerpt, text_of

KINDS = ("configure", "write", "read")


RULE_ROWS: RowDescription[Permission] = WholeRows([each.name for each in fields(Permission)], asdict)
TOPIC_RULE_ROWS: RowDescription[TopicPermission] = WholeRows([each.name for each in fields(TopicPermission)], asdict)


def routes(context: ApiContext) -> list[Route]:
    rules, topics = Rules(context), TopicRules(context)
    of_user = "/api/topic-permissions/{vhost}/{user}"
    return [
        Route("/api/permissions", rules.all),
        *routes_of("/api/permissions/{vhost}/{user}", GET=rules.show, PUT=rules.put, DELETE=rules.delete),
        Route("/api/topic-permissions", topics.all),
        *routes_of(of_user, GET=topics.show, PUT=topics.put, DELETE=topics.delete),
        *routes_of(f"{of_user}/{{exchange}}", GET=topics.show_of_exchange, DELETE=topics.delete_of_exchange),
    ]


class _Pairs(Endpoints):
    """A user and a virtual host, both in the path. Administrators only."""

    def __init__(self, context: ApiContext) -> None:
        super().__init__(context)
        self._permissions = context.broker.permissions

    def _pair(self, request: Request) -> tuple[str, str]:
        refuse_unless_role(request, ADMINISTRATOR)
        return name_of(request, "user"), name_of(request, "vhost")

    def _existing_pair(self, request: Request) -> tuple[str, str]:
        """The user and virtual host of a PUT, which fails with 400 if one of them does not exist, as in RabbitMQ."""
        user, vhost = self._pair(request)
        if user not in self._broker.users:
            raise BadRequest(f"user '{user}' not found: create the user first")
        if vhost not in self._broker.vhosts:
            raise BadRequest(f"vhost '{vhost}' not found: create the vhost first")
        return user, vhost


class Rules(_Pairs):
    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await self._listed(request, self._permissions.list(), RULE_ROWS)

    async def show(self, request: Request) -> Response:
        return object_response(request, RULE_ROWS.row(self._rule(*self._pair(request))))

    async def put(self, request: Request) -> Response:
        self._existing_pair(request)
        given = await read_object(request, required=KINDS)
        patterns = [text_of(given, kind) for kind in KINDS]
        user, vhost = self._existing_pair(request)  # again: one may have been deleted until the body was received
        is_new = self._permissions.get(user, vhost) is None
        try:
            self._permissions.set(user, vhost, *patterns)
        except ConfigError as problem:
            raise BadRequest(f"permissions of user '{user}' in vhost '{vhost}': {problem}") from None
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        rule = self._rule(*self._pair(request))
        self._permissions.clear(rule.user, rule.vhost)
        return await self._changed()

    def _rule(self, user: str, vhost: str) -> Permission:
        rule = self._permissions.get(user, vhost)
        if rule is None:
            raise ObjectNotFound(f"user '{user}' has no permissions in vhost '{vhost}': set them with PUT")
        return rule


class TopicRules(_Pairs):
    """A user has at most one rule per exchange of a virtual host. Without an exchange in the path, all rules of the
    user are returned or deleted."""

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await self._listed(request, self._permissions.list_topic(), TOPIC_RULE_ROWS)

    async def show(self, request: Request) -> Response:
        return await self._listed(request, self._rules(*self._pair(request)), TOPIC_RULE_ROWS)

    async def put(self, request: Request) -> Response:
        self._existing_pair(request)
        given = await read_object(request, required=("exchange", "write", "read"))
        exchange, write, read = (text_of(given, name) for name in ("exchange", "write", "read"))
        if len(exchange.encode()) > LONGEST_NAME:
            raise BadRequest(f"'exchange' must be a string of at most {LONGEST_NAME} bytes, not {excerpt(exchange)}")
        user, vhost = self._existing_pair(request)
        is_new = not self._found(user, vhost)
        try:
            self._permissions.set_topic(user, vhost, exchange, write, read)
        except ConfigError as problem:
            what = f"topic permissions of user '{user}' in vhost '{vhost}' for exchange '{exchange}'"
            raise BadRequest(f"{what}: {problem}") from None
        return await self._put(is_new)

    async def delete(self, request: Request) -> Response:
        user, vhost = self._pair(request)
        self._rules(user, vhost)
        self._permissions.clear_topic(user, vhost)
        return await self._changed()

    async def show_of_exchange(self, request: Request) -> Response:
        return await self._listed(request, [self._rule_of_exchange(request)], TOPIC_RULE_ROWS)

    async def delete_of_exchange(self, request: Request) -> Response:
        rule = self._rule_of_exchange(request)
        self._permissions.clear_topic(rule.user, rule.vhost, rule.exchange)
        return await self._changed()

    def _rule_of_exchange(self, request: Request) -> TopicPermission:
        user, vhost = self._pair(request)
        exchange = exchange_name(request, "exchange")
        for rule in self._found(user, vhost):
            if rule.exchange == exchange:
                return rule
        raise ObjectNotFound(f"user '{user}' has no topic permissions for exchange '{exchange}' in vhost '{vhost}'")

    def _found(self, user: str, vhost: str) -> list[TopicPermission]:
        return [rule for rule in self._permissions.list_topic() if (rule.user, rule.vhost) == (user, vhost)]

    def _rules(self, user: str, vhost: str) -> list[TopicPermission]:
        rules = self._found(user, vhost)
        if not rules:
            raise ObjectNotFound(
                f"user '{user}' has no topic permissions in vhost '{vhost}': it may use any routing key"
            )
        return rules
