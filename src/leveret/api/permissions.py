"""What users may do in virtual hosts: permissions, and those by routing key on topic exchanges."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.auth.permissions import Permission, TopicPermission
from leveret.errors import ConfigError
from leveret.http.amqp_values import exchange_name
from leveret.http.authorization import LONGEST_NAME, name_of
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.rows import Row
from leveret.http.values import excerpt, text_of

KINDS = ("configure", "write", "read")


def rule_row(rule: Permission) -> Row:
    return {
        "user": rule.user,
        "vhost": rule.vhost,
        "configure": rule.configure,
        "write": rule.write,
        "read": rule.read,
    }


def topic_row(rule: TopicPermission) -> Row:
    return {
        "user": rule.user,
        "vhost": rule.vhost,
        "exchange": rule.exchange,
        "write": rule.write,
        "read": rule.read,
    }


def routes(context: ApiContext) -> list[Route]:
    rules = Rules(context)
    topics = TopicRules(context)
    one, one_topic = "/api/permissions/{vhost}/{user}", "/api/topic-permissions/{vhost}/{user}"
    of_exchange = one_topic + "/{exchange}"
    return [
        Route("/api/permissions", rules.all),
        Route(one, rules.show),
        Route(one, rules.put, methods=["PUT"]),
        Route(one, rules.delete, methods=["DELETE"]),
        Route("/api/topic-permissions", topics.all),
        Route(one_topic, topics.show),
        Route(one_topic, topics.put, methods=["PUT"]),
        Route(one_topic, topics.delete, methods=["DELETE"]),
        Route(of_exchange, topics.show_of_exchange),
        Route(of_exchange, topics.delete_of_exchange, methods=["DELETE"]),
    ]


class _Pairs:
    """A user and a virtual host, both named in the path. Administrators only."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker
        self._permissions = context.broker.permissions

    def _pair(self, request: Request) -> tuple[str, str]:
        refuse_unless_role(request, ADMINISTRATOR)
        return name_of(request, "user"), name_of(request, "vhost")

    def _existing_pair(self, request: Request) -> tuple[str, str]:
        """For a PUT, which RabbitMQ answers with 400 if one of them is not there."""
        user, vhost = self._pair(request)
        if user not in self._broker.users:
            raise BadRequest(f"user '{user}' not found: permissions are for existing users, make it first")
        if vhost not in self._broker.vhosts:
            raise BadRequest(f"vhost '{vhost}' not found: permissions are for existing vhosts, make it first")
        return user, vhost


class Rules(_Pairs):
    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await list_response(self._context, request, self._permissions.list(), rule_row)

    async def show(self, request: Request) -> Response:
        return object_response(request, rule_row(self._rule(*self._pair(request))))

    async def put(self, request: Request) -> Response:
        self._existing_pair(request)
        given = await read_object(request, required=KINDS)
        patterns = [text_of(given, kind) for kind in KINDS]
        user, vhost = self._existing_pair(request)  # one may have gone while the body came
        is_new = self._permissions.get(user, vhost) is None
        try:
            self._permissions.set(user, vhost, *patterns)
        except ConfigError as problem:
            raise BadRequest(f"permissions of user '{user}' in vhost '{vhost}': {problem}") from None
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        rule = self._rule(*self._pair(request))
        self._permissions.clear(rule.user, rule.vhost)
        await wait_until_durable(self._broker)
        return no_content()

    def _rule(self, user: str, vhost: str) -> Permission:
        rule = self._permissions.get(user, vhost)
        if rule is None:
            raise ObjectNotFound(f"user '{user}' has no permissions in vhost '{vhost}': a PUT here gives it some")
        return rule


class TopicRules(_Pairs):
    """A user has at most one rule for each exchange of a virtual host; they are shown and deleted together, or alone
    with the exchange in the path."""

    async def all(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        return await list_response(self._context, request, self._permissions.list_topic(), topic_row)

    async def show(self, request: Request) -> Response:
        rules = self._rules(*self._pair(request))
        return await list_response(self._context, request, rules, topic_row)

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
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def delete(self, request: Request) -> Response:
        user, vhost = self._pair(request)
        self._rules(user, vhost)
        self._permissions.clear_topic(user, vhost)
        await wait_until_durable(self._broker)
        return no_content()

    async def show_of_exchange(self, request: Request) -> Response:
        return await list_response(self._context, request, [self._rule_of_exchange(request)], topic_row)

    async def delete_of_exchange(self, request: Request) -> Response:
        rule = self._rule_of_exchange(request)
        self._permissions.clear_topic(rule.user, rule.vhost, rule.exchange)
        await wait_until_durable(self._broker)
        return no_content()

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
